//! Messages of protocol buffers, to and from the JSON that the other bindings read and write.
//!
//! The crate `a2a-pb` has the messages of the specification with their normative JSON form. A request is read as JSON
//! within the same bounds as any other body.

use a2a_pb::protojson as pb;
use axum::body::Bytes;
use bosun_core::ceiling::JSON_MEMORY_BYTES;
use prost::Message as _;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    super::error::{A2aError, ErrorKind},
    frame,
};
use crate::http::{
    error::{ApiError, Code, internal},
    extract,
};

/// How the messages of one method are read and written.
#[derive(Clone, Copy)]
pub(super) struct Codec {
    pub(super) read: fn(&[u8]) -> Result<Value, A2aError>,
    pub(super) write: fn(Value) -> Result<Bytes, A2aError>,
}

fn of<Asked, Answered>() -> Codec
where
    Asked: prost::Message + Default + Serialize,
    Answered: prost::Message + DeserializeOwned,
{
    Codec { read: read::<Asked>, write: write::<Answered> }
}

/// The messages of a method. Those that answer a stream are written as [events](write_event).
pub(super) fn codec(method: &str) -> Option<Codec> {
    Some(match method {
        "SendMessage" => Codec { read: read_sent, write: write::<pb::SendMessageResponse> },
        "SendStreamingMessage" => Codec { read: read_sent, write: write::<pb::StreamResponse> },
        "GetTask" => of::<pb::GetTaskRequest, pb::Task>(),
        "ListTasks" => of::<pb::ListTasksRequest, pb::ListTasksResponse>(),
        "CancelTask" => of::<pb::CancelTaskRequest, pb::Task>(),
        "SubscribeToTask" => of::<pb::SubscribeToTaskRequest, pb::StreamResponse>(),
        "CreateTaskPushNotificationConfig" => of::<pb::TaskPushNotificationConfig, pb::TaskPushNotificationConfig>(),
        "GetTaskPushNotificationConfig" => {
            of::<pb::GetTaskPushNotificationConfigRequest, pb::TaskPushNotificationConfig>()
        }
        "ListTaskPushNotificationConfigs" => {
            of::<pb::ListTaskPushNotificationConfigsRequest, pb::ListTaskPushNotificationConfigsResponse>()
        }
        // Its answer is `google.protobuf.Empty`.
        "DeleteTaskPushNotificationConfig" => {
            Codec { read: read::<pb::DeleteTaskPushNotificationConfigRequest>, write: |_| Ok(frame::write(&())) }
        }
        "GetExtendedAgentCard" => of::<pb::GetExtendedAgentCardRequest, pb::AgentCard>(),
        _ => return None,
    })
}

/// A request of which only the number of parts is read. An empty message takes no memory.
#[derive(Clone, PartialEq, prost::Message)]
struct CountedRequest {
    #[prost(message, optional, tag = "2")]
    message: Option<CountedParts>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CountedParts {
    #[prost(message, repeated, tag = "5")]
    parts: Vec<()>,
}

/// A part takes two bytes of a request and more than a hundred of memory, so parts are counted before they are read.
fn read_sent(bytes: &[u8]) -> Result<Value, A2aError> {
    const PARTS: usize = JSON_MEMORY_BYTES / size_of::<pb::Part>();
    let counted = CountedRequest::decode(bytes).map_err(unreadable)?;
    let parts = counted.message.map_or(0, |message| message.parts.len());
    if parts > PARTS {
        let message = format!("the message has {parts} parts; {PARTS} are the most");
        return Err(ApiError::new(Code::PayloadTooLarge, message).into());
    }
    read::<pb::SendMessageRequest>(bytes)
}

fn unreadable(why: impl std::fmt::Display) -> A2aError {
    A2aError::new(ErrorKind::Parse, format!("the message is not readable: {why}"))
}

fn read<T: prost::Message + Default + Serialize>(bytes: &[u8]) -> Result<Value, A2aError> {
    let message = T::decode(bytes).map_err(unreadable)?;
    // As text, so that depth and size have the limits of every body.
    let text = serde_json::to_vec(&message).map_err(unreadable)?;
    Ok(extract::parse(&text)?)
}

fn write<T: prost::Message + DeserializeOwned>(value: Value) -> Result<Bytes, A2aError> {
    match serde_json::from_value::<T>(value) {
        Ok(message) => Ok(frame::write(&message)),
        Err(error) => {
            tracing::error!(error = %error, "an answer has no form in protocol buffers");
            Err(internal().into())
        }
    }
}

/// One event of a stream; empty, and so left out, if it cannot be written.
pub(crate) fn write_event(event: Value) -> Bytes {
    write::<pb::StreamResponse>(event).unwrap_or_default()
}
