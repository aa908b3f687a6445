//! Conversations: joining one, listing, reading and forgetting them.
//!
//! ARK has called the key of a conversation `sessionId` first and `conversationId` since, and its lists after
//! them; its memory service shows messages one by one, each with its place. Both names, both paths and both
//! lists are served from what the store has: what completed queries have said.

use bosun_core::{Namespace, message};
use bosun_engine::{
    AskedConversation, Engine,
    store::conversations::{Listing, Said, Wanted},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{options::Options, reference, wire};
use crate::http::{
    error::{ApiError, Code, clip, memory_not_found},
    json::{Findings, Object},
};

/// How long the name of a conversation may be, in bytes.
const LONGEST_ID: usize = bosun_core::ceiling::CONVERSATION_ID_BYTES;

/// A conversation in a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedConversation {
    conversation_id: String,
    /// The same by its older name.
    session_id: String,
    memory_name: String,
    /// How many it has.
    messages: u64,
    /// The query that added to it last.
    last_query_id: String,
    last_updated: String,
}

/// One message in its place.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredMessage {
    timestamp: String,
    memory_name: String,
    conversation_id: String,
    /// The same by its older name.
    session_id: String,
    query_id: String,
    query_name: String,
    /// In OpenAI's form.
    message: Value,
    /// Its number in the conversation; the first is 1.
    sequence: u64,
}

/// One conversation with what was said in it, from the beginning, in pages.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Conversation {
    conversation_id: String,
    /// Absent if several memories have a conversation of this name; each message says which it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_name: Option<String>,
    messages: Vec<StoredMessage>,
    /// Of this page.
    count: usize,
    /// Of the whole conversation.
    total: u64,
    #[serde(rename = "continue_token", skip_serializing_if = "Option::is_none")]
    continue_token: Option<String>,
}

/// What a query says about its conversation, and the session that it groups itself under.
#[derive(Debug, Default)]
pub(super) struct Joined {
    pub(super) session_id: Option<String>,
    pub(super) conversation: AskedConversation,
}

/// Reads `memory`, `sessionId`, `conversationId` and `conversationPolicy`.
pub(super) fn join(fields: &mut Object, namespace: &Namespace, findings: &mut Findings) -> Joined {
    let memory = read_memory(fields, namespace, findings);
    let session = read_id(fields, "sessionId", findings);
    let conversation = read_id(fields, "conversationId", findings);
    let path = fields.path_of("conversationPolicy");
    let alone = match fields.text("conversationPolicy", findings).as_deref() {
        None | Some("allow") => false,
        Some("reject") => true,
        Some(other) => {
            let message = format!("must be `allow` or `reject`, not `{}`", clip(other));
            findings.fault(path, "unknown_policy", message);
            false
        }
    };
    Joined {
        session_id: session.clone().or_else(|| conversation.clone()),
        conversation: AskedConversation { memory, id: conversation.or(session), alone },
    }
}

fn read_memory(fields: &mut Object, namespace: &Namespace, findings: &mut Findings) -> Option<String> {
    let path = fields.path_of("memory");
    reference::read("memories", path, fields.take("memory")?, namespace, findings)
}

fn read_id(fields: &mut Object, name: &str, findings: &mut Findings) -> Option<String> {
    let path = fields.path_of(name);
    let id = fields.text(name, findings).filter(|id| !id.is_empty())?;
    if id.len() > LONGEST_ID || id.chars().any(char::is_control) {
        let message = format!("must have at most {LONGEST_ID} bytes and no control characters");
        findings.fault(path, "invalid_id", message);
        return None;
    }
    Some(id)
}

/// `GET …/conversations`
pub(super) async fn list(engine: &Engine, options: &Options) -> Result<wire::List<ListedConversation>, ApiError> {
    let wanted = options.conversations.clone();
    let listed = engine.conversations(&options.namespace(), &wanted, options.before()?, options.limit()).await?;
    let continue_token = listed.items.last().filter(|_| listed.more).map(|last| last.latest.to_string());
    let items: Vec<_> = listed
        .items
        .into_iter()
        .map(|conversation| ListedConversation {
            session_id: conversation.key.id.clone(),
            conversation_id: conversation.key.id,
            memory_name: conversation.key.memory,
            messages: conversation.messages,
            last_query_id: conversation.latest.to_string(),
            last_updated: conversation.updated_at.to_rfc3339(),
        })
        .collect();
    Ok(wire::List { count: items.len(), items, total: listed.total, continue_token, remaining_item_count: None })
}

/// `GET …/memory-messages`
pub(super) async fn messages(engine: &Engine, options: &Options) -> Result<wire::List<StoredMessage>, ApiError> {
    let said = said(engine, options, &options.conversations).await?;
    let continue_token = token(&said);
    let items: Vec<_> = said.items.iter().flat_map(stored).collect();
    Ok(wire::List { count: items.len(), items, total: said.total, continue_token, remaining_item_count: None })
}

/// `GET …/conversations/{id}`
pub(super) async fn get(engine: &Engine, options: &Options) -> Result<Conversation, ApiError> {
    let wanted = Wanted { id: Some(options.call.clone()), ..options.conversations.clone() };
    read(engine, options, wanted).await
}

/// `GET …/memories/{name}/conversations/{id}/messages`
pub(super) async fn get_in_memory(engine: &Engine, options: &Options) -> Result<Conversation, ApiError> {
    let namespace = options.namespace();
    if engine.registry().window(&namespace, &options.name).is_none() {
        return Err(memory_not_found(namespace.as_str(), &options.name));
    }
    let wanted = Wanted {
        memory: Some(options.name.clone()),
        id: Some(options.call.clone()),
        query: options.conversations.query.clone(),
    };
    read(engine, options, wanted).await
}

async fn read(engine: &Engine, options: &Options, wanted: Wanted) -> Result<Conversation, ApiError> {
    let said = said(engine, options, &wanted).await?;
    if said.total == 0 {
        return Err(not_found(options));
    }
    let mut memories: Vec<_> = said.items.iter().map(|said| &said.key.memory).collect();
    memories.dedup();
    let continue_token = token(&said);
    let memory_name =
        wanted.memory.or_else(|| memories.first().filter(|_| memories.len() == 1).map(|name| (*name).clone()));
    let messages: Vec<_> = said.items.iter().flat_map(stored).collect();
    Ok(Conversation {
        conversation_id: options.call.clone(),
        memory_name,
        count: messages.len(),
        messages,
        total: said.total,
        continue_token,
    })
}

/// `DELETE …/conversations`
pub(super) async fn forget_all(engine: &Engine, options: &Options) -> Result<(), ApiError> {
    engine.forget(options.actor().clone(), options.namespace(), options.conversations.clone()).await?;
    Ok(())
}

/// `DELETE …/conversations/{id}`, and `DELETE …/conversations/{id}/queries/{name}/messages`
pub(super) async fn forget(engine: &Engine, options: &Options) -> Result<(), ApiError> {
    let query = Some(options.name.clone()).filter(|name| !name.is_empty());
    let wanted = Wanted { id: Some(options.call.clone()), query, ..options.conversations.clone() };
    match engine.forget(options.actor().clone(), options.namespace(), wanted).await? {
        0 => Err(not_found(options)),
        _ => Ok(()),
    }
}

async fn said(engine: &Engine, options: &Options, wanted: &Wanted) -> Result<Listing<Said>, ApiError> {
    Ok(engine.said(&options.namespace(), wanted, options.before()?, options.limit()).await?)
}

/// Pages end between queries.
fn token(said: &Listing<Said>) -> Option<String> {
    said.items.last().filter(|_| said.more).map(|last| last.query.to_string())
}

fn stored(said: &Said) -> impl Iterator<Item = StoredMessage> {
    (said.first..).zip(said.messages.iter()).map(|(sequence, message)| StoredMessage {
        timestamp: said.at.to_rfc3339(),
        memory_name: said.key.memory.clone(),
        conversation_id: said.key.id.clone(),
        session_id: said.key.id.clone(),
        query_id: said.query.to_string(),
        query_name: said.name.to_string(),
        message: message::write(message),
        sequence,
    })
}

/// The same for a conversation that never was, one of another namespace, and a query that said nothing in it.
fn not_found(options: &Options) -> ApiError {
    let id = clip(&options.call);
    ApiError::new(
        Code::ConversationNotFound,
        format!("Conversation '{id}' not found in namespace {}, or without such messages", options.namespace()),
    )
}
