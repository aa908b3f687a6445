//! One query, from its creation to its end, and its calls that this client serves.
//!
//! The query belongs to the server: this client may lose its connection, the server may restart, and the stream
//! goes on from the last event that was seen. Calls of one turn run at the same time.

use std::collections::HashSet;

use bosun_core::content::INLINE_BYTES;
use futures_util::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use serde_json::Value;

use super::{
    screen::Screen,
    tools::{LocalTools, result_body},
};
use crate::client::{Client, ClientError, Following, Seen, pause};

/// The maximum number of attempts of a request: with the delays, almost a minute.
const MAX_POSTS: u32 = 30;

#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct Session<'a> {
    pub(super) client: &'a Client,
    pub(super) name: &'a str,
    pub(super) tools: &'a LocalTools,
}

/// The progress of a call on this side.
enum Progress {
    /// Its command has ended.
    Ran { call: String, tool: String, outcome: Result<String, String> },
    /// The server has answered to its result.
    Posted { tool: String, answer: Result<(), ClientError> },
}

impl Session<'_> {
    /// Creates the query, follows it to its end and serves its calls on the way. Whether it completed.
    pub(in crate::commands) async fn play(&self, query: &Value, screen: &mut Screen) -> anyhow::Result<bool> {
        let mut following = Following::create(self.client, self.name, query).await?;
        for warning in following.warnings() {
            screen.warning(&warning)?;
        }
        let mut serving: FuturesUnordered<LocalBoxFuture<'_, Progress>> = FuturesUnordered::new();
        let mut taken = HashSet::new();
        loop {
            let seen = tokio::select! {
                biased;
                Some(progress) = serving.next() => {
                    match progress {
                        Progress::Ran { call, tool, outcome } => {
                            screen.served(&tool, &outcome)?;
                            serving.push(self.bring(call, tool, outcome).boxed_local());
                        }
                        Progress::Posted { tool, answer: Err(error) } if is_overtaken(&error) => {
                            screen.not_needed(&tool, &error)?;
                        }
                        Progress::Posted { answer, .. } => answer?,
                    }
                    continue;
                }
                seen = following.next() => seen?,
            };
            let event = match seen {
                Seen::Event(event) => event,
                Seen::Lost(error) => {
                    screen.lost(&error)?;
                    continue;
                }
                Seen::Back => {
                    screen.back()?;
                    continue;
                }
            };
            let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
            screen.event(&event, &data)?;
            match event.name.as_str() {
                "tool_call" if taken.insert(data["id"].to_string()) => serving.push(self.run(data).boxed_local()),
                "complete" => return Ok(data["status"] == "completed"),
                _ => {}
            }
        }
    }

    /// Cancels the query, also if its creation is still pending. The stream reports how it ended.
    pub(in crate::commands) async fn cancel(&self) {
        for failures in 1..=MAX_POSTS {
            match self.client.cancel(self.name).await {
                Err(error) if error.is_passing() || error.code() == Some("query_not_found") => {}
                // It is cancelled, or had ended before.
                _ => return,
            }
            tokio::time::sleep(pause(failures)).await;
        }
    }

    /// Runs the command of a call.
    async fn run(&self, call: Value) -> Progress {
        let text = |field: &str| call[field].as_str().unwrap_or_default().to_owned();
        let outcome = self.tools.run(&text("name"), &call["arguments"]).await;
        Progress::Ran { call: text("id"), tool: text("name"), outcome }
    }

    /// Posts the result until the server has it: it is recorded once, however often it arrives.
    async fn bring(&self, call: String, tool: String, outcome: Result<String, String>) -> Progress {
        let mut failures = 0;
        loop {
            let brought = match &outcome {
                // As JSON it might be too long for a post.
                Ok(text) if text.len() > INLINE_BYTES => self.client.deliver_text(self.name, &call, text).await,
                outcome => self.client.deliver(self.name, &result_body(&call, &tool, outcome)).await,
            };
            match brought {
                Err(error) if error.is_passing() && failures < MAX_POSTS => failures += 1,
                answer => return Progress::Posted { tool, answer: answer.map(|_| ()) },
            }
            tokio::time::sleep(pause(failures)).await;
        }
    }
}

/// The call already has its outcome, or the query has ended: the stream reports the rest.
fn is_overtaken(error: &ClientError) -> bool {
    matches!(error.code(), Some("already_resolved" | "call_expired" | "call_cancelled" | "call_not_waiting"))
}
