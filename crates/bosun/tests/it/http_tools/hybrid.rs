//! Example 2 of the RFC: the client brings a search and a fetcher, and the agent has a database inside the server.
//!
//! The tool is the one of `examples/database`; behind it is a service with a real SQLite file.

use std::{fs, path::Path, sync::Mutex};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use rusqlite::{Connection, OpenFlags, types::ValueRef};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::service::{ReceivedRequest, Service};
use crate::{
    program::workspace,
    resources::api,
    support::server::{Server, World},
};

const TOKEN: &str = "Bearer cnry-feedback-5be1c4";

fn fill(file: &Path) {
    let database = Connection::open(file).unwrap();
    database
        .execute_batch(
            r#"CREATE TABLE feedback (product TEXT, rating INTEGER, comment TEXT);
               INSERT INTO feedback VALUES
                   ('CRM', 4, 'Works, but the "price" went up'),
                   ('CRM', 1, 'Too slow'),
                   ('CRM', 2, 'I do not get the "price"; it''s opaque'),
                   ('CRM', 5, 'The "price" is fair'),
                   ('Mail', 1, 'The "price" is absurd');"#,
        )
        .unwrap();
}

/// Runs one statement on a connection that cannot write.
fn select(database: &Connection, asked: &Value) -> rusqlite::Result<Vec<Value>> {
    let mut statement = database.prepare(asked["sql"].as_str().unwrap_or_default())?;
    let names: Vec<_> = statement.column_names().map(str::to_owned).collect();
    let limit = asked["limit"].as_u64().unwrap_or(100);
    let rows = statement.query_map([], |row| {
        let value = |(index, name): (usize, &String)| {
            let value = match row.get_ref(index)? {
                ValueRef::Integer(number) => json!(number),
                ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
                _ => Value::Null,
            };
            Ok((name.clone(), value))
        };
        names.iter().enumerate().map(value).collect::<rusqlite::Result<Map<_, _>>>().map(Value::Object)
    })?;
    rows.take(usize::try_from(limit).unwrap_or(100)).collect()
}

async fn database_service(file: &Path) -> Service {
    let database = Mutex::new(Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap());
    Service::start(move |received: &ReceivedRequest| -> Response {
        if received.header("authorization") != TOKEN {
            return (StatusCode::UNAUTHORIZED, "who are you?").into_response();
        }
        let asked: Value = serde_json::from_str(&received.body).unwrap();
        match select(&database.lock().unwrap(), &asked) {
            Ok(rows) => Json(rows).into_response(),
            Err(error) => (StatusCode::BAD_REQUEST, Json(json!({"error": error.to_string()}))).into_response(),
        }
    })
    .await
}

/// The example with a service of its own, and a server that has it.
struct Example {
    service: Service,
    server: Server,
    _world: World,
    _database: TempDir,
}

impl Example {
    async fn open() -> Self {
        let database = tempfile::tempdir().unwrap();
        let file = database.path().join("feedback.sqlite");
        fill(&file);
        let service = database_service(&file).await;
        let world = world(&service);
        let server = world.start().await;
        Self { service, server, _world: world, _database: database }
    }
}

/// The example, with the address of the test's own service.
fn world(service: &Service) -> World {
    let world = World::new();
    let manifests = world.path("manifests/database");
    fs::create_dir_all(&manifests).unwrap();
    let folder = workspace().join("examples/database");
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let text = fs::read_to_string(entry.path()).unwrap().replace("http://127.0.0.1:8090", &service.url);
        fs::write(manifests.join(entry.file_name()), text).unwrap();
    }
    let secrets = world.path("secrets");
    fs::create_dir_all(secrets.join("default/feedback")).unwrap();
    fs::write(secrets.join("default/feedback/token"), TOKEN).unwrap();
    world.with(&["--secrets", secrets.to_str().unwrap()])
}

/// Delivers the result of the call that the query waits for; the query after it.
async fn deliver(server: &Server, paused: &Value, tool: &str, result: &str) -> Value {
    assert_eq!(
        (&paused["status"], &paused["toolCall"]["name"]),
        (&json!("tool_call_required"), &json!(tool)),
        "{paused}"
    );
    let body = json!({"toolName": tool, "toolResult": result, "continueExecution": true});
    api(server, "POST", "/v1/namespaces/default/queries/research/tool-result", Some(&body)).await.body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_uses_the_clients_tools_and_a_database_inside() {
    let Example { service, server, .. } = &Example::open().await;
    let external = |name: &str, description: &str, properties: Value| {
        json!({"name": name, "description": description, "executionMode": "external",
            "parameters": {"type": "object", "properties": properties}})
    };
    let body = json!({
        "name": "research", "input": "Research competitors for our CRM product", "toolSource": "hybrid",
        "target": {"type": "agent", "name": "competitor-researcher"},
        "externalTools": [
            external("web_search", "Search the web", json!({"query": {"type": "string"}})),
            external("http_request", "Fetch a page", json!({"url": {"type": "string"}, "method": {"type": "string"}})),
        ],
    });
    let paused = api(server, "POST", "/v1/namespaces/default/queries?wait=20s", Some(&body)).await.body;
    let paused = deliver(server, &paused, "web_search", "Rival, Other and three more").await;
    let ended = deliver(server, &paused, "http_request", "Rival: 49 EUR a seat").await;
    assert_eq!(ended["status"], "completed", "{ended}");
    let expect = concat!(
        "Competitors: Rival, Other and three more\n",
        "Their prices: Rival: 49 EUR a seat\n",
        r#"Our customers: [{"rating":2,"comment":"I do not get the \"price\"; it's opaque"},"#,
        r#"{"rating":4,"comment":"Works, but the \"price\" went up"}]"#,
        "\n"
    );
    assert_eq!(ended["response"], expect);
    assert!(!ended.to_string().contains("cnry"), "{ended}");
    let ran: Vec<_> =
        ended["toolExecutionHistory"].as_array().unwrap().iter().map(|entry| &entry["toolName"]).collect();
    assert_eq!(ran, ["web_search", "http_request", "database-query"]);
    let [asked] = &service.received()[..] else { panic!("one request") };
    let sql =
        r#"SELECT rating, comment FROM feedback WHERE product = 'CRM' AND comment LIKE '%"price"%' ORDER BY rating"#;
    assert_eq!(serde_json::from_str::<Value>(&asked.body).unwrap(), json!({"sql": sql, "limit": 2}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_of_the_database_is_an_answer_to_the_model() {
    let Example { server, .. } = &Example::open().await;
    let delete = json!({"sql": "DELETE FROM feedback"});
    let answered = super::call(server, "database-query", &delete).await;
    assert_eq!(answered, ("http_status".to_owned(), "the API answered 400 Bad Request".to_owned()));
    let count = json!({"sql": "SELECT count(*) AS rows FROM feedback"});
    let answered = super::call(server, "database-query", &count).await;
    assert_eq!(answered, ("completed".to_owned(), r#"[{"rows":5}]"#.to_owned()));
}
