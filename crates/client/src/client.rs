//! The requests of the REST API that a client needs, each as one method.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use bosun_core::content::INLINE_BYTES;
use reqwest::{Method, RequestBuilder, Url, header::CONTENT_TYPE};
use serde_json::{Value, json};

use crate::{
    ClientError, EventStream, Key, OpenCall, Question,
    connection::{Connection, MAX_ANSWER},
    retry::{self, MAX_FAILURES},
    transport::Transport,
};

/// A server, the credential for it, and the namespace to work in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    connection: Connection,
    /// The key's own if absent: the server knows which that is.
    namespace: Option<String>,
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
        Ok(Self { connection: Connection::new(server)?, namespace: None })
    }

    /// Authenticates every request.
    ///
    /// # Errors
    /// If the key cannot be sent.
    pub fn with_key(mut self, key: &Key) -> Result<Self, ClientError> {
        self.connection = self.connection.with_key(key)?;
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
        self.connection.server()
    }

    /// The namespace to work in, if it is not the key's own.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// A question to an agent. Nothing is sent before the question is awaited.
    pub fn ask(&self, agent: impl Into<String>, input: impl Into<String>) -> Question<'_> {
        Question::new(Transport::Rest(self), input.into())
            .set("target", json!({ "type": "agent", "name": agent.into() }))
    }

    /// Continues a query that exists: another process has asked it, or this one before it was restarted. Only the tools
    /// of [`Question::tools`] have an effect; everything else was fixed when the query was created.
    pub fn resume(&self, query: impl Into<String>) -> Question<'_> {
        Question::existing(Transport::Rest(self), query.into())
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
        let mut url = self.connection.url().clone();
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

    /// Creates a query and follows it in the same answer.
    ///
    /// # Errors
    /// If the server is unreachable, or refuses the query.
    pub async fn create(&self, query: &Value) -> Result<EventStream, ClientError> {
        let url = self.url_with(&["queries"], &[("stream", "true")]);
        self.connection.open(self.connection.request(Method::POST, url).json(query)).await
    }

    /// Follows a query from the event after `last_id`.
    ///
    /// # Errors
    /// If the server is unreachable, or has no such query.
    pub async fn follow(&self, name: &str, last_id: Option<&str>) -> Result<EventStream, ClientError> {
        let mut request = self.connection.request(Method::GET, self.url(&["queries", name, "events"]));
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        self.connection.open(request).await
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
        self.delivered(self.connection.request(Method::POST, url).json(&body)).await
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
        self.delivered(self.connection.request(Method::PUT, url).header(CONTENT_TYPE, kind).body(content)).await
    }

    async fn delivered(&self, request: RequestBuilder) -> Result<Delivered, ClientError> {
        let response = self.connection.send(request).await?;
        let replayed = response.headers().get("idempotent-replayed").is_some_and(|value| value == "true");
        Ok(Delivered { replayed, query: self.connection.read(response).await? })
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
            let request = self.connection.request(Method::PATCH, self.url(&["queries", name, "cancel"]));
            match self.connection.send(request).await.map(|_| ()) {
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
        self.connection
            .read(self.connection.send(self.connection.request(Method::GET, self.url_with(path, parameters))).await?)
            .await
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
        self.connection
            .read(
                self.connection
                    .send(self.connection.request(Method::POST, self.url_with(path, parameters)).json(body))
                    .await?,
            )
            .await
    }

    /// Deletes what is at a path of the namespace.
    ///
    /// # Errors
    /// If the server is unreachable, or refuses the request.
    pub async fn delete_at(&self, path: &[&str], parameters: &[(&str, &str)]) -> Result<Value, ClientError> {
        self.connection
            .read(self.connection.send(self.connection.request(Method::DELETE, self.url_with(path, parameters))).await?)
            .await
    }

    /// The content of the result of a call, as text.
    ///
    /// # Errors
    /// If the server is unreachable, or has no such result.
    pub async fn result(&self, query: &str, call: &str) -> Result<String, ClientError> {
        let url = self.url(&["queries", query, "tool-calls", call, "result"]);
        let body = self
            .connection
            .read_bytes(self.connection.send(self.connection.request(Method::GET, url)).await?, MAX_ANSWER)
            .await?;
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
}
