//! The client of the demonstration: one query, and its stream on the timeline.

use std::io;

use anyhow::{Context, bail};
use bosun_client::{Client, ClientError, Delivered, Event, EventStream, OpenCall};
use serde_json::Value;

use super::timeline::{Emphasis, Side, Timeline};

/// A query from the view of its client.
#[derive(Debug)]
pub(super) struct Run<'a> {
    timeline: &'a Timeline,
    client: Client,
    name: &'static str,
    stream: EventStream,
    last_id: Option<String>,
}

impl<'a> Run<'a> {
    /// Creates the query and begins to read its stream.
    pub(super) async fn create(
        timeline: &'a Timeline,
        server: &str,
        name: &'static str,
        body: &Value,
    ) -> anyhow::Result<Self> {
        let client = Client::new(server)?;
        let stream = client.create(body).await?;
        Ok(Self { timeline, client, name, stream, last_id: None })
    }

    /// Continues with another server, from the last event that was seen.
    pub(super) async fn reattach(self, server: &str) -> anyhow::Result<Self> {
        let client = Client::new(server)?;
        let stream = client.follow(self.name, self.last_id.as_deref()).await?;
        Ok(Self { client, stream, ..self })
    }

    /// Reads until the server hands out a call.
    pub(super) async fn call(&mut self) -> anyhow::Result<OpenCall> {
        let call = self.read_until("tool_call").await?;
        let text =
            |field: &str| call[field].as_str().map(str::to_owned).with_context(|| format!("a call has no `{field}`"));
        Ok(OpenCall { id: text("id")?, name: text("name")?, arguments: call["arguments"].clone(), deadline: None })
    }

    /// Reads until a tool of the server has answered.
    pub(super) async fn inside_result(&mut self) -> anyhow::Result<Value> {
        Ok(self.read_until("tool_finished").await?["result"].clone())
    }

    /// Reads until the agent has answered and the query is complete.
    pub(super) async fn answer(&mut self) -> anyhow::Result<String> {
        let answer = self.read_until("agent_response").await?;
        self.read_until("complete").await?;
        Ok(answer["response"].as_str().unwrap_or_default().to_owned())
    }

    /// Delivers the result of a call.
    pub(super) async fn deliver(&self, call: &OpenCall, result: &str) -> Result<Delivered, ClientError> {
        self.client.deliver(self.name, call, &Ok(result.into())).await
    }

    /// The state of the query.
    pub(super) async fn state(&self) -> anyhow::Result<String> {
        Ok(self.client.get(self.name).await?["state"].as_str().unwrap_or_default().to_owned())
    }

    /// The last journal entry that this client knows to be durable.
    pub(super) fn last_entry(&self) -> &str {
        self.last_id.as_deref().and_then(|id| id.rsplit_once('.')).map_or("0", |(_, entry)| entry)
    }

    async fn read_until(&mut self, wanted: &str) -> anyhow::Result<Value> {
        while let Some(event) = self.stream.next().await? {
            let data: Value = serde_json::from_str(&event.data).context("an event is not JSON")?;
            if let Some(id) = &event.id {
                self.last_id = Some(id.clone());
            }
            self.show(&event, &data)?;
            if event.name == wanted {
                return Ok(data);
            }
            if event.name == "error" || event.name == "complete" {
                bail!("query `{}` ended before `{wanted}`: {data}", self.name);
            }
        }
        bail!("the stream of query `{}` ended before `{wanted}`", self.name)
    }

    fn show(&self, event: &Event, data: &Value) -> io::Result<()> {
        let text = |field: &str| data[field].as_str().unwrap_or_default();
        let timeline = self.timeline;
        let entry = self.last_entry();
        match event.name.as_str() {
            "agent_thinking" => timeline.step(Side::Server, "…", "the model thinks"),
            "tool_call" => {
                let call = format!("tool_call_required: {} {}", text("name"), data["arguments"]);
                timeline.step(Side::Server, "⇠", &call)?;
                timeline.step(Side::Disk, "▪", &format!("the open call is entry {entry} of the query's journal"))
            }
            "tool_started" => {
                timeline.step(Side::Server, "⚙", &format!("runs {} {} itself", text("name"), data["arguments"]))
            }
            "tool_finished" => timeline.step(Side::Server, "✓", &format!("{} = {}", text("name"), data["result"])),
            "tool_result_received" => {
                timeline.step(Side::Disk, "▪", &format!("the result is entry {entry}; the model continues"))
            }
            "agent_response" => {
                timeline.with_emphasis(Side::Server, "✓", Emphasis::Good, &format!("“{}”", text("response")))
            }
            "complete" => timeline.step(Side::Disk, "▪", &format!("completed: entry {entry}, the last one")),
            _ => Ok(()),
        }
    }
}
