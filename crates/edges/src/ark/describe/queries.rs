//! Operations on queries other than creating one, on models, and on conversations.

use bosun_reading::table::object_schema;

use super::{DescribedAnswer, DescribedBody, Operation, declared, schema};
use crate::{
    ark::{
        answering::convert,
        handlers::{self, approvals, conversations, model_query},
        params::{MemoryFilter, Paging, QueryToken, ViewChoice, WaitTime},
        reading::update,
        wire,
    },
    http::error::Code,
};

/// The codes with which a decision may be refused.
const DECISION_ERRORS: &[Code] = &[
    Code::InvalidDecision,
    Code::InvalidToolArguments,
    Code::QueryNotFound,
    Code::QueryUnreadable,
    Code::QueryChanged,
    Code::CallNotFound,
    Code::ApprovalNotOpen,
    Code::AlreadyDecided,
    Code::ArgumentsChanged,
    Code::AmbiguousCall,
    Code::ApprovalExpired,
    Code::CallCancelled,
];

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        method: "get",
        path: "/approvals",
        id: "listApprovals",
        summary: "The calls that wait for a person's approval, of all queries, in pages",
        parameters: declared::<Paging<QueryToken>>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<wire::List<wire::OpenApproval>>),
        errors: &[Code::NamespaceNotFound],
    },
    Operation {
        method: "get",
        path: "/queries/{name}/tree",
        id: "getQueryTree",
        summary: "A query with the queries of its agents and teams",
        parameters: declared::<()>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<wire::TreeNode>),
        errors: &[Code::QueryNotFound, Code::QueryUnreadable],
    },
    Operation {
        method: "post",
        path: "/queries/{name}/approval",
        id: "decideApproval",
        summary: "Approve or reject a call that waits for it",
        parameters: declared::<handlers::queries::WaitParams>,
        body: DescribedBody::Required(|| object_schema(approvals::DECISION, &[])),
        answer: DescribedAnswer::Json(schema::<convert::QueryAnswer>),
        errors: DECISION_ERRORS,
    },
    Operation {
        method: "post",
        path: "/a2a-tasks/{name}/approval",
        id: "approveTask",
        summary: "Approve or reject a call that waits for it, in ARK's form",
        parameters: declared::<()>,
        body: DescribedBody::Required(|| object_schema(approvals::TASK_DECISION, &["decision"])),
        answer: DescribedAnswer::Json(schema::<approvals::DecidedTask>),
        errors: DECISION_ERRORS,
    },
    Operation {
        method: "put",
        path: "/queries/{name}",
        id: "updateQuery",
        summary: "Change how long a query may run and is kept, its limits, labels and annotations, or cancel it",
        parameters: declared::<ViewChoice>,
        body: DescribedBody::Required(|| object_schema(update::FIELDS, &[])),
        answer: DescribedAnswer::Json(schema::<convert::QueryAnswer>),
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
        parameters: declared::<WaitTime>,
        body: DescribedBody::Required(|| object_schema(model_query::FIELDS, &["prompt"])),
        answer: DescribedAnswer::Json(schema::<model_query::ModelAnswer>),
        errors: &[Code::ModelNotFound, Code::ModelFailed, Code::Overloaded],
    },
    Operation {
        method: "get",
        path: "/memories/{name}/conversations/{id}/messages",
        id: "getMemoryConversation",
        summary: "The messages of a conversation of a memory, in pages",
        parameters: declared::<conversations::GetInMemoryParams>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<conversations::ConversationPage>),
        errors: &[Code::MemoryNotFound, Code::ConversationNotFound],
    },
    Operation {
        method: "get",
        path: "/memory-messages",
        id: "listMemoryMessages",
        summary: "The messages of all conversations, in pages",
        parameters: declared::<conversations::ConversationListParams>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<wire::List<conversations::StoredMessage>>),
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
                summary: "Conversations, most recently updated first, in pages",
                parameters: declared::<conversations::ConversationListParams>,
                body: DescribedBody::None,
                answer: DescribedAnswer::Json(schema::<wire::List<conversations::ListedConversation>>),
                errors: &[Code::NamespaceNotFound],
            },
            Operation {
                method: "delete",
                path: $path,
                id: concat!("delete", $ids),
                summary: "Delete conversations",
                parameters: declared::<conversations::DeleteParams>,
                body: DescribedBody::None,
                answer: DescribedAnswer::Nothing,
                errors: &[],
            },
            Operation {
                method: "get",
                path: concat!($path, "/{id}"),
                id: concat!("get", $id),
                summary: "The messages of a conversation, in pages",
                parameters: declared::<conversations::GetParams>,
                body: DescribedBody::None,
                answer: DescribedAnswer::Json(schema::<conversations::ConversationPage>),
                errors: &[Code::ConversationNotFound],
            },
            Operation {
                method: "delete",
                path: concat!($path, "/{id}"),
                id: concat!("delete", $id),
                summary: "Delete a conversation",
                parameters: declared::<MemoryFilter>,
                body: DescribedBody::None,
                answer: DescribedAnswer::Nothing,
                errors: &[Code::ConversationNotFound],
            },
            Operation {
                method: "delete",
                path: concat!($path, "/{id}/queries/{name}/messages"),
                id: concat!("delete", $id, "Query"),
                summary: "Delete the messages of one query from a conversation",
                parameters: declared::<MemoryFilter>,
                body: DescribedBody::None,
                answer: DescribedAnswer::Nothing,
                errors: &[Code::ConversationNotFound],
            },
        ];
    };
}

conversations!(CONVERSATIONS "/conversations" "Conversations" "Conversation");
conversations!(SESSIONS "/sessions" "Sessions" "Session");
