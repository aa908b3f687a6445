//! The routes of ARK's API, all of them.
//!
//! Each exists twice: under `/v1/namespaces/{namespace}/…`, and under `/v1/…` with `?namespace=`.

use std::{sync::LazyLock, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};
use bosun_core::query::View;
use bosun_engine::{Snapshot, Submitted, store::Page};
use serde_json::Value;

use super::{
    about::{create_namespace, get_capabilities, get_context, get_system_info, list_namespaces},
    audit, convert, delivery, describe, docs, download,
    events::{get_event, list_events},
    model_query,
    options::{DEFAULT_WAIT, Options},
    request,
    resource::{
        create_agent, create_memory, create_model, create_server, create_team, create_tool, delete_agent,
        delete_memory, delete_model, delete_server, delete_team, delete_tool, get_agent, get_memory, get_model,
        get_server, get_team, get_tool, list_agents, list_memories, list_models, list_servers, list_teams, list_tools,
        raw::{create_raw, get_raw, list_raw},
        update_agent, update_memory, update_model, update_server, update_team, update_tool,
    },
    stream, update, upload, usage, wire,
};
use crate::{
    App,
    http::{
        answer::Json,
        error::{ApiError, Code},
        extract::{JsonBody, OptionalJson},
        json::{Findings, Object},
        warning,
    },
};

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const SERVICE: &str = "bosun";

macro_rules! routes {
    ($($path:literal => $($method:ident $handler:ident),+;)*) => {
        /// The paths below `/v1` and their methods.
        #[cfg(test)]
        pub(crate) const ROUTES: &[(&str, &[&str])] = &[$(($path, &[$(stringify!($method)),+])),*];

        fn resources() -> Router<App> {
            Router::new()$(.route($path, MethodRouter::new()$(.$method($handler))+))*
        }
    };
}

routes! {
    "/agents" => get list_agents, post create_agent;
    "/agents/{name}" => get get_agent, put update_agent, delete delete_agent;
    "/models" => get list_models, post create_model;
    "/models/{name}" => get get_model, put update_model, delete delete_model;
    "/tools" => get list_tools, post create_tool;
    "/tools/{name}" => get get_tool, put update_tool, delete delete_tool;
    "/memories" => get list_memories, post create_memory;
    "/memories/{name}" => get get_memory, put update_memory, delete delete_memory;
    "/teams" => get list_teams, post create_team;
    "/teams/{name}" => get get_team, put update_team, delete delete_team;
    "/mcp-servers" => get list_servers, post create_server;
    "/mcp-servers/{name}" => get get_server, put update_server, delete delete_server;
    "/resources/api/{version}/{kind}" => get list_raw, post create_raw;
    "/resources/api/{version}/{kind}/{name}" => get get_raw;
    "/resources/apis/{group}/{version}/{kind}" => get list_raw, post create_raw;
    "/resources/apis/{group}/{version}/{kind}/{name}" => get get_raw;
    "/events" => get list_events;
    "/events/{name}" => get get_event;
    "/context" => get get_context;
    "/system-info" => get get_system_info;
    "/capabilities" => get get_capabilities;
    "/audit" => get get_audit;
    "/tools/usage" => get get_usage;
    "/queries" => get list_queries, post create_query;
    "/models/{name}/query" => post query_model;
    "/queries/{name}" => get get_query, put update_query, delete delete_query;
    "/queries/{name}/cancel" => patch cancel_query, post cancel_query;
    "/queries/{name}/continue" => post continue_query;
    "/queries/{name}/tool-result" => post deliver_results;
    "/queries/{name}/tool-calls/{id}/result" => get get_result, put put_result;
    "/queries/{name}/events" => get watch_query;
}

pub(crate) fn router(app: App) -> Router {
    let resources = resources();
    Router::new()
        .route("/openapi.json", get(openapi))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/docs", get(docs::page))
        .route("/docs/page.css", get(docs::style))
        .route("/docs/page.js", get(docs::script))
        .route("/v1/namespaces", get(list_namespaces).post(create_namespace))
        .nest("/v1", resources.clone())
        .nest("/v1/namespaces/{namespace}", resources)
        .with_state(app)
}

/// `GET /openapi.json`: this API, described.
async fn openapi() -> Json<&'static Value> {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(describe::document);
    Json(&*DOCUMENT)
}

/// `GET /health`: the process answers.
async fn health() -> Json<wire::Service> {
    Json(wire::Service { status: "healthy", service: SERVICE, error: None })
}

/// `GET /ready`: it takes work on, and its store can be read.
async fn ready(State(app): State<App>) -> (StatusCode, Json<wire::Service>) {
    let error = if app.engine.draining().is_cancelled() {
        Some("shutting down")
    } else {
        app.engine.store().next_deadline().await.is_err().then_some("the store is unavailable")
    };
    match error {
        None => (StatusCode::OK, Json(wire::Service { status: "ready", service: SERVICE, error })),
        Some(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, Json(wire::Service { status: "not ready", service: SERVICE, error }))
        }
    }
}

/// `GET …/audit`
async fn get_audit(State(app): State<App>, options: Options, headers: HeaderMap) -> Result<Response, ApiError> {
    let found = app.engine.audit(&options.namespace(), &options.lookup.search(app.engine.now(), options.limit)).await?;
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
    let page = Page { limit: options.limit, before: options.before, status: options.state };
    let listed = app.engine.list(&options.namespace(), &page).await?;
    Ok(with_warnings(Json(convert::list(listed)), &options.warnings))
}

/// `POST …/queries`
async fn create_query(
    State(app): State<App>,
    options: Options,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let request::NewQuery { submission, wait, stream } = request::read(&app.engine, &options, body)?;
    let warnings = submission.warnings.clone();
    let Submitted { snapshot, replayed } = app.engine.submit(submission, wait.filter(|_| !stream)).await?;
    let mut response = if stream {
        stream::open(&app.engine, &snapshot, 0, &warnings).await?
    } else {
        answer(&snapshot, options.view, &warnings)
    };
    mark_replayed(&mut response, replayed);
    Ok(response)
}

/// `GET …/queries/{name}`
async fn get_query(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    let snapshot = app.engine.get(&options.key()?, options.wait_or(None)).await?;
    Ok(answer(&snapshot, options.view, &options.warnings))
}

/// `PUT …/queries/{name}`
async fn update_query(
    State(app): State<App>,
    options: Options,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let (cancel, warnings) = update::read(&options, body)?;
    let key = options.key()?;
    let snapshot = if cancel {
        app.engine.cancel(options.actor.clone(), key, None).await?
    } else {
        app.engine.get(&key, None).await?
    };
    Ok(answer(&snapshot, options.view, &warnings))
}

/// `POST …/models/{name}/query`
async fn query_model(State(app): State<App>, options: Options, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let (submission, wait) = model_query::read(&options, body)?;
    let warnings = submission.warnings.clone();
    let submitted = app.engine.submit(submission, wait).await?;
    Ok(with_warnings(Json(model_query::answer(&submitted.snapshot)?), &warnings))
}

/// `DELETE …/queries/{name}`
async fn delete_query(State(app): State<App>, options: Options) -> Result<Response, ApiError> {
    app.engine.delete(options.actor.clone(), options.key()?).await?;
    Ok(with_warnings(StatusCode::NO_CONTENT, &options.warnings))
}

/// `PATCH …/queries/{name}/cancel`, and `POST`
async fn cancel_query(
    State(app): State<App>,
    options: Options,
    OptionalJson(body): OptionalJson,
) -> Result<Response, ApiError> {
    let (reason, warnings) = read_reason(&options, body)?;
    let snapshot = app.engine.cancel(options.actor.clone(), options.key()?, reason).await?;
    Ok(answer(&snapshot, options.view, &warnings))
}

/// `POST …/queries/{name}/continue`
async fn continue_query(
    State(app): State<App>,
    options: Options,
    OptionalJson(body): OptionalJson,
) -> Result<Response, ApiError> {
    let (wait, warnings) = read_wait(&options, body)?;
    let snapshot = app.engine.resume(options.actor.clone(), options.key()?, wait).await?;
    Ok(answer(&snapshot, options.view, &warnings))
}

/// `POST …/queries/{name}/tool-result`
async fn deliver_results(
    State(app): State<App>,
    options: Options,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let post = delivery::read(&options.warnings, body)?;
    let wait = options.wait_or(post.wait.or(Some(DEFAULT_WAIT)));
    let delivered = delivery::deliver(&app.engine, &options.actor, options.key()?, post, wait).await?;
    Ok(delivery_answer(delivered, options.view))
}

/// `PUT …/queries/{name}/tool-calls/{id}/result`
async fn put_result(State(app): State<App>, options: Options, request: Request) -> Result<Response, ApiError> {
    let post = upload::read(&app.engine, &options, request).await?;
    let wait = options.wait_or(Some(DEFAULT_WAIT));
    let delivered = delivery::deliver(&app.engine, &options.actor, options.key()?, post, wait).await?;
    Ok(delivery_answer(delivered, options.view))
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

/// A query as the answer to a request.
fn answer(snapshot: &Snapshot, view: Option<View>, warnings: &[String]) -> Response {
    with_warnings(Json(convert::query(snapshot, view, None, warnings)), warnings)
}

fn delivery_answer(delivered: delivery::Delivered, view: Option<View>) -> Response {
    let delivery::Delivered { snapshot, results, replayed, warnings } = delivered;
    let query = convert::query(&snapshot, view, results, &warnings);
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
    read_optional(options, body, |fields, findings| fields.text("reason", findings))
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
