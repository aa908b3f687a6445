//! Evaluations: a model judges an answer and gives it a score.
//!
//! An evaluation is a query of the judge's model, of the same name and with a view of its own: it is durable, audited,
//! limited and retained like any other query, and its status follows from the state of that query. An evaluator is a
//! resource that names the model and the parameters of the judgement. ARK calls a service for that; here it is the
//! engine.
//!
//! - [`reading`]: the body of a request;
//! - [`judge`]: what the model is asked, and the score that it answers;
//! - [`show`]: an evaluation on the wire.

mod judge;
pub(super) mod reading;
pub(super) mod show;

use axum::{extract::State, response::Response};
use bosun_core::Status;
use bosun_engine::{EngineError, Snapshot, Submitted, store::QueryPage};
use bosun_reading::table::name_schema;
use serde_json::Value;

use self::reading::{Judged, NewEvaluation};
use super::{
    handlers::{namespaces, queries::mark_replayed},
    params::{Paging, ParamGroup, Params, QueryParameter, QueryToken, StateFilter, WaitTime, path::QueryPath},
    resource::wire::Deleted,
};
use crate::{
    AppState,
    auth::{
        Right,
        gate::{Caller, RequestNamespace},
    },
    http::{
        answer::Json,
        error::{ApiError, Code, clip},
        extract::{JsonBody, OptionalJson},
        trace::Trace,
        warning::with_warnings,
    },
};

/// `query_ref` and `evaluator`
#[derive(Debug, Default)]
pub(crate) struct EvaluationFilter {
    query: Option<String>,
    evaluator: Option<String>,
}

impl ParamGroup for EvaluationFilter {
    const QUERY: &'static [QueryParameter<Self>] = &[
        QueryParameter {
            names: &["query_ref", "queryRef"],
            description: "Only evaluations of this query",
            schema: name_schema,
            read: |this, value, _| {
                this.query = Some(value.to_owned());
                Ok(())
            },
        },
        QueryParameter {
            names: &["evaluator"],
            description: "Only evaluations by this evaluator",
            schema: name_schema,
            read: |this, value, _| {
                this.evaluator = Some(value.to_owned());
                Ok(())
            },
        },
        QueryParameter {
            names: &["enhanced"],
            description: "Has no effect: every item has its status",
            schema: || Value::Bool(true),
            read: |_, _, _| Ok(()),
        },
    ];
}

pub(crate) type EvaluationListParams = (Paging<QueryToken>, StateFilter, EvaluationFilter);

/// `GET …/evaluations`
pub(super) async fn list_evaluations(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { given: (paging, state, filter), warnings }: Params<EvaluationListParams>,
) -> Result<Response, ApiError> {
    let mut page =
        QueryPage { limit: paging.limit(), before: paging.before()?, status: state.state, ..QueryPage::default() };
    page.labels.match_labels = reading::labels_of(filter.evaluator.as_deref(), filter.query.as_deref());
    namespaces::require(&app, &caller, &namespace).await?;
    let listed = app.engine.list(&namespace, &page).await?;
    Ok(with_warnings(Json(show::list(&listed)), &warnings))
}

/// `POST …/evaluations`
pub(super) async fn create_evaluation(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { given: waiting, warnings }: Params<WaitTime>,
    Trace(trace): Trace,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let registry = app.engine.registry();
    let (mut asked, sent) = body.read_and_keep(|body| reading::read(&registry, &namespace, warnings, body))?;
    if let Judged::Query { name, target } = &asked.judged {
        // The judge reads the query, and its reasoning may quote it.
        if !caller.grant().rights.has(Right::Read) {
            let message = "the evaluation of a query needs the right `read` besides `run`";
            return Err(ApiError::new(Code::RightMissing, message));
        }
        let query = app.engine.get(&(bosun_core::Namespace::clone(&namespace), name.clone()), None).await?;
        let (input, output) = answer_of(&query, target.as_deref()).map_err(|error| error.about(&sent))?;
        asked.input = input;
        asked.output = output;
    }
    let (wait, warnings) = (waiting.or(asked.wait), asked.warnings.clone());
    let mut submission = NewEvaluation::submission(asked, &caller, &namespace);
    submission.trace = trace;
    let Submitted { snapshot, replayed } = app.engine.submit(submission, wait).await?;
    let mut response =
        with_warnings(Json(show::evaluation(&snapshot.head, &snapshot.transcript, &warnings)), &warnings);
    mark_replayed(&mut response, replayed);
    Ok(response)
}

/// What a query was asked, and what it answered.
fn answer_of(query: &Snapshot, target: Option<&str>) -> Result<(String, String), ApiError> {
    let (head, spec) = (&query.head, &query.transcript.spec);
    let own = format!("{}:{}", spec.target_kind.as_str(), spec.target);
    if target.is_some_and(|target| target != own) {
        let message = format!("config.queryRef.responseTarget: query '{}' was answered by `{own}`", head.name);
        return Err(ApiError::new(Code::InvalidRequest, message));
    }
    match (head.status(), query.transcript.response()) {
        (Status::Completed, Some(answer)) => Ok((spec.input.clone(), answer.to_owned())),
        (status, _) => {
            let message = format!("query '{}' is {}, and has no answer to evaluate", head.name, status.as_str());
            Err(ApiError::new(Code::QueryNotCompleted, message))
        }
    }
}

/// `GET …/evaluations/{name}`
pub(super) async fn get_evaluation(
    State(app): State<AppState>,
    Params { given: waiting, warnings }: Params<WaitTime>,
    path: QueryPath,
) -> Result<Response, ApiError> {
    let found = find(&app, &path, waiting).await?;
    Ok(with_warnings(Json(show::evaluation(&found.head, &found.transcript, &[])), &warnings))
}

/// `PATCH …/evaluations/{name}/cancel`
pub(super) async fn cancel_evaluation(
    State(app): State<AppState>,
    caller: Caller,
    Params { warnings, .. }: Params,
    path: QueryPath,
    _: OptionalJson,
) -> Result<Response, ApiError> {
    find(&app, &path, WaitTime::default()).await?;
    let may_read = caller.grant().rights.has(Right::Read);
    let snapshot = app.engine.cancel(caller.actor, path.key()?, None).await?;
    let shown = show::evaluation(&snapshot.head, &snapshot.transcript, &[]);
    Ok(with_warnings(Json(if may_read { shown } else { shown.brief() }), &warnings))
}

/// `DELETE …/evaluations/{name}`
pub(super) async fn delete_evaluation(
    State(app): State<AppState>,
    caller: Caller,
    Params { warnings, .. }: Params,
    path: QueryPath,
) -> Result<Response, ApiError> {
    let found = find(&app, &path, WaitTime::default()).await?;
    app.engine.delete(caller.actor, path.key()?).await?;
    let message = format!("Evaluation '{}' deleted", found.head.name);
    Ok(with_warnings(Json(Deleted::new(message)), &warnings))
}

/// A query that is not an evaluation is not found here.
async fn find(app: &AppState, path: &QueryPath, waiting: WaitTime) -> Result<Snapshot, ApiError> {
    let missing = || {
        let (name, namespace) = (clip(path.name()), &path.namespace);
        ApiError::new(Code::ResourceNotFound, format!("Evaluation '{name}' not found in namespace {namespace}"))
    };
    let key = path.key().map_err(|_| missing())?;
    match app.engine.get(&key, waiting.or(None)).await {
        Ok(found) if found.head.edge_note == reading::EDGE_NOTE => Ok(found),
        Ok(_) | Err(EngineError::QueryNotFound(..)) => Err(missing()),
        Err(error) => Err(error.into()),
    }
}
