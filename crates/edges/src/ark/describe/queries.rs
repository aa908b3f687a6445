//! What a query may be asked with, and the operations around it that ARK has beside creating one.

use serde_json::{Value, json};

use super::{Answer, Body, Operation, schema};
use crate::{
    ark::{conversations, convert, model_query, wire},
    http::error::Code,
};

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        method: "put",
        path: "/queries/{name}",
        id: "updateQuery",
        summary: "Change how long a query may run and is kept, its limits, labels and annotations, or cancel it",
        parameters: &["name", "view"],
        body: Body::Required(update_body),
        answer: Answer::Json(schema::<convert::Query>),
        errors: &[
            Code::UnsupportedField,
            Code::FrozenField,
            Code::QueryNotFound,
            Code::QueryChanged,
            Code::QueryUnreadable,
        ],
    },
    Operation {
        method: "post",
        path: "/models/{name}/query",
        id: "queryModel",
        summary: "Ask a model one thing, without an agent",
        parameters: &["name", "wait"],
        body: Body::Required(model_query_body),
        answer: Answer::Json(schema::<model_query::Answer>),
        errors: &[Code::ModelNotFound, Code::ModelFailed, Code::Overloaded],
    },
    Operation {
        method: "get",
        path: "/memories/{name}/conversations/{id}/messages",
        id: "getMemoryConversation",
        summary: "What was said in a conversation of a memory, in pages",
        parameters: &["name", "id", "limit", "continue_token", "query"],
        body: Body::None,
        answer: Answer::Json(schema::<conversations::Conversation>),
        errors: &[Code::MemoryNotFound, Code::ConversationNotFound],
    },
    Operation {
        method: "get",
        path: "/memory-messages",
        id: "listMemoryMessages",
        summary: "What was said in all conversations, one message after the other, in pages",
        parameters: &["limit", "continue_token", "memory", "conversation", "query"],
        body: Body::None,
        answer: Answer::Json(schema::<wire::List<conversations::StoredMessage>>),
        errors: &[Code::NamespaceNotFound],
    },
];

/// Conversations, under the name that ARK gives them and under the one that it gave them first.
macro_rules! conversations {
    ($table:ident $path:literal $ids:literal $id:literal) => {
        pub(super) const $table: &[Operation] = &[
            Operation {
                method: "get",
                path: $path,
                id: concat!("list", $ids),
                summary: "Conversations, the one that was added to last first, in pages",
                parameters: &["limit", "continue_token", "memory", "conversation"],
                body: Body::None,
                answer: Answer::Json(schema::<wire::List<conversations::ListedConversation>>),
                errors: &[Code::NamespaceNotFound],
            },
            Operation {
                method: "delete",
                path: $path,
                id: concat!("delete", $ids),
                summary: "Forget conversations",
                parameters: &["memory", "conversation"],
                body: Body::None,
                answer: Answer::Nothing,
                errors: &[],
            },
            Operation {
                method: "get",
                path: concat!($path, "/{id}"),
                id: concat!("get", $id),
                summary: "What was said in a conversation, in pages",
                parameters: &["id", "limit", "continue_token", "memory", "query"],
                body: Body::None,
                answer: Answer::Json(schema::<conversations::Conversation>),
                errors: &[Code::ConversationNotFound],
            },
            Operation {
                method: "delete",
                path: concat!($path, "/{id}"),
                id: concat!("delete", $id),
                summary: "Forget a conversation",
                parameters: &["id", "memory"],
                body: Body::None,
                answer: Answer::Nothing,
                errors: &[Code::ConversationNotFound],
            },
            Operation {
                method: "delete",
                path: concat!($path, "/{id}/queries/{name}/messages"),
                id: concat!("delete", $id, "Query"),
                summary: "Forget what one query has said in a conversation",
                parameters: &["id", "name", "memory"],
                body: Body::None,
                answer: Answer::Nothing,
                errors: &[Code::ConversationNotFound],
            },
        ];
    };
}

conversations!(CONVERSATIONS "/conversations" "Conversations" "Conversation");
conversations!(SESSIONS "/sessions" "Sessions" "Session");

fn update_body() -> Value {
    json!({"type": "object", "properties": {"cancel": {"type": "boolean"}}})
}

fn model_query_body() -> Value {
    let mut properties = model_options();
    properties["prompt"] = json!({"type": "string", "minLength": 1});
    properties["wait"] = json!({"type": ["boolean", "string", "integer"]});
    json!({"type": "object", "required": ["prompt"], "properties": properties})
}

fn model_options() -> Value {
    json!({
        "temperature": {"type": "number", "minimum": 0, "maximum": 2},
        "maxTokens": {"type": "integer", "minimum": 1, "maximum": u32::MAX, "description": "Of one answer"},
    })
}

/// A chat message as OpenAI has it; only text.
fn message() -> Value {
    json!({
        "type": "object",
        "required": ["role"],
        "properties": {
            "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
            "content": {"type": ["string", "array", "null"]},
            "tool_calls": {"type": "array", "items": {"type": "object"}},
            "tool_call_id": {"type": "string"},
        },
    })
}

fn parameter() -> Value {
    let reference = json!({"type": "object", "required": ["name", "key"],
        "properties": {"name": {"type": "string"}, "key": {"type": "string"}, "optional": {"type": "boolean"}}});
    json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "value": {"type": "string"},
            "valueFrom": {"type": "object", "required": ["configMapKeyRef"], "properties": {"configMapKeyRef": reference}},
        },
        "oneOf": [{"required": ["value"]}, {"required": ["valueFrom"]}],
    })
}

fn reference() -> Value {
    json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}})
}

fn tool_filter() -> Value {
    let names = || json!({"type": "array", "items": {"type": "string"}});
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "names": names(),
            "categories": names(),
            "providers": names(),
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "readOnly": {"type": "boolean"},
            "text": {"type": "string"},
            "limit": {"type": "integer", "minimum": 0},
        },
    })
}

pub(super) fn query_body() -> Value {
    let duration = || json!({"type": "string", "pattern": "^[1-9][0-9]{0,5}(ms|s|m|h)$"});
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let target = || {
        json!({
            "type": "object",
            "required": ["type", "name"],
            "properties": {
                "type": {"enum": ["agent", "model", "tool"]},
                "name": {"type": "string", "minLength": 1, "examples": ["math-assistant"]},
            },
        })
    };
    let tool = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 128},
            "description": {"type": "string", "maxLength": 16_384},
            "parameters": {"type": "object", "description": "JSON Schema of an object"},
            "executionMode": {"enum": ["external"]},
            "timeout": duration(),
        },
    });
    json!({
        "type": "object",
        "required": ["input", "target"],
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253},
            "type": {"enum": ["user", "messages"]},
            "input": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": message(), "minItems": 1}]},
            "parameters": {"type": "array", "items": parameter()},
            "modelRef": {"anyOf": [{"type": "string", "minLength": 1}, reference()]},
            "modelOptions": {"type": "object", "properties": model_options()},
            "outputSchema": {"type": "object", "description": "JSON Schema of an object that the answer must be"},
            "selector": {"type": "object", "properties": {"matchLabels": texts()}},
            "target": target(),
            "targets": {"type": "array", "items": target(), "minItems": 1, "maxItems": 1},
            "externalTools": {"type": "array", "items": tool},
            "tools": {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
            "toolSource": {"enum": ["ark", "n8n", "hybrid"]},
            "toolFilter": tool_filter(),
            "wait": {"type": ["boolean", "string", "integer"]},
            "stream": {"type": "boolean"},
            "timeout": duration(),
            "toolTimeout": duration(),
            "externalTimeout": duration(),
            "ttl": duration(),
            "maxToolCalls": {"type": "integer", "minimum": 0, "maximum": 4_294_967_295_u32},
            "maxTokens": {"type": "integer", "minimum": 0, "maximum": 4_294_967_295_u32},
            "memory": {"anyOf": [{"type": "string", "minLength": 1}, reference()]},
            "sessionId": {"type": "string", "maxLength": 253},
            "conversationId": {"type": "string", "maxLength": 253},
            "conversationPolicy": {"enum": ["allow", "reject"]},
            "metadata": {"type": "object", "properties": {"labels": texts(), "annotations": texts()}},
        },
    })
}
