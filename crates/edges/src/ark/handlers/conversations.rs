//! Handlers of conversations: list, read and delete them.
//!
//! ARK first called the key of a conversation `sessionId` and now calls it `conversationId`, and has lists under both
//! names; its memory service shows messages one by one, each with its position. Both names, both paths and both
//! lists are served from what the store has: the messages of completed queries.

use axum::{extract::State, http::StatusCode, response::Response};
use bosun_core::{Namespace, message};
use bosun_engine::{
    Engine,
    store::conversations::{ConversationTurn, Listing, WantedConversations},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::namespaces;
use crate::{
    AppState,
    ark::{
        params::{
            ConversationFilter, MemoryFilter, MessageFilter, Paging, Params, QueryToken,
            path::{ConversationPath, ConversationQueryPath, MemoryConversationPath},
        },
        wire,
    },
    auth::gate::{Caller, RequestNamespace},
    http::{
        answer::Json,
        error::{ApiError, Code, clip, memory_not_found},
        warning::with_warnings,
    },
};

/// The conversations of a list.
pub(crate) type ConversationListParams = (Paging<QueryToken>, MemoryFilter, ConversationFilter, MessageFilter);
/// The conversations to delete.
pub(crate) type DeleteParams = (MemoryFilter, ConversationFilter, MessageFilter);
/// The messages of one conversation.
pub(crate) type GetParams = (Paging<QueryToken>, MemoryFilter, MessageFilter);
/// The messages of one conversation of one memory.
pub(crate) type GetInMemoryParams = (Paging<QueryToken>, MessageFilter);

/// A conversation in a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedConversation {
    conversation_id: String,
    /// The same by its older name.
    session_id: String,
    memory_name: String,
    /// The number of its messages.
    messages: u64,
    /// The query that added to it last.
    last_query_id: String,
    last_updated: String,
}

/// One message with its position.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredMessage {
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

/// One conversation with its messages, from the beginning, in pages.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationPage {
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

/// `GET …/conversations`
pub(crate) async fn list_conversations(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { given: (paging, memory, conversation, messages), warnings }: Params<ConversationListParams>,
) -> Result<Response, ApiError> {
    namespaces::require(&app, &caller, &namespace).await?;
    let wanted = wanted(memory, conversation, messages);
    let listed = app.engine.conversations(&namespace, &wanted, paging.before()?, paging.limit()).await?;
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
    let count = items.len();
    let list = wire::List { count, items, total: listed.total, continue_token, remaining_item_count: None };
    Ok(with_warnings(Json(list), &warnings))
}

/// `GET …/memory-messages`
pub(crate) async fn list_messages(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { given: (paging, memory, conversation, messages), warnings }: Params<ConversationListParams>,
) -> Result<Response, ApiError> {
    namespaces::require(&app, &caller, &namespace).await?;
    let wanted = wanted(memory, conversation, messages);
    let listed = app.engine.conversation_turns(&namespace, &wanted, paging.before()?, paging.limit()).await?;
    let continue_token = token(&listed);
    let items: Vec<_> = listed.items.iter().flat_map(stored).collect();
    let count = items.len();
    let list = wire::List { count, items, total: listed.total, continue_token, remaining_item_count: None };
    Ok(with_warnings(Json(list), &warnings))
}

/// `GET …/conversations/{id}`
pub(crate) async fn get_conversation(
    State(app): State<AppState>,
    Params { given: (paging, memory, messages), warnings }: Params<GetParams>,
    path: ConversationPath,
) -> Result<Response, ApiError> {
    let wanted =
        WantedConversations { memory: memory.memory, id: Some(path.conversation_id.clone()), query: messages.query };
    Ok(with_warnings(Json(read(&app.engine, &path, &paging, wanted).await?), &warnings))
}

/// `GET …/memories/{name}/conversations/{id}/messages`
pub(crate) async fn get_memory_messages(
    State(app): State<AppState>,
    Params { given: (paging, messages), warnings }: Params<GetInMemoryParams>,
    MemoryConversationPath { memory, conversation }: MemoryConversationPath,
) -> Result<Response, ApiError> {
    if app.engine.registry().window(&conversation.namespace, &memory).is_none() {
        return Err(memory_not_found(conversation.namespace.as_str(), &memory));
    }
    let wanted = WantedConversations {
        memory: Some(memory),
        id: Some(conversation.conversation_id.clone()),
        query: messages.query,
    };
    Ok(with_warnings(Json(read(&app.engine, &conversation, &paging, wanted).await?), &warnings))
}

/// `DELETE …/conversations`
pub(crate) async fn delete_conversations(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { given: (memory, conversation, messages), warnings }: Params<DeleteParams>,
) -> Result<Response, ApiError> {
    let wanted = wanted(memory, conversation, messages);
    app.engine.delete_conversations(caller.actor, Namespace::clone(&namespace), wanted).await?;
    Ok(with_warnings(StatusCode::NO_CONTENT, &warnings))
}

/// `DELETE …/conversations/{id}`
pub(crate) async fn delete_conversation(
    State(app): State<AppState>,
    caller: Caller,
    Params { given: memory, warnings }: Params<MemoryFilter>,
    path: ConversationPath,
) -> Result<Response, ApiError> {
    delete_messages(&app.engine, caller, &path, memory, None).await?;
    Ok(with_warnings(StatusCode::NO_CONTENT, &warnings))
}

/// `DELETE …/conversations/{id}/queries/{name}/messages`
pub(crate) async fn delete_conversation_messages(
    State(app): State<AppState>,
    caller: Caller,
    Params { given: memory, warnings }: Params<MemoryFilter>,
    ConversationQueryPath { conversation, query }: ConversationQueryPath,
) -> Result<Response, ApiError> {
    delete_messages(&app.engine, caller, &conversation, memory, Some(query)).await?;
    Ok(with_warnings(StatusCode::NO_CONTENT, &warnings))
}

fn wanted(memory: MemoryFilter, conversation: ConversationFilter, messages: MessageFilter) -> WantedConversations {
    WantedConversations { memory: memory.memory, id: conversation.conversation, query: messages.query }
}

async fn read(
    engine: &Engine,
    path: &ConversationPath,
    paging: &Paging<QueryToken>,
    wanted: WantedConversations,
) -> Result<ConversationPage, ApiError> {
    let listed = engine.conversation_turns(&path.namespace, &wanted, paging.before()?, paging.limit()).await?;
    if listed.total == 0 {
        return Err(not_found(path));
    }
    let mut memories: Vec<_> = listed.items.iter().map(|turn| &turn.key.memory).collect();
    memories.dedup();
    let continue_token = token(&listed);
    let memory_name =
        wanted.memory.or_else(|| memories.first().filter(|_| memories.len() == 1).map(|name| (*name).clone()));
    let messages: Vec<_> = listed.items.iter().flat_map(stored).collect();
    Ok(ConversationPage {
        conversation_id: path.conversation_id.clone(),
        memory_name,
        count: messages.len(),
        messages,
        total: listed.total,
        continue_token,
    })
}

/// Deletes the messages of a conversation, or those of one query in it.
async fn delete_messages(
    engine: &Engine,
    caller: Caller,
    path: &ConversationPath,
    memory: MemoryFilter,
    query: Option<String>,
) -> Result<(), ApiError> {
    let wanted = WantedConversations { memory: memory.memory, id: Some(path.conversation_id.clone()), query };
    match engine.delete_conversations(caller.actor, path.namespace.clone(), wanted).await? {
        0 => Err(not_found(path)),
        _ => Ok(()),
    }
}

/// Pages end between queries.
fn token(listed: &Listing<ConversationTurn>) -> Option<String> {
    listed.items.last().filter(|_| listed.more).map(|last| last.query.to_string())
}

fn stored(turn: &ConversationTurn) -> impl Iterator<Item = StoredMessage> {
    (turn.first..).zip(turn.messages.iter()).map(|(sequence, message)| StoredMessage {
        timestamp: turn.at.to_rfc3339(),
        memory_name: turn.key.memory.clone(),
        conversation_id: turn.key.id.clone(),
        session_id: turn.key.id.clone(),
        query_id: turn.query.to_string(),
        query_name: turn.name.to_string(),
        message: message::write(message),
        sequence,
    })
}

/// One error for a conversation that never existed, one of another namespace, and a query without messages in it.
fn not_found(path: &ConversationPath) -> ApiError {
    let id = clip(&path.conversation_id);
    ApiError::new(
        Code::ConversationNotFound,
        format!("Conversation '{id}' not found in namespace {}, or without such messages", path.namespace),
    )
}
