//! Handlers of queries: create, read, change, follow, and deliver results.

use std::time::Duration;

use axum::{
    extract::{Request, State},
    http::{HeaderName, HeaderValue, StatusCode},
    response::Response,
};
use bosun_core::ceiling::REASON_BYTES;
use bosun_engine::{
    Snapshot, Submitted,
    store::{ListedQueries, QueryPage},
};
use bosun_reading::{Field, FieldTable};
use serde_json::{Value, json};

use super::namespaces;
use crate::{
    AppState,
    ark::{
        answering::{
            convert::{self, Visibility},
            stream, tree,
        },
        params::{
            ArkView, ByteRange, DEFAULT_WAIT, LastEventId, Paging, Params, QuerySearch, QueryToken, ResultOptions,
            StateFilter, ViewChoice, WaitTime,
            path::{CallPath, QueryPath},
        },
        reading::{
            fields::{WAIT, read_body_wait},
            request::{self, CreateParams},
            tools, update,
        },
        results::{delivery, download, upload},
    },
    auth::gate::{Caller, RequestNamespace},
    http::{
        answer::Json,
        error::{ApiError, Code},
        extract::{JsonBody, OptionalJson},
        report::{BodyFields, RequestReport},
        trace::Trace,
        warning::with_warnings,
    },
};

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The body of a cancellation.
pub(crate) const CANCEL: FieldTable = &[Field::new("reason", || json!({"type": "string"}))];
/// The body of a continuation.
pub(crate) const CONTINUE: FieldTable = &[WAIT];

pub(crate) type QueryListParams = (Paging<QueryToken>, StateFilter, QuerySearch);
pub(crate) type WaitParams = (WaitTime, ViewChoice);
pub(crate) type UploadParams = (ResultOptions, WaitTime, ViewChoice);

/// `GET …/queries`
pub(crate) async fn list_queries(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { given: (paging, filter, search), warnings }: Params<QueryListParams>,
) -> Result<Response, ApiError> {
    let page =
        QueryPage { limit: paging.limit(), before: paging.before()?, status: filter.state, ..QueryPage::default() };
    let page = search.on(page, app.engine.now());
    let listed = list_page(&app, &caller, &namespace, &page).await?;
    Ok(with_warnings(Json(convert::list(&listed)), &warnings))
}

/// A page of the queries of a namespace, which must exist.
pub(super) async fn list_page(
    app: &AppState,
    caller: &Caller,
    namespace: &RequestNamespace,
    page: &QueryPage,
) -> Result<ListedQueries, ApiError> {
    namespaces::require(app, caller, namespace).await?;
    Ok(app.engine.list(namespace, page).await?)
}

/// `POST …/queries`
pub(crate) async fn create_query(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    params: Params<CreateParams>,
    Trace(trace): Trace,
    body: JsonBody,
) -> Result<Response, ApiError> {
    tools::compile_ahead(&app.engine, &body).await;
    let view = params.given.2.view;
    let request::NewQuery { mut submission, wait, stream } =
        body.read(|body| request::read(&app.engine, &caller, &namespace, params, body))?;
    submission.trace = trace;
    let warnings = submission.warnings.clone();
    let Submitted { snapshot, replayed } = app.engine.submit(submission, wait.filter(|_| !stream)).await?;
    let mut response = if stream {
        stream::open(&app.engine, &snapshot, 0, &warnings).await?
    } else {
        // The creator of a query may see the whole of it, here and nowhere else without `read`.
        let query = convert::query(&snapshot, view, Visibility::Everything, None, &warnings);
        with_warnings(Json(query), &warnings)
    };
    mark_replayed(&mut response, replayed);
    Ok(response)
}

/// `GET …/queries/{name}`
pub(crate) async fn get_query(
    State(app): State<AppState>,
    caller: Caller,
    Params { given: (waiting, choice), warnings }: Params<WaitParams>,
    path: QueryPath,
) -> Result<Response, ApiError> {
    let snapshot = app.engine.get(&path.key()?, waiting.or(None)).await?;
    Ok(answer(&snapshot, &caller, choice.view, &warnings))
}

/// `GET …/queries/{name}/tree`
pub(crate) async fn get_query_tree(
    State(app): State<AppState>,
    Params { warnings, .. }: Params,
    path: QueryPath,
) -> Result<Response, ApiError> {
    let tree = app.engine.tree(&path.key()?).await?;
    Ok(with_warnings(Json(tree::node(&tree, None)), &warnings))
}

/// `PUT …/queries/{name}`
pub(crate) async fn update_query(
    State(app): State<AppState>,
    caller: Caller,
    Params { given: choice, warnings }: Params<ViewChoice>,
    path: QueryPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let (change, sent) = body.read_and_keep(|body| update::read(&caller, warnings, body))?;
    let key = path.key()?;
    let snapshot = app.engine.get(&key, None).await?;
    let (update, warnings) = change.check(&app.engine, &snapshot).map_err(|error| error.about(&sent))?;
    let snapshot = app.engine.update(caller.actor.clone(), key, update).await?;
    Ok(answer(&snapshot, &caller, choice.view, &warnings))
}

/// `DELETE …/queries/{name}`
pub(crate) async fn delete_query(
    State(app): State<AppState>,
    caller: Caller,
    Params { warnings, .. }: Params,
    path: QueryPath,
) -> Result<Response, ApiError> {
    app.engine.delete(caller.actor, path.key()?).await?;
    Ok(with_warnings(StatusCode::NO_CONTENT, &warnings))
}

/// `PATCH …/queries/{name}/cancel`, and `POST`
pub(crate) async fn cancel_query(
    State(app): State<AppState>,
    caller: Caller,
    Params { given: choice, warnings }: Params<ViewChoice>,
    path: QueryPath,
    body: OptionalJson,
) -> Result<Response, ApiError> {
    let (reason, warnings) = body.read(|body| read_reason(warnings, body))?;
    let snapshot = app.engine.cancel(caller.actor.clone(), path.key()?, reason).await?;
    Ok(answer(&snapshot, &caller, choice.view, &warnings))
}

/// `POST …/queries/{name}/continue`. It waits for the agent's next action by default.
pub(crate) async fn continue_query(
    State(app): State<AppState>,
    caller: Caller,
    Params { given: (waiting, choice), warnings }: Params<WaitParams>,
    path: QueryPath,
    body: OptionalJson,
) -> Result<Response, ApiError> {
    let (wait, warnings) = body.read(|body| read_wait(warnings, body))?;
    let wait = waiting.or(wait.or(Some(DEFAULT_WAIT)));
    let snapshot = app.engine.resume(caller.actor.clone(), path.key()?, wait).await?;
    Ok(answer(&snapshot, &caller, choice.view, &warnings))
}

/// `POST …/queries/{name}/tool-result`
pub(crate) async fn deliver_results(
    State(app): State<AppState>,
    caller: Caller,
    Params { given: (waiting, choice), warnings }: Params<WaitParams>,
    path: QueryPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let post = body.read(|body| delivery::read(warnings, body))?;
    let wait = waiting.or(post.wait.or(Some(DEFAULT_WAIT)));
    let delivered = delivery::deliver(&app.engine, &caller.actor, path.key()?, post, wait).await?;
    Ok(delivery_answer(delivered, &caller, choice.view))
}

/// `PUT …/queries/{name}/tool-calls/{id}/result`
pub(crate) async fn put_result(
    State(app): State<AppState>,
    caller: Caller,
    Params { given: (options, waiting, choice), warnings }: Params<UploadParams>,
    path: CallPath,
    request: Request,
) -> Result<Response, ApiError> {
    let post = upload::read(&app.engine, &path, &options, warnings, request).await?;
    let wait = waiting.or(Some(DEFAULT_WAIT));
    let delivered = delivery::deliver(&app.engine, &caller.actor, path.query.key()?, post, wait).await?;
    Ok(delivery_answer(delivered, &caller, choice.view))
}

/// `GET …/queries/{name}/tool-calls/{id}/result`
pub(crate) async fn get_result(
    State(app): State<AppState>,
    Params { given: range, warnings }: Params<ByteRange>,
    path: CallPath,
) -> Result<Response, ApiError> {
    Ok(with_warnings(download::open(&app.engine, &path, &range).await?, &warnings))
}

/// `GET …/queries/{name}/events`
pub(crate) async fn watch_query(
    State(app): State<AppState>,
    Params { given: last_event, warnings }: Params<LastEventId>,
    path: QueryPath,
) -> Result<Response, ApiError> {
    let snapshot = app.engine.get(&path.key()?, None).await?;
    let seen = stream::read_cursor(last_event.id.as_deref(), &snapshot)?;
    stream::open(&app.engine, &snapshot, seen, &warnings).await
}

/// A query as the answer to a request, as far as the caller may see it.
pub(super) fn answer(snapshot: &Snapshot, caller: &Caller, view: Option<ArkView>, warnings: &[String]) -> Response {
    let visibility = Visibility::of(caller.grant().rights);
    with_warnings(Json(convert::query(snapshot, view, visibility, None, warnings)), warnings)
}

fn delivery_answer(delivered: delivery::DeliveredPost, caller: &Caller, view: Option<ArkView>) -> Response {
    let delivery::DeliveredPost { snapshot, results, replayed, warnings } = delivered;
    let visibility = Visibility::of(caller.grant().rights);
    let query = convert::query(&snapshot, view, visibility, results, &warnings);
    let mut response = with_warnings(Json(query), &warnings);
    mark_replayed(&mut response, replayed);
    response
}

pub(crate) fn mark_replayed(response: &mut Response, replayed: bool) {
    if replayed {
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
}

/// `{reason}` of a cancellation; the body is optional.
fn read_reason(warnings: Vec<String>, body: Option<Value>) -> Result<(Option<String>, Vec<String>), ApiError> {
    read_optional(CANCEL, warnings, body, |fields| {
        let reason = fields.text("reason");
        if reason.as_ref().is_some_and(|reason| reason.len() > REASON_BYTES) {
            fields.reject("reason", "too_large", format!("has more than {REASON_BYTES} bytes"));
        }
        reason
    })
}

/// `{wait}` of a continuation; the body is optional.
fn read_wait(warnings: Vec<String>, body: Option<Value>) -> Result<(Option<Duration>, Vec<String>), ApiError> {
    read_optional(CONTINUE, warnings, body, read_body_wait)
}

fn read_optional<T>(
    known: FieldTable,
    warnings: Vec<String>,
    body: Option<Value>,
    read: impl FnOnce(&BodyFields<'_>) -> Option<T>,
) -> Result<(Option<T>, Vec<String>), ApiError> {
    let Some(body) = body else { return Ok((None, warnings)) };
    let report = RequestReport::new(Code::InvalidRequest, warnings);
    let fields = report.body(body)?.with_table(known);
    let value = read(&fields);
    fields.finish();
    drop(fields);
    Ok((value, report.conclude()?))
}
