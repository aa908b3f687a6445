//! The process that inside tools call: MCP servers over streamable HTTP, and a plain HTTP API.
//!
//! `/mcp` answers at once, as JSON and without sessions, with 40 tools; what follows in the path makes it another
//! server. `/silent` never answers. `/api` echoes a parameter.

use std::sync::LazyLock;

use axum::{
    Json, Router,
    extract::RawQuery,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use crate::listen;

/// The tools of each server.
pub(crate) const TOOLS: usize = 40;

static LIST: LazyLock<Value> = LazyLock::new(|| {
    let text = json!({"type": "string", "description": "What the tool should do, in one sentence"});
    let limit = json!({"type": "integer", "minimum": 1, "maximum": 100, "description": "The number of results"});
    let tool = |number: usize| {
        json!({
            "name": format!("tool_{number}"),
            "description": format!("Looks up records of kind {number}, by a text that describes them, and returns the best matches"),
            "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"text": text, "limit": limit}, "required": ["text"]},
        })
    };
    json!({"tools": (0..TOOLS).map(tool).collect::<Vec<_>>()})
});

pub(crate) async fn serve() -> anyhow::Result<()> {
    let router = Router::new()
        .route("/mcp", post(answer))
        .route("/mcp/{server}", post(answer))
        .route("/silent/{server}", post(std::future::pending::<()>))
        .route("/api", get(echo));
    listen::until_stdin_ends(router).await
}

async fn echo(RawQuery(query): RawQuery) -> Response {
    let body = json!({"text": query.unwrap_or_default()}).to_string();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn answer(Json(message): Json<Value>) -> Response {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "peer", "version": "1"},
        }),
        "tools/list" => LIST.clone(),
        "tools/call" => json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}),
        _ if message.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
        other => {
            let error = json!({"code": -32_601, "message": format!("Method not found: {other}")});
            return Json(json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}
