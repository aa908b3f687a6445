//! The operations of workers, described.

use super::{DescribedAnswer, DescribedBody, Operation, declared, schema};
use crate::{ark::handlers::tool_calls, http::error::Code};

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        method: "get",
        path: "/tool-calls",
        id: "claimCalls",
        summary: "Claim open calls as a worker",
        parameters: declared::<tool_calls::ClaimParams>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<tool_calls::ClaimedCalls>),
        errors: &[],
    },
    Operation {
        method: "post",
        path: "/tool-calls/{id}/heartbeat",
        id: "extendLease",
        summary: "Extend the lease of a claimed call",
        parameters: declared::<()>,
        body: DescribedBody::Required(tool_calls::heartbeat_schema),
        answer: DescribedAnswer::Json(schema::<tool_calls::ExtendedLease>),
        errors: &[Code::CallNotFound, Code::LeaseLost, Code::QueryUnreadable, Code::QueryChanged],
    },
    Operation {
        method: "post",
        path: "/tool-calls/{id}/result",
        id: "deliverClaimed",
        summary: "Deliver the result of a claimed call",
        parameters: declared::<()>,
        body: DescribedBody::Required(tool_calls::result_schema),
        answer: DescribedAnswer::Json(schema::<tool_calls::DeliveredResult>),
        errors: &[
            Code::InvalidToolResult,
            Code::CallNotFound,
            Code::LeaseLost,
            Code::AlreadyResolved,
            Code::CallExpired,
            Code::CallCancelled,
            Code::QueryUnreadable,
            Code::QueryChanged,
        ],
    },
];
