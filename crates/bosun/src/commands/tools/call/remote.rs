//! A call on a server: a query whose target is the tool, followed to its end.

use std::io::{self, IsTerminal};

use anyhow::Context as _;
use bosun_client::{Client, ClientError, Following, Key, Refusal, Seen};
use serde_json::{Value, json};

use super::{CallResult, INVALID_ARGUMENTS, run_by_client, unknown_tool};
use crate::commands::{
    ask::{Detail, Screen},
    server_options::open_client,
};

/// Runs the tool on the server; Ctrl-C cancels the query.
pub(super) async fn call(
    server: &str,
    key: Option<&Key>,
    namespace: Option<String>,
    tool: &str,
    arguments: &str,
) -> anyhow::Result<CallResult> {
    let client = open_client(server, namespace, key)?;
    let name = Client::new_name("call");
    let body = json!({ "name": name, "input": arguments, "target": { "type": "tool", "name": tool } });
    let following = match Following::create(&client, &name, &body).await {
        Err(ClientError::Refused(refusal)) if refusal.code == "tools_not_found" => {
            let known = client.names("tools").await?;
            return Err(unknown_tool(tool, "on this server", known.iter().map(String::as_str)));
        }
        // The same failure as that of a call in this process.
        Err(ClientError::Refused(Refusal { code, message, details, .. })) if code == INVALID_ARGUMENTS => {
            let message = if details.is_empty() { message } else { details.join("; ") };
            return Ok(CallResult::Failure { code, message });
        }
        following => following?,
    };
    tokio::select! {
        result = follow(following, &client, &name, tool) => result,
        _ = tokio::signal::ctrl_c() => {
            client.cancel(&name).await?;
            Err(anyhow::anyhow!("the call was cancelled; it may have taken effect already"))
        }
    }
}

async fn follow(mut following: Following<'_>, client: &Client, name: &str, tool: &str) -> anyhow::Result<CallResult> {
    // Progress is for people.
    let mut screen = io::stderr().is_terminal().then(|| Screen::new(Detail::Calls));
    for warning in following.warnings() {
        anstream::eprintln!("warning: {warning}");
    }
    let mut finished = Value::Null;
    let mut failure = Value::Null;
    loop {
        let event = match following.next().await? {
            Seen::Event(event) => event,
            // The client reconnects, and the missed events follow.
            Seen::Lost(_) | Seen::Back => continue,
        };
        let data: Value = serde_json::from_str(&event.data).context("an event of the server is not JSON")?;
        match event.name.as_str() {
            "tool_call" => {
                client.cancel(name).await?;
                return Err(run_by_client(tool));
            }
            "approval_required" => {
                anstream::eprintln!("`{tool}` waits for a person: decide with `bosun approvals approve {name}`");
            }
            "tool_progress" => {
                if let Some(screen) = &mut screen {
                    screen.show(&event, &data)?;
                }
            }
            "tool_finished" => finished = data,
            "error" => failure = data,
            "complete" => break,
            _ => {}
        }
    }
    if let Some(screen) = &mut screen {
        screen.end_progress()?;
    }
    if finished["success"] == true {
        return result_of(&finished, client, name).await.map(CallResult::Success);
    }
    let error = if failure.is_null() { finished["error"].clone() } else { failure };
    let text = |field: &str, other: &str| error[field].as_str().unwrap_or(other).to_owned();
    Ok(CallResult::Failure { code: text("code", "canceled"), message: text("message", "the query was cancelled") })
}

/// The result of a finished call; one that is too large for an event is downloaded.
async fn result_of(finished: &Value, client: &Client, name: &str) -> anyhow::Result<Value> {
    if finished.get("largeResult").is_none() {
        return Ok(finished["result"].clone());
    }
    let call = finished["id"].as_str().unwrap_or_default();
    let text = client.result(name, call).await?;
    let is_json = finished["largeResult"]["mediaType"] == "application/json";
    Ok(if is_json { serde_json::from_str(&text)? } else { Value::String(text) })
}
