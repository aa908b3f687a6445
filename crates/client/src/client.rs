//! The requests of the REST API that a client needs, each as one method.

use std::{
    error::Error,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bosun_core::content::INLINE_BYTES;
use reqwest::{
    Method, RequestBuilder, Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER},
};
use serde_json::{Value, json};

use crate::{
    ClientError, EventStream, OpenCall, Question, Refusal,
    retry::{self, MAX_FAILURES},
};

/// A server that does not answer within this time is considered unreachable. A stream may then be silent, but not for
/// longer than two heartbeats.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(40);
/// The largest answer that is read: a result of 64 MiB in JSON.
const MAX_ANSWER: usize = 80 * 1024 * 1024;
/// What is read of an answer without success.
const MAX_REFUSAL: usize = 256 * 1024;

/// A server, the credential for it, and the namespace to work in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    server: Url,
    authorization: Option<HeaderValue>,
    /// The key's own if absent: the server knows which that is.
    namespace: Option<String>,
}

/// The credential for a server: the secret of a key, both its halves as `pk-…:sk-…`, or a token. It is never shown, not
/// even by `{:?}`.
#[derive(Clone)]
pub struct Key(String);

impl std::str::FromStr for Key {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Key(…)")
    }
}

/// A result that has a request of its own.
struct LargeResult {
    kind: &'static str,
    content: String,
}

impl LargeResult {
    /// `None` if the result is small enough for the JSON of a delivery.
    fn of(result: &Value) -> Option<Self> {
        let (kind, content) = match result {
            Value::String(text) if text.len() <= INLINE_BYTES => return None,
            Value::String(text) => ("text/plain", text.clone()),
            value => ("application/json", value.to_string()),
        };
        (content.len() > INLINE_BYTES).then_some(Self { kind, content })
    }
}

/// The answer to a delivered result.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// The server had already received it.
    pub replayed: bool,
    /// The query after it.
    pub query: Value,
}

impl Client {
    /// A client of the server at this URL, without a key and in the key's own namespace.
    ///
    /// # Errors
    /// If it is not an `http` or `https` URL.
    pub fn new(server: &str) -> Result<Self, ClientError> {
        let invalid = || ClientError::InvalidUrl(server.to_owned());
        let url = Url::parse(server.trim_end_matches('/')).map_err(|_| invalid())?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(invalid());
        }
        // The process has one crypto provider; an error means that it is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            // The key is sent only to the named server.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(SILENCE)
            // A query is private: it is sent directly to the named server, never through a proxy.
            .no_proxy()
            .build()
            .map_err(|error| ClientError::NoHttpClient(root_cause(&error)))?;
        Ok(Self { http, server: url, authorization: None, namespace: None })
    }

    /// Authenticates every request.
    ///
    /// # Errors
    /// If the key cannot be sent.
    pub fn with_key(mut self, Key(key): &Key) -> Result<Self, ClientError> {
        let is_pair = key.contains(':');
        let text = if is_pair { format!("Basic {}", BASE64_STANDARD.encode(key)) } else { format!("Bearer {key}") };
        let mut value = HeaderValue::from_str(&text).map_err(|_| ClientError::InvalidKey)?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(self)
    }

    /// Works in another namespace than the key's own.
    #[must_use]
    pub fn with_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The URL of the server, without a trailing slash.
    #[must_use]
    pub fn server(&self) -> &str {
        self.server.as_str().trim_end_matches('/')
    }

    /// The namespace to work in, if it is not the key's own.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// A question to an agent. Nothing is sent before the question is awaited.
    pub fn ask(&self, agent: impl Into<String>, input: impl Into<String>) -> Question<'_> {
        Question::new(self, &agent.into(), &input.into())
    }

    /// Continues a query that exists: another process has asked it, or this one before it was restarted. Only the tools
    /// of [`Question::tools`] have an effect; everything else was fixed when the query was created.
    pub fn resume(&self, query: impl Into<String>) -> Question<'_> {
        Question::existing(self, query.into())
    }

    /// A name for a query that no other query has. Names sort by time, and begin with `prefix`.
    #[must_use]
    pub fn new_name(prefix: &str) -> String {
        static COUNTED: AtomicU64 = AtomicU64::new(0);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = COUNTED.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}-{:x}-{:x}-{number:x}", since_epoch.as_nanos(), std::process::id())
    }

    /// The URL of a query.
    #[must_use]
    pub fn query_url(&self, name: &str) -> String {
        self.url(&["queries", name]).to_string()
    }

    /// An address in the namespace. Segments are escaped.
    fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.server.clone();
        // Only URLs that cannot be a base have no path, and those have no host either.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("v1");
            if let Some(namespace) = &self.namespace {
                path.extend(["namespaces", namespace]);
            }
            path.extend(segments);
        }
        url
    }

    fn url_with(&self, segments: &[&str], parameters: &[(&str, &str)]) -> Url {
        let mut url = self.url(segments);
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        url
    }

    fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.http.request(method, url);
        match &self.authorization {
            Some(value) => request.header(AUTHORIZATION, value.clone()),
            None => request,
        }
    }

    /// Creates a query and follows it in the same answer.
    ///
    /// # Errors
    /// If the server is unreachable, or refuses the query.
    pub async fn create(&self, query: &Value) -> Result<EventStream, ClientError> {
        let url = self.url_with(&["queries"], &[("stream", "true")]);
        self.open(self.request(Method::POST, url).json(query)).await
    }

    /// Follows a query from the event after `last_id`.
    ///
    /// # Errors
    /// If the server is unreachable, or has no such query.
    pub async fn follow(&self, name: &str, last_id: Option<&str>) -> Result<EventStream, ClientError> {
        let mut request = self.request(Method::GET, self.url(&["queries", name, "events"]));
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        self.open(request).await
    }

    async fn open(&self, request: RequestBuilder) -> Result<EventStream, ClientError> {
        let response = self.send(request).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            return Err(ClientError::Unreadable(format!("it is of type `{kind}`, not an event stream")));
        }
        Ok(EventStream::new(self.server().to_owned(), response))
    }

    /// Delivers the outcome of an outside call; does not wait for the agent's next turn. An error is what the model
    /// reads. A result that is too large for JSON is uploaded.
    ///
    /// # Errors
    /// If the server is unreachable, or does not accept the outcome.
    pub async fn deliver(
        &self,
        query: &str,
        call: &OpenCall,
        outcome: &Result<Value, String>,
    ) -> Result<Delivered, ClientError> {
        let (id, tool) = (&call.id, &call.name);
        let body = match outcome {
            Ok(result) => match LargeResult::of(result) {
                Some(large) => return self.upload(query, id, &[("wait", "0")], large).await,
                None => json!({ "toolCallId": id, "toolName": tool, "toolResult": result, "success": true }),
            },
            Err(error) => json!({ "toolCallId": id, "toolName": tool, "success": false, "error": error }),
        };
        let url = self.url_with(&["queries", query, "tool-result"], &[("wait", "0")]);
        self.delivered(self.request(Method::POST, url).json(&body)).await
    }

    /// Delivers the outcome of a call that this worker has claimed. A result that is too large for JSON is uploaded.
    ///
    /// # Errors
    /// If the server is unreachable, or does not accept the outcome: `lease_lost` if another worker may have the call.
    pub async fn deliver_claimed(
        &self,
        query: &str,
        id: &str,
        lease: &str,
        outcome: &Result<Value, String>,
    ) -> Result<(), ClientError> {
        let body = match outcome {
            Ok(result) => match LargeResult::of(result) {
                Some(large) => {
                    return self.upload(query, id, &[("wait", "0"), ("lease", lease)], large).await.map(drop);
                }
                None => json!({"lease": lease, "result": result}),
            },
            Err(error) => json!({"lease": lease, "error": error}),
        };
        self.post_to(&["tool-calls", id, "result"], &[], &body).await.map(drop)
    }

    async fn upload(
        &self,
        query: &str,
        id: &str,
        parameters: &[(&str, &str)],
        LargeResult { kind, content }: LargeResult,
    ) -> Result<Delivered, ClientError> {
        let url = self.url_with(&["queries", query, "tool-calls", id, "result"], parameters);
        self.delivered(self.request(Method::PUT, url).header(CONTENT_TYPE, kind).body(content)).await
    }

    async fn delivered(&self, request: RequestBuilder) -> Result<Delivered, ClientError> {
        let response = self.send(request).await?;
        let replayed = response.headers().get("idempotent-replayed").is_some_and(|value| value == "true");
        Ok(Delivered { replayed, query: self.read(response).await? })
    }

    /// The state of a query, with its open calls as `toolCalls`.
    ///
    /// # Errors
    /// If the server is unreachable, or has no such query.
    pub async fn get(&self, name: &str) -> Result<Value, ClientError> {
        self.get_at(&["queries", name], &[("view", "rfc")]).await
    }

    /// Cancels a query, also if its creation is still under way. One that has ended already stays as it is.
    ///
    /// # Errors
    /// If the server stays unreachable, or does not let this client cancel the query.
    pub async fn cancel(&self, name: &str) -> Result<(), ClientError> {
        let mut failures = 0;
        loop {
            let request = self.request(Method::PATCH, self.url(&["queries", name, "cancel"]));
            match self.send(request).await.map(|_| ()) {
                Err(error)
                    if failures < MAX_FAILURES && (error.is_passing() || error.code() == Some("query_not_found")) =>
                {
                    failures += 1;
                    tokio::time::sleep(retry::pause(failures, Some(&error))).await;
                }
                ended => return ended,
            }
        }
    }

    /// What is at a path of the namespace, such as `["agents", "assistant"]`.
    ///
    /// # Errors
    /// If the server is unreachable, or refuses the request.
    pub async fn get_at(&self, path: &[&str], parameters: &[(&str, &str)]) -> Result<Value, ClientError> {
        self.read(self.send(self.request(Method::GET, self.url_with(path, parameters))).await?).await
    }

    /// Posts to a path of the namespace.
    ///
    /// # Errors
    /// If the server is unreachable, or refuses the request.
    pub async fn post_to(
        &self,
        path: &[&str],
        parameters: &[(&str, &str)],
        body: &Value,
    ) -> Result<Value, ClientError> {
        self.read(self.send(self.request(Method::POST, self.url_with(path, parameters)).json(body)).await?).await
    }

    /// Deletes what is at a path of the namespace.
    ///
    /// # Errors
    /// If the server is unreachable, or refuses the request.
    pub async fn delete_at(&self, path: &[&str], parameters: &[(&str, &str)]) -> Result<Value, ClientError> {
        self.read(self.send(self.request(Method::DELETE, self.url_with(path, parameters))).await?).await
    }

    /// The content of the result of a call, as text.
    ///
    /// # Errors
    /// If the server is unreachable, or has no such result.
    pub async fn result(&self, query: &str, call: &str) -> Result<String, ClientError> {
        let url = self.url(&["queries", query, "tool-calls", call, "result"]);
        let body = self.read_bytes(self.send(self.request(Method::GET, url)).await?, MAX_ANSWER).await?;
        String::from_utf8(body).map_err(|_| ClientError::Unreadable("it is not UTF-8".to_owned()))
    }

    /// The names of the resources of a kind in the namespace: `agents`, for instance.
    ///
    /// # Errors
    /// If the server is unreachable, or does not let this client list them.
    pub async fn names(&self, kind: &str) -> Result<Vec<String>, ClientError> {
        let list = self.get_at(&[kind], &[]).await?;
        let items = list["items"].as_array().into_iter().flatten();
        Ok(items.filter_map(|item| item["name"].as_str()).map(str::to_owned).collect())
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| self.failure(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        // The status is known; a body that cannot be read makes the message shorter.
        let body = self.read_bytes(response, MAX_REFUSAL).await.unwrap_or_default();
        Err(ClientError::of_answer(Refusal::read(status, &body), seconds.map(Duration::from_secs)))
    }

    async fn read(&self, response: Response) -> Result<Value, ClientError> {
        let body = self.read_bytes(response, MAX_ANSWER).await?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Unreadable(error.to_string()))
    }

    async fn read_bytes(&self, mut response: Response, limit: usize) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failure(&error))? {
            if body.len() + chunk.len() > limit {
                return Err(ClientError::Unreadable(format!("it has more than {limit} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn failure(&self, error: &reqwest::Error) -> ClientError {
        let (server, reason) = (self.server().to_owned(), root_cause(error));
        if error.is_connect() {
            ClientError::Unreachable { server, reason }
        } else {
            ClientError::Broken { server, reason }
        }
    }
}

/// The root cause of an error: `Connection refused`, not `error sending request`.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_escape_their_path_segment() {
        let client = Client::new("http://127.0.0.1:8080/").unwrap();
        assert_eq!(client.server(), "http://127.0.0.1:8080");
        assert_eq!(client.query_url("a/../b?c"), "http://127.0.0.1:8080/v1/queries/a%2F..%2Fb%3Fc");
        let behind_proxy = Client::new("https://example.org/bosun").unwrap().with_namespace("team a");
        assert_eq!(behind_proxy.query_url("q"), "https://example.org/bosun/v1/namespaces/team%20a/queries/q");
    }

    #[test]
    fn a_server_has_an_http_url_and_a_key_fits_into_a_header() {
        for url in ["", "nonsense", "ftp://host", "127.0.0.1:8080", "http://"] {
            assert!(matches!(Client::new(url), Err(ClientError::InvalidUrl(_))), "{url}");
        }
        let client = Client::new("http://127.0.0.1:1").unwrap();
        let key = |text: &str| text.parse::<Key>().unwrap();
        let header = |text: &str| client.clone().with_key(&key(text)).unwrap().authorization.unwrap();
        assert_eq!(header("sk-1"), "Bearer sk-1");
        assert_eq!(header("pk:sk"), "Basic cGs6c2s=");
        assert!(matches!(client.clone().with_key(&key("a\nb")), Err(ClientError::InvalidKey)));
        assert!(!format!("{:?} {:?}", key("sk-1"), client.with_key(&key("sk-1")).unwrap()).contains("sk-1"));
    }
}
