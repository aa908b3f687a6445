//! Streamable HTTP on the server's own connection pool.
//!
//! rmcp speaks the protocol; this sends its messages. Addresses, headers and tokens are resolved for each request, so
//! that a rotated secret takes effect at once, and are checked by the rules of the pool and of the secrets. Redirects
//! are not followed: a header with a key would go with them.

mod event_stream;
mod token;

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use bosun_adapters::{
    manifests::{EndpointHeader, McpAuthorization, McpEndpoint, McpServerManifest},
    outbound::{Body, OutboundError, Pool, cause},
    secret::{
        Secret, SecretError, SecretSource, Secrets,
        binding::{Destination, HostPart},
    },
};
use bosun_core::audit::is_secret_name;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
        StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::Sse;
use url::Url;

use crate::{error::McpError, redact::Redactor};

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The largest answer that is read into memory.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;
/// How much of the body of a refusal is read.
const LARGEST_REFUSAL: usize = 64 * 1024;

/// Why a request of the protocol was not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("the address in the secret is not a URL")]
    BadAddress,
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("header `{0}` has a value that is not valid in a header")]
    BadHeader(String),
    #[error("{}", describe(.0))]
    Outbound(#[from] OutboundError),
    #[error("the answer broke off")]
    Body,
    #[error("the answer has more than {LARGEST_ANSWER} bytes")]
    TooLarge,
    #[error("the authorization server gave no token: {0}")]
    Token(String),
}

fn describe(error: &OutboundError) -> String {
    match error {
        OutboundError::Connect(source) | OutboundError::Broken(source) => format!("{error}: {}", cause(source)),
        OutboundError::Tls(_) | OutboundError::NotPublic(_) => error.to_string(),
    }
}

type Failure = StreamableHttpError<HttpError>;

fn failure(error: impl Into<HttpError>) -> Failure {
    Failure::Client(error.into())
}

/// Sends the messages of one session.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    server: Arc<McpServerManifest>,
    endpoint: McpEndpoint,
    /// The headers that depend on the caller of the session.
    own_headers: HeaderMap,
    pool: Arc<Pool>,
    secrets: Arc<Secrets>,
    token: token::TokenCache,
    /// The session's redactor, which learns every secret that is sent.
    redactor: Arc<Redactor>,
}

impl HttpClient {
    pub(crate) fn new(
        server: Arc<McpServerManifest>,
        endpoint: McpEndpoint,
        headers: &[(String, String)],
        pool: Arc<Pool>,
        secrets: Arc<Secrets>,
        redactor: Arc<Redactor>,
    ) -> Result<Self, McpError> {
        let mut own_headers = HeaderMap::new();
        for (name, value) in headers {
            let bad = || McpError::Unavailable(HttpError::BadHeader(name.clone()).to_string());
            let header = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
            own_headers.insert(header, sensitive(value).ok_or_else(bad)?);
            if is_secret_name(name) {
                redactor.learn(&[Secret::new(value.clone())]);
            }
        }
        let token = token::TokenCache::default();
        Ok(Self(Arc::new(Inner { server, endpoint, own_headers, pool, secrets, token, redactor })))
    }

    async fn send(&self, method: Method, headers: HeaderMap, body: Bytes) -> Result<Response<Body>, HttpError> {
        let answer = self.0.send_once(method.clone(), headers.clone(), body.clone()).await?;
        // A token may be revoked before it expires. The request was refused before it was processed.
        if answer.status() == StatusCode::UNAUTHORIZED && self.0.token.discard().await {
            return self.0.send_once(method, headers, body).await;
        }
        Ok(answer)
    }
}

impl Inner {
    async fn send_once(&self, method: Method, headers: HeaderMap, body: Bytes) -> Result<Response<Body>, HttpError> {
        let mut used = Vec::new();
        let (url, kept_in) = self.address(&mut used).await?;
        let to = Destination { url: &url, kept_in: kept_in.as_deref() };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = url.as_str().parse().map_err(|_| HttpError::BadAddress)?;
        *request.headers_mut() = headers;
        request.headers_mut().extend(self.own_headers.clone());
        for (name, value) in &self.endpoint.headers {
            let EndpointHeader::Fixed(source) = value else { continue };
            let Some(secret) = self.resolve(source, HostPart::Header, to).await? else { continue };
            let bad = || HttpError::BadHeader(name.clone());
            let header = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
            request.headers_mut().insert(header, sensitive(secret.expose()).ok_or_else(bad)?);
            if matches!(source, SecretSource::Reference(_)) {
                used.push(secret);
            }
        }
        if let Some(token) = self.bearer(to).await? {
            let bad = || HttpError::BadHeader(AUTHORIZATION.to_string());
            let value = sensitive(&format!("Bearer {}", token.expose())).ok_or_else(bad)?;
            request.headers_mut().insert(AUTHORIZATION, value);
            used.push(token);
        }
        self.redactor.learn(&used);
        Ok(self.pool.client(&url, &self.server.reach)?.send(request).await?)
    }

    async fn address(&self, used: &mut Vec<Secret>) -> Result<(Url, Option<String>), HttpError> {
        if let Some(url) = self.endpoint.literal_url() {
            return Ok((url, None));
        }
        let resolved = self.secrets.resolve(&self.server.namespace, &self.endpoint.address).await?;
        let address = resolved.ok_or(HttpError::BadAddress)?;
        let url = Url::parse(address.expose()).map_err(|_| HttpError::BadAddress)?;
        used.push(address);
        Ok((url, self.endpoint.address.secret().map(str::to_owned)))
    }

    async fn resolve(
        &self,
        source: &SecretSource,
        part: HostPart,
        to: Destination<'_>,
    ) -> Result<Option<Secret>, SecretError> {
        self.secrets.resolve_for(&self.server.namespace, source, part, to, &self.server.reach).await
    }

    async fn bearer(&self, to: Destination<'_>) -> Result<Option<Secret>, HttpError> {
        match &self.endpoint.authorization {
            None => Ok(None),
            Some(McpAuthorization::Bearer(source)) => Ok(self.resolve(source, HostPart::Key, to).await?),
            Some(McpAuthorization::ClientCredentials { .. }) => self.token.get(self).await.map(Some),
        }
    }
}

/// The value of a header that must not be logged.
fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn headers_of(session: Option<&str>, extra: HashMap<HeaderName, HeaderValue>) -> HeaderMap {
    let mut headers: HeaderMap = extra.into_iter().collect();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    if let Some(session) = session.and_then(|session| HeaderValue::from_str(session).ok()) {
        headers.insert(SESSION_ID, session);
    }
    headers
}

fn header<'a>(response: &'a Response<Body>, name: &HeaderName) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// The refusals that have a meaning of their own in every request.
fn refusal(response: &Response<Body>) -> Option<Failure> {
    let status = response.status();
    let challenge = header(response, &WWW_AUTHENTICATE).map(str::to_owned);
    match (status, challenge) {
        (StatusCode::UNAUTHORIZED, Some(challenge)) => Some(Failure::AuthRequired(AuthRequiredError::new(challenge))),
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            Some(Failure::InsufficientScope(InsufficientScopeError::new(challenge, None)))
        }
        _ => None,
    }
}

fn status_error(response: &Response<Body>) -> Option<HttpStatusError> {
    let status = response.status();
    let counts = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    counts.then(|| HttpStatusError::new(status.as_u16(), header(response, &RETRY_AFTER).map(str::to_owned)))
}

/// Reads a body of limited size.
async fn read(body: Body, largest: usize) -> Result<Bytes, HttpError> {
    let collected = Limited::new(body, largest)
        .collect()
        .await
        .map_err(|error| if error.is::<LengthLimitError>() { HttpError::TooLarge } else { HttpError::Body })?;
    Ok(collected.to_bytes())
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpError;

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let largest = LARGEST_ANSWER;
        let stream = self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            largest,
        );
        stream.await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        _: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let mut headers = headers_of(session_id.as_deref(), custom_headers);
        if let Some(last) = last_event_id.and_then(|last| HeaderValue::try_from(last).ok()) {
            headers.insert(LAST_EVENT_ID, last);
        }
        let response = self.send(Method::GET, headers, Bytes::new()).await.map_err(failure)?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return Err(Failure::ServerDoesNotSupportSse);
        }
        if let Some(refused) = refusal(&response) {
            return Err(refused);
        }
        if let Some(error) = status_error(&response) {
            return Err(error.into());
        }
        if !response.status().is_success() {
            return Err(Failure::UnexpectedServerResponse(format!("HTTP {}", response.status()).into()));
        }
        match header(&response, &CONTENT_TYPE) {
            Some(kind) if kind.starts_with(EVENT_STREAM) => {
                Ok(event_stream::bounded(response.into_body(), max_sse_event_size))
            }
            kind => Err(Failure::UnexpectedContentType(kind.map(str::to_owned))),
        }
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let headers = headers_of(Some(&session_id), custom_headers);
        // Whatever the answer, there is nothing more to do.
        self.send(Method::DELETE, headers, Bytes::new()).await.map_err(failure)?;
        Ok(())
    }

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let largest = LARGEST_ANSWER;
        let posted =
            self.post_message_with_max_sse_event_size(uri, message, session_id, auth_header, custom_headers, largest);
        posted.await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let mut headers = headers_of(session_id.as_deref(), custom_headers);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let response = self.send(Method::POST, headers, body).await.map_err(failure)?;
        if let Some(refused) = refusal(&response) {
            return Err(refused);
        }
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(Failure::SessionExpired);
        }
        if !status.is_success() {
            return refused_post(&message, session_id.is_some(), response, &self.0.redactor).await;
        }
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        let session = header(&response, &SESSION_ID).map(str::to_owned);
        let kind = header(&response, &CONTENT_TYPE).map(str::to_owned);
        match kind.as_deref() {
            Some(kind) if kind.starts_with(EVENT_STREAM) => {
                let events = event_stream::bounded(response.into_body(), max_sse_event_size);
                Ok(StreamableHttpPostResponse::Sse(events, session))
            }
            // The specification requires 202 here, but some servers answer with a body, which has no meaning.
            _ if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            Some(kind) if kind.starts_with(JSON) => {
                let body = read(response.into_body(), LARGEST_ANSWER).await.map_err(failure)?;
                match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
                    Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
                    Err(error) => {
                        let message = format!("the answer is not a message of JSON-RPC: {error}");
                        Err(Failure::UnexpectedServerResponse(message.into()))
                    }
                }
            }
            _ => Err(Failure::UnexpectedContentType(kind)),
        }
    }
}

/// A message that was refused: with an error of the protocol, where the body is one.
async fn refused_post(
    message: &ClientJsonRpcMessage,
    had_session: bool,
    response: Response<Body>,
    redactor: &Redactor,
) -> Result<StreamableHttpPostResponse, Failure> {
    let (status, retry) = (response.status(), status_error(&response));
    let is_json = header(&response, &CONTENT_TYPE).is_some_and(|kind| kind.starts_with(JSON));
    let is_authorization = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let body = read(response.into_body(), LARGEST_REFUSAL).await.unwrap_or_default();
    let text = redactor.clean(&String::from_utf8_lossy(&body));
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(JsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    // An older server refuses the newer protocol's first request in ways of its own; rmcp falls back on the older
    // protocol if it gets this error under the id of the request.
    if let JsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !had_session
        && status.is_client_error()
        && !is_authorization
    {
        let invalid = || ErrorData::invalid_request(format!("server/discover: HTTP {status}"), None);
        let error = error.map_or_else(invalid, |error| error.error);
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    if let Some(error) = error.filter(|_| is_json && !is_authorization) {
        return Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), None));
    }
    match retry {
        Some(error) => Err(error.into()),
        None => Err(Failure::UnexpectedServerResponse(Cow::Owned(format!("HTTP {status}: {text}")))),
    }
}
