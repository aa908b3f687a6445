//! Operations that only MCP servers have: approving changed definitions.

use axum::{extract::State, response::Response};
use bosun_reading::{
    Field, FieldTable,
    table::{list_schema, text_schema},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    AppState,
    ark::params::{Params, path::ResourcePath},
    auth::gate::Caller,
    http::{
        answer::Json,
        error::{ApiError, Code},
        extract::OptionalJson,
        report::RequestReport,
        warning::with_warnings,
    },
};

/// The body of an approval.
pub(crate) const APPROVE: FieldTable = &[Field::new("tools", || list_schema(text_schema()))];

/// What was approved.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Approved {
    /// The names of the tools in the catalogue.
    approved: Vec<String>,
}

/// `POST …/mcp-servers/{name}/approve`
pub(crate) async fn approve_server(
    State(app): State<AppState>,
    caller: Caller,
    Params { warnings, .. }: Params,
    ResourcePath { namespace, name }: ResourcePath,
    body: OptionalJson,
) -> Result<Response, ApiError> {
    let (tools, warnings) = body.read(|body| read(warnings, body))?;
    let approved = app.engine.approve_tools(caller.actor, namespace, name, tools).await?;
    Ok(with_warnings(Json(Approved { approved }), &warnings))
}

/// The tools to approve; an empty list means all.
fn read(warnings: Vec<String>, body: Option<Value>) -> Result<(Vec<String>, Vec<String>), ApiError> {
    let Some(body) = body else { return Ok((Vec::new(), warnings)) };
    let report = RequestReport::new(Code::InvalidRequest, warnings);
    let fields = report.body(body)?.with_table(APPROVE);
    let mut tools = Vec::new();
    fields.each_of("tools", fields.list("tools"), |path, item| match item {
        Value::String(name) => tools.push(name),
        _ => fields.report().fault(path, "wrong_type", "must be the name of a tool"),
    });
    fields.finish();
    drop(fields);
    Ok((tools, report.conclude()?))
}
