//! A conversation with client tools through the official Rust SDK: `a2a-interop <base URL of the server>`.

use std::error::Error;

use a2a::{GetTaskRequest, SendMessageRequest, SendMessageResponse, StreamResponse, Task, TaskState};
use a2a_client::{A2AClient, agent_card::AgentCardResolver, factory::A2AClientFactory, transport::Transport};
use futures::StreamExt as _;
use serde_json::{Value, json};

const URI: &str = "https://bosun.dev/a2a/extensions/client-tools/v1";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = std::env::args().nth(1).ok_or("usage: a2a-interop <base URL of the server>")?;
    let card = AgentCardResolver::new(None).resolve(&server).await?;
    for binding in ["JSONRPC", "HTTP+JSON"] {
        let factory = A2AClientFactory::builder().preferred_bindings(vec![binding.to_owned()]).build();
        let client = factory.create_from_card(&card).await?;
        for is_streamed in [false, true] {
            println!("{}", converse(&client, &format!("{binding}-{is_streamed}"), is_streamed).await?);
        }
    }
    Ok(())
}

async fn converse<T: Transport>(
    client: &A2AClient<T>,
    name: &str,
    is_streamed: bool,
) -> Result<String, Box<dyn Error>> {
    let calculator = json!({
        "name": "calculator", "description": "Evaluates an arithmetic expression",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    });
    let asked = json!({
        "message": {
            "messageId": format!("rust-{name}-1"), "role": "ROLE_USER", "extensions": [URI],
            "parts": [{"text": "What is 25% of 8,432?"}],
        },
        "metadata": {URI: {"tools": [calculator]}},
    });
    let task = send(client, asked, is_streamed).await?;
    assert_eq!(task.status.state, TaskState::InputRequired, "{task:?}");
    let task = json!(task);
    let parts = task["status"]["message"]["parts"].as_array().ok_or("a task that waits says for what")?;
    let call = parts.iter().find_map(|part| part["data"]["toolCalls"].get(0)).ok_or("a call")?;
    assert_eq!(call["function"], json!({"name": "calculator", "arguments": {"expression": "0.25 * 8432"}}));
    let result = json!({"toolCallId": call["id"], "toolName": "calculator", "success": true, "result": "2108"});
    let results = json!({"message": {
        "messageId": format!("rust-{name}-2"), "role": "ROLE_USER", "extensions": [URI],
        "taskId": task["id"], "contextId": task["contextId"], "parts": [{"data": {"toolResults": [result]}}],
    }});
    let done = send(client, results, is_streamed).await?;
    assert_eq!(done.status.state, TaskState::Completed, "{done:?}");
    Ok(json!(done)["artifacts"][0]["parts"][0]["text"].as_str().ok_or("an answer")?.to_owned())
}

/// Sends a message, and returns the task as it is afterwards.
async fn send<T: Transport>(
    client: &A2AClient<T>,
    request: Value,
    is_streamed: bool,
) -> Result<Task, Box<dyn Error>> {
    let request: SendMessageRequest = serde_json::from_value(request)?;
    if !is_streamed {
        return match client.send_message(&request).await? {
            SendMessageResponse::Task(task) => Ok(task),
            SendMessageResponse::Message(message) => Err(format!("a message without a task: {message:?}").into()),
        };
    }
    let mut events = client.send_streaming_message(&request).await?;
    let mut id = None;
    while let Some(event) = events.next().await {
        if let StreamResponse::Task(task) = event? {
            id = Some(task.id);
        }
    }
    let id = json!(id.ok_or("a stream begins with its task")?);
    let get: GetTaskRequest = serde_json::from_value(json!({"id": id}))?;
    Ok(client.get_task(&get).await?)
}
