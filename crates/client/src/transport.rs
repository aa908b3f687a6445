//! The protocols that a question is asked over.
//!
//! The loop in [`question`](crate::question) is the same for all of them: it reads events, runs calls and delivers their
//! outcomes. A transport creates or finds the query, reports what happens to it in the events of the REST API, and
//! sends outcomes and decisions.

use serde_json::{Map, Value, json};

use crate::{
    Client, ClientError, ClientTools, Decision, Following, OpenCall,
    a2a::{A2aAgent, TaskEvents},
    retry::retrying,
    timeline::{Timeline, TimelineItem},
};

/// A question that has not been sent.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) input: String,
    pub(crate) conversation: Option<String>,
    /// The task that the input is for, if it begins no new one. Only A2A has it.
    pub(crate) task: Option<String>,
    /// Further fields of the REST API's request.
    pub(crate) fields: Map<String, Value>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport<'a> {
    Rest(&'a Client),
    A2a(&'a A2aAgent),
}

/// A query that is followed.
pub(crate) struct FollowedQuery<'a> {
    /// The name of the query, or the id of the task.
    pub(crate) id: String,
    pub(crate) events: EventSource<'a>,
    pub(crate) warnings: Vec<String>,
    /// Whether the stream may begin with calls that have their results already.
    pub(crate) is_replayed: bool,
}

pub(crate) enum EventSource<'a> {
    Rest(Timeline<'a>),
    A2a(Box<TaskEvents<'a>>),
}

impl EventSource<'_> {
    /// The next item. To be called until an event says that the query has ended. May be dropped at any time.
    pub(crate) async fn next(&mut self) -> Result<TimelineItem, ClientError> {
        match self {
            Self::Rest(timeline) => timeline.next().await,
            Self::A2a(events) => events.next().await,
        }
    }
}

impl<'a> Transport<'a> {
    /// Creates the query of a question; one that was created under this name before is found.
    pub(crate) async fn create(
        self,
        name: &str,
        asked: Asked,
        tools: Option<&ClientTools>,
    ) -> Result<FollowedQuery<'a>, ClientError> {
        match self {
            Self::Rest(client) => {
                let mut body = asked.fields;
                body.insert("name".into(), name.into());
                body.insert("input".into(), asked.input.into());
                body.extend(asked.conversation.map(|id| ("conversationId".to_owned(), id.into())));
                body.extend(tools.map(|tools| ("externalTools".to_owned(), tools.definitions().into())));
                let following = Following::create(client, name, &Value::Object(body)).await?;
                let (warnings, is_replayed) = (following.warnings(), following.is_replayed());
                let events = EventSource::Rest(Timeline::new(client, following));
                Ok(FollowedQuery { id: name.to_owned(), events, warnings, is_replayed })
            }
            Self::A2a(agent) => {
                let events = TaskEvents::create(agent, name, asked, tools).await?;
                Ok(Self::of_task(events))
            }
        }
    }

    /// Follows a query that exists.
    pub(crate) fn resume(self, id: String) -> FollowedQuery<'a> {
        match self {
            Self::Rest(client) => {
                let events = EventSource::Rest(Timeline::new(client, Following::resume(client, &id)));
                FollowedQuery { id, events, warnings: Vec::new(), is_replayed: true }
            }
            Self::A2a(agent) => Self::of_task(TaskEvents::resume(agent, id)),
        }
    }

    fn of_task(events: TaskEvents<'a>) -> FollowedQuery<'a> {
        let id = events.task().to_owned();
        // A status lists the calls that are open, and no others.
        FollowedQuery { id, events: EventSource::A2a(Box::new(events)), warnings: Vec::new(), is_replayed: false }
    }

    /// Sends the outcome of a call. Safe to repeat.
    pub(crate) async fn deliver(
        self,
        id: &str,
        call: &OpenCall,
        outcome: &Result<Value, String>,
    ) -> Result<(), ClientError> {
        match self {
            Self::Rest(client) => client.deliver(id, call, outcome).await.map(drop),
            Self::A2a(agent) => agent.deliver(id, call, outcome).await,
        }
    }

    /// Sends a decision about a call; `hash` is that of the arguments that were decided on.
    pub(crate) async fn decide(
        self,
        id: &str,
        call: &str,
        hash: &Value,
        decision: &Decision,
    ) -> Result<(), ClientError> {
        match self {
            Self::Rest(client) => client.decide(id, call, hash, decision).await.map(drop),
            Self::A2a(agent) => agent.decide(id, call, hash, decision).await,
        }
    }

    /// Whether a call waits for its result.
    pub(crate) async fn is_open(self, id: &str, call: &str) -> Result<bool, ClientError> {
        match self {
            Self::Rest(client) => {
                let query = retrying(|| client.get(id)).await?;
                Ok(query["toolCalls"].as_array().into_iter().flatten().any(|open| open["id"] == call))
            }
            Self::A2a(_) => Ok(true),
        }
    }
}

/// A decision as both protocols write it.
pub(crate) fn written_decision(call: &str, hash: &Value, decision: &Decision) -> Value {
    let mut written = match decision {
        Decision::Approve => json!({"decision": "approved"}),
        Decision::Reject { reason: None } => json!({"decision": "rejected"}),
        Decision::Reject { reason } => json!({"decision": "rejected", "reason": reason}),
    };
    written["toolCallId"] = call.into();
    written["hash"] = hash.clone();
    written
}
