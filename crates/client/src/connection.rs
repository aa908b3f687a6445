//! One server over HTTP: requests with the credential, answers of bounded size, and errors of all of them.

use std::{error::Error, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{
    Method, RequestBuilder, Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER},
};
use serde_json::Value;

use crate::{ClientError, EventStream, Refusal};

/// A server that does not answer within this time is considered unreachable. A stream may then be silent, but not for
/// longer than two heartbeats.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(40);
/// The largest answer that is read: a result of 64 MiB in JSON.
pub(crate) const MAX_ANSWER: usize = 80 * 1024 * 1024;
/// What is read of an answer without success.
const MAX_REFUSAL: usize = 256 * 1024;

/// A server and the credential for it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    http: reqwest::Client,
    url: Url,
    authorization: Option<HeaderValue>,
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

impl Connection {
    pub(crate) fn new(server: &str) -> Result<Self, ClientError> {
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
        Ok(Self { http, url, authorization: None })
    }

    pub(crate) fn with_key(mut self, Key(key): &Key) -> Result<Self, ClientError> {
        let is_pair = key.contains(':');
        let text = if is_pair { format!("Basic {}", BASE64_STANDARD.encode(key)) } else { format!("Bearer {key}") };
        let mut value = HeaderValue::from_str(&text).map_err(|_| ClientError::InvalidKey)?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(self)
    }

    pub(crate) fn has_key(&self) -> bool {
        self.authorization.is_some()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// The URL without a trailing slash.
    pub(crate) fn server(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.http.request(method, url);
        match &self.authorization {
            Some(value) => request.header(AUTHORIZATION, value.clone()),
            None => request,
        }
    }

    /// Sends a request whose answer is a stream of events.
    pub(crate) async fn open(&self, request: RequestBuilder) -> Result<EventStream, ClientError> {
        let response = self.send(request).await?;
        if is_event_stream(&response) {
            return Ok(self.stream(response));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        Err(ClientError::Unreadable(format!("it is of type `{kind}`, not an event stream")))
    }

    pub(crate) fn stream(&self, response: Response) -> EventStream {
        EventStream::new(self.server().to_owned(), response)
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
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

    pub(crate) async fn read(&self, response: Response) -> Result<Value, ClientError> {
        let body = self.read_bytes(response, MAX_ANSWER).await?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Unreadable(error.to_string()))
    }

    pub(crate) async fn read_bytes(&self, mut response: Response, limit: usize) -> Result<Vec<u8>, ClientError> {
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

pub(crate) fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
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
    fn a_server_has_an_http_url_and_a_key_fits_into_a_header() {
        for url in ["", "nonsense", "ftp://host", "127.0.0.1:8080", "http://"] {
            assert!(matches!(Connection::new(url), Err(ClientError::InvalidUrl(_))), "{url}");
        }
        let client = Connection::new("http://127.0.0.1:1").unwrap();
        let key = |text: &str| text.parse::<Key>().unwrap();
        let header = |text: &str| client.clone().with_key(&key(text)).unwrap().authorization.unwrap();
        assert_eq!(header("sk-1"), "Bearer sk-1");
        assert_eq!(header("pk:sk"), "Basic cGs6c2s=");
        assert!(matches!(client.clone().with_key(&key("a\nb")), Err(ClientError::InvalidKey)));
        assert!(!format!("{:?} {:?}", key("sk-1"), client.with_key(&key("sk-1")).unwrap()).contains("sk-1"));
    }
}
