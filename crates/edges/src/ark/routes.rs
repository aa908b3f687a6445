//! The routes of ARK's API, all of them.
//!
//! Each exists twice: under `/v1/namespaces/{namespace}/…`, and under `/v1/…` with `?namespace=`.

use std::{sync::LazyLock, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    handler::Handler as _,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::MethodRouter,
};
use bosun_core::{ContentHash, ceiling::REASON_BYTES};
use bosun_engine::{Snapshot, Submitted, store::Page};
use serde_json::Value;

use super::{
    about::{get_capabilities, get_context, get_system_info},
    audit, conversations,
    convert::{self, Sight},
    delivery, describe,
    docs::{page, script, style},
    download,
    events::{get_event, list_events},
    model_query,
    namespaces::{self, create_namespace, list_namespaces},
    options::{DEFAULT_WAIT, Options},
    request,
    resource::{
        create_agent, create_memory, create_model, create_server, create_team, create_tool, delete_agent,
        delete_memory, delete_model, delete_server, delete_team, delete_tool, get_agent, get_memory, get_model,
        get_server, get_team, get_tool, list_agents, list_memories, list_models, list_servers, list_teams, list_tools,
        raw::{create_raw, delete_raw, get_raw, list_raw, replace_raw},
        update_agent, update_memory, update_model, update_server, update_team, update_tool,
    },
    root::root,
    stream, tools, update, upload, usage, wire,
};
use crate::{
    App,
    auth::{
        Right::{Audit, Deliver, Manage, Read, Run},
        gate::{
            self,
            Needs::{self, Everywhere, Here, Nothing, Somebody},
        },
        whoami::whoami,
    },
    http::{
        answer::Json,
        error::{ApiError, Code},
        extract::{JsonBody, OptionalJson},
        json::{Findings, Object},
        metrics,
        trace::Trace,
        warning,
    },
};

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// One method of one path, and what it asks of whoever calls it.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) method: &'static str,
    pub(crate) needs: Needs,
}

/// A table of routes, and the router that is built of it, each behind its gate.
macro_rules! routes {
    ($(#[$doc:meta])* $table:ident $build:ident { $($path:literal => $($method:ident $handler:ident $needs:expr),+;)* }) => {
        $(#[$doc])*
        pub(crate) const $table: &[Route] =
            &[$($(Route { path: $path, method: stringify!($method), needs: $needs },)+)*];

        /// Adds these routes, below `prefix`. They are not nested: to strip a prefix costs every request.
        fn $build(router: Router<App>, app: &App, prefix: &str) -> Router<App> {
            let gate = |needs: Needs| middleware::from_fn_with_state((app.clone(), needs), gate::check);
            router$(.route(
                &format!("{prefix}{}", $path),
                MethodRouter::new()$(.$method($handler.layer(gate($needs))))+,
            ))*
        }
    };
}

routes! {
    /// The paths below `/v1` and below `/v1/namespaces/{namespace}`.
    RESOURCES resources {
        "/agents" => get list_agents Here(Read), post create_agent Here(Manage);
        "/agents/{name}" => get get_agent Here(Read), put update_agent Here(Manage), delete delete_agent Here(Manage);
        "/models" => get list_models Here(Read), post create_model Here(Manage);
        "/models/{name}" => get get_model Here(Read), put update_model Here(Manage), delete delete_model Here(Manage);
        "/tools" => get list_tools Here(Read), post create_tool Here(Manage);
        "/tools/{name}" => get get_tool Here(Read), put update_tool Here(Manage), delete delete_tool Here(Manage);
        "/memories" => get list_memories Here(Read), post create_memory Here(Manage);
        "/memories/{name}" => get get_memory Here(Read), put update_memory Here(Manage), delete delete_memory Here(Manage);
        "/teams" => get list_teams Here(Read), post create_team Here(Manage);
        "/teams/{name}" => get get_team Here(Read), put update_team Here(Manage), delete delete_team Here(Manage);
        "/mcp-servers" => get list_servers Here(Read), post create_server Here(Manage);
        "/mcp-servers/{name}" => get get_server Here(Read), put update_server Here(Manage), delete delete_server Here(Manage);
        "/resources/api/{version}/{kind}" => get list_raw Here(Read), post create_raw Here(Manage);
        "/resources/api/{version}/{kind}/{name}" => get get_raw Here(Read), put replace_raw Here(Manage), delete delete_raw Here(Manage);
        "/resources/apis/{group}/{version}/{kind}" => get list_raw Here(Read), post create_raw Here(Manage);
        "/resources/apis/{group}/{version}/{kind}/{name}" => get get_raw Here(Read), put replace_raw Here(Manage), delete delete_raw Here(Manage);
        "/events" => get list_events Here(Read);
        "/events/{name}" => get get_event Here(Read);
        "/context" => get get_context Here(Read);
        "/system-info" => get get_system_info Here(Read);
        "/capabilities" => get get_capabilities Here(Read);
        "/audit" => get get_audit Here(Audit);
        "/tools/usage" => get get_usage Here(Audit);
        "/queries" => get list_queries Here(Read), post create_query Here(Run);
        "/models/{name}/query" => post query_model Here(Run);
        "/conversations" => get list_conversations Here(Read), delete delete_conversations Here(Manage);
        "/conversations/{id}" => get get_conversation Here(Read), delete delete_conversation Here(Manage);
        "/conversations/{id}/queries/{name}/messages" => delete delete_conversation Here(Manage);
        "/sessions" => get list_conversations Here(Read), delete delete_conversations Here(Manage);
        "/sessions/{id}" => get get_conversation Here(Read), delete delete_conversation Here(Manage);
        "/sessions/{id}/queries/{name}/messages" => delete delete_conversation Here(Manage);
        "/memories/{name}/conversations/{id}/messages" => get get_memory_messages Here(Read);
        "/memory-messages" => get list_messages Here(Read);
        "/queries/{name}" => get get_query Here(Read), put update_query Here(Run), delete delete_query Here(Manage);
        "/queries/{name}/cancel" => patch cancel_query Here(Run), post cancel_query Here(Run);
        "/queries/{name}/continue" => post continue_query Here(Run);
        "/queries/{name}/tool-result" => post deliver_results Here(Deliver);
        "/queries/{name}/tool-calls/{id}/result" => get get_result Here(Read), put put_result Here(Deliver);
        "/queries/{name}/events" => get watch_query Here(Read);
    }
}

routes! {
    /// The paths that are in no namespace.
    SERVER server {
        "/" => get root Nothing;
        "/openapi.json" => get openapi Nothing;
        "/health" => get health Nothing;
        "/ready" => get ready Nothing;
        "/metrics" => get figures Everywhere(Audit);
        "/docs" => get page Nothing;
        "/docs/page.css" => get style Nothing;
        "/docs/page.js" => get script Nothing;
        "/v1/namespaces" => get list_namespaces Somebody, post create_namespace Everywhere(Manage);
        "/v1/whoami" => get whoami Somebody;
    }
}

pub(crate) fn router(app: App) -> Router {
    let router = server(Router::new(), &app, "");
    let router = resources(router, &app, "/v1");
    resources(router, &app, "/v1/namespaces/{namespace}").with_state(app)
}

/// `GET /openapi.json`: this API, described. It is the same for as long as the server runs, so it is written once.
async fn openapi(headers: HeaderMap) -> Response {
    static DOCUMENT: LazyLock<(Bytes, HeaderValue)> = LazyLock::new(|| {
        let text = describe::document().to_string();
        let tag = format!("\"{}\"", ContentHash::of(text.as_bytes()));
        // Hexadecimal digits in quotes are always a value.
        (text.into(), HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\"")))
    });
    let (document, tag) = &*DOCUMENT;
    let fields = [(header::ETAG, tag.clone()), (header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    if headers.get_all(header::IF_NONE_MATCH).iter().any(|known| known == tag) {
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    (fields, document.clone()).into_response()
}

/// `GET /health`: the process answers.
async fn health() -> Json<wire::Service> {
    Json(wire::Service::new("healthy", None))
}

/// `GET /ready`: it takes work on, and its store can be read.
async fn ready(State(app): State<App>) -> (StatusCode, Json<wire::Service>) {
    let error = if app.engine.draining().is_cancelled() {
        Some("shutting down")
    } else {
        app.engine.store().next_deadline().await.is_err().then_some("the store is unavailable")
    };
    match error {
        None => (StatusCode::OK, Json(wire::Service::new("ready", None))),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, Json(wire::Service::new("not ready", error))),
    }
}

/// `GET /metrics`
async fn figures(State(app): State<App>) -> Result<Response, ApiError> {
    metrics::answer(&app.engine, &app.requests).await
}

/// `GET …/audit`
async fn get_audit(State(app): State<App>, options: Options, headers: HeaderMap) -> Result<Response, ApiError> {
    let found =
        app.engine.audit(&options.namespace(), &options.lookup.search(app.engine.now(), options.limit())).await?;
    Ok(with_warnings(audit::answer(&options.namespace(), found, &headers), &options.warnings))
}

/// `GET …/tools/usage`
async fn get_usage(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    let since = options.lookup.since(app.engine.now());
    let usage = app.engine.usage(&options.namespace(), since).await?;
    Ok(with_warnings(Json(usage::report(&usage, since, options.lookup.top())), &options.warnings))
}

/// `GET …/queries`
async fn list_queries(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    let page = Page { limit: options.limit(), before: options.before()?, status: options.state };
    namespaces::require(&app, &options).await?;
    let listed = app.engine.list(&options.namespace(), &page).await?;
    Ok(with_warnings(Json(convert::list(&listed)), &options.warnings))
}

/// `POST …/queries`
async fn create_query(
    State(app): State<App>,
    options: Options,
    Trace(trace): Trace,
    body: JsonBody,
) -> Result<Response, ApiError> {
    tools::compile_ahead(&app.engine, &body).await;
    let request::NewQuery { mut submission, wait, stream } =
        body.read(|body| request::read(&app.engine, &options, body))?;
    submission.trace = trace;
    let warnings = submission.warnings.clone();
    let Submitted { snapshot, replayed } = app.engine.submit(submission, wait.filter(|_| !stream)).await?;
    let mut response = if stream {
        stream::open(&app.engine, &snapshot, 0, &warnings).await?
    } else {
        // Whoever creates a query may see what becomes of it, here and nowhere else without `read`.
        let query = convert::query(&snapshot, options.view, Sight::Everything, None, &warnings);
        with_warnings(Json(query), &warnings)
    };
    mark_replayed(&mut response, replayed);
    Ok(response)
}

/// `GET …/queries/{name}`
async fn get_query(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    let snapshot = app.engine.get(&options.key()?, options.wait_or(None)).await?;
    Ok(answer(&snapshot, &options, &options.warnings))
}

/// `PUT …/queries/{name}`
async fn update_query(State(app): State<App>, options: Options, body: JsonBody) -> Result<Response, ApiError> {
    let (change, sent) = body.read_and_keep(|body| update::read(&options, body))?;
    let key = options.key()?;
    let snapshot = app.engine.get(&key, None).await?;
    let (update, warnings) = change.check(&app.engine, &snapshot).map_err(|error| error.about(&sent))?;
    let snapshot = app.engine.update(options.actor().clone(), key, update).await?;
    Ok(answer(&snapshot, &options, &warnings))
}

/// `POST …/models/{name}/query`
async fn query_model(
    State(app): State<App>,
    options: Options,
    Trace(trace): Trace,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let (mut submission, wait) = body.read(|body| model_query::read(&options, body))?;
    submission.trace = trace;
    let warnings = submission.warnings.clone();
    let submitted = app.engine.submit(submission, wait).await?;
    Ok(with_warnings(Json(model_query::answer(&submitted.snapshot)?), &warnings))
}

/// `GET …/conversations`
async fn list_conversations(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    namespaces::require(&app, &options).await?;
    Ok(with_warnings(Json(conversations::list(&app.engine, &options).await?), &options.warnings))
}

/// `DELETE …/conversations`
async fn delete_conversations(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    conversations::forget_all(&app.engine, &options).await?;
    Ok(with_warnings(StatusCode::NO_CONTENT, &options.warnings))
}

/// `GET …/conversations/{id}`
async fn get_conversation(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    Ok(with_warnings(Json(conversations::get(&app.engine, &options).await?), &options.warnings))
}

/// `DELETE …/conversations/{id}`, and what one query has said in it
async fn delete_conversation(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    conversations::forget(&app.engine, &options).await?;
    Ok(with_warnings(StatusCode::NO_CONTENT, &options.warnings))
}

/// `GET …/memories/{name}/conversations/{id}/messages`
async fn get_memory_messages(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    Ok(with_warnings(Json(conversations::get_in_memory(&app.engine, &options).await?), &options.warnings))
}

/// `GET …/memory-messages`
async fn list_messages(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    namespaces::require(&app, &options).await?;
    Ok(with_warnings(Json(conversations::messages(&app.engine, &options).await?), &options.warnings))
}

/// `DELETE …/queries/{name}`
async fn delete_query(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    app.engine.delete(options.actor().clone(), options.key()?).await?;
    Ok(with_warnings(StatusCode::NO_CONTENT, &options.warnings))
}

/// `PATCH …/queries/{name}/cancel`, and `POST`
async fn cancel_query(State(app): State<App>, options: Options, body: OptionalJson) -> Result<Response, ApiError> {
    let (reason, warnings) = body.read(|body| read_reason(&options, body))?;
    let snapshot = app.engine.cancel(options.actor().clone(), options.key()?, reason).await?;
    Ok(answer(&snapshot, &options, &warnings))
}

/// `POST …/queries/{name}/continue`
async fn continue_query(State(app): State<App>, options: Options, body: OptionalJson) -> Result<Response, ApiError> {
    let (wait, warnings) = body.read(|body| read_wait(&options, body))?;
    let snapshot = app.engine.resume(options.actor().clone(), options.key()?, wait).await?;
    Ok(answer(&snapshot, &options, &warnings))
}

/// `POST …/queries/{name}/tool-result`
async fn deliver_results(State(app): State<App>, options: Options, body: JsonBody) -> Result<Response, ApiError> {
    let post = body.read(|body| delivery::read(&options.warnings, body))?;
    let wait = options.wait_or(post.wait.or(Some(DEFAULT_WAIT)));
    let delivered = delivery::deliver(&app.engine, options.actor(), options.key()?, post, wait).await?;
    Ok(delivery_answer(delivered, &options))
}

/// `PUT …/queries/{name}/tool-calls/{id}/result`
async fn put_result(State(app): State<App>, options: Options, request: Request) -> Result<Response, ApiError> {
    let post = upload::read(&app.engine, &options, request).await?;
    let wait = options.wait_or(Some(DEFAULT_WAIT));
    let delivered = delivery::deliver(&app.engine, options.actor(), options.key()?, post, wait).await?;
    Ok(delivery_answer(delivered, &options))
}

/// `GET …/queries/{name}/tool-calls/{id}/result`
async fn get_result(State(app): State<App>, options: Options, headers: HeaderMap) -> Result<Response, ApiError> {
    Ok(with_warnings(download::open(&app.engine, &options, &headers).await?, &options.warnings))
}

/// `GET …/queries/{name}/events`
async fn watch_query(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    let snapshot = app.engine.get(&options.key()?, None).await?;
    let seen = stream::read_cursor(options.last_event_id.as_deref(), &snapshot)?;
    stream::open(&app.engine, &snapshot, seen, &options.warnings).await
}

/// A query as the answer to a request, as far as the caller may see it.
fn answer(snapshot: &Snapshot, options: &Options, warnings: &[String]) -> Response {
    with_warnings(Json(convert::query(snapshot, options.view, options.sight(), None, warnings)), warnings)
}

fn delivery_answer(delivered: delivery::Delivered, options: &Options) -> Response {
    let delivery::Delivered { snapshot, results, replayed, warnings } = delivered;
    let query = convert::query(&snapshot, options.view, options.sight(), results, &warnings);
    let mut response = with_warnings(Json(query), &warnings);
    mark_replayed(&mut response, replayed);
    response
}

fn mark_replayed(response: &mut Response, replayed: bool) {
    if replayed {
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
}

pub(super) fn with_warnings(response: impl IntoResponse, warnings: &[String]) -> Response {
    let mut response = response.into_response();
    warning::add(response.headers_mut(), warnings);
    response
}

/// `{reason}` of a cancellation; there need not be a body.
fn read_reason(options: &Options, body: Option<Value>) -> Result<(Option<String>, Vec<String>), ApiError> {
    read_optional(options, body, |fields, findings| {
        let (reason, path) = (fields.text("reason", findings), fields.path_of("reason"));
        if reason.as_ref().is_some_and(|reason| reason.len() > REASON_BYTES) {
            findings.fault(path, "too_large", format!("has more than {REASON_BYTES} bytes"));
        }
        reason
    })
}

/// `{wait}` of a continuation; there need not be a body. The agent's next action is what it is for.
fn read_wait(options: &Options, body: Option<Value>) -> Result<(Option<Duration>, Vec<String>), ApiError> {
    let (wait, warnings) = read_optional(options, body, request::read_body_wait)?;
    Ok((options.wait_or(wait.or(Some(DEFAULT_WAIT))), warnings))
}

fn read_optional<T>(
    options: &Options,
    body: Option<Value>,
    read: impl FnOnce(&mut Object, &mut Findings) -> Option<T>,
) -> Result<(Option<T>, Vec<String>), ApiError> {
    let Some(body) = body else { return Ok((None, options.warnings.clone())) };
    let mut findings = Findings::new(Code::InvalidRequest, options.warnings.clone());
    let mut fields = Object::body(body)?;
    let value = read(&mut fields, &mut findings);
    fields.finish(&mut findings);
    Ok((value, findings.conclude()?))
}
