//! Operations on evaluations.

use super::{DescribedAnswer, DescribedBody, Operation, asked, declared, schema};
use crate::{
    ark::{
        evaluation::{EvaluationListParams, show::Evaluation},
        params::WaitTime,
        resource::wire::Deleted,
        wire::List,
    },
    http::error::Code,
};

const FINDING: &[Code] = &[Code::ResourceNotFound, Code::QueryUnreadable];

pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        method: "get",
        path: "/evaluations",
        id: "listEvaluations",
        summary: "Evaluations, newest first, in pages",
        parameters: declared::<EvaluationListParams>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<List<Evaluation>>),
        errors: &[Code::NamespaceNotFound],
    },
    Operation {
        method: "post",
        path: "/evaluations",
        id: "createEvaluation",
        summary: "Have a model judge an answer, and give it a score",
        parameters: declared::<WaitTime>,
        body: DescribedBody::Required(asked::evaluation),
        answer: DescribedAnswer::Json(schema::<Evaluation>),
        errors: &[
            Code::UnsupportedField,
            Code::ModelNotFound,
            Code::InputTooLarge,
            Code::ResourceNotFound,
            Code::QueryNotFound,
            Code::QueryNotCompleted,
            Code::QueryExists,
            Code::QueryUnreadable,
            Code::Overloaded,
        ],
    },
    Operation {
        method: "get",
        path: "/evaluations/{name}",
        id: "getEvaluation",
        summary: "The state of an evaluation, and its score",
        parameters: declared::<WaitTime>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<Evaluation>),
        errors: FINDING,
    },
    Operation {
        method: "delete",
        path: "/evaluations/{name}",
        id: "deleteEvaluation",
        summary: "Delete an evaluation",
        parameters: declared::<()>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<Deleted>),
        errors: FINDING,
    },
    Operation {
        method: "patch",
        path: "/evaluations/{name}/cancel",
        id: "cancelEvaluation",
        summary: "Cancel an evaluation",
        parameters: declared::<()>,
        body: DescribedBody::None,
        answer: DescribedAnswer::Json(schema::<Evaluation>),
        errors: FINDING,
    },
];
