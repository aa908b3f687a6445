//! Sends a request: redirects that are allowed are followed, and a request that may be repeated is retried.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime},
};

use bosun_core::{content::Content, machine::outcome_code};
use hyper::{Response, StatusCode, header::LOCATION};
use url::Url;

use super::{
    CallFailure,
    request::PreparedRequest,
    response::{self, shown},
};
use crate::{
    outbound::{
        Body, OutboundError, Pool, cause,
        retry::{self, Backoff},
    },
    secret::{binding::SecretReach, redaction::Redaction},
};

/// The maximum number of redirects.
const HOPS: usize = 3;

/// How one call is sent.
pub(super) struct Exchange<'a> {
    pub(super) pool: &'a Pool,
    /// What the definition may reach, at its own origin.
    pub(super) reach: &'a SecretReach,
    pub(super) origin: &'a Url,
    pub(super) follows_redirects: bool,
    pub(super) is_safe_to_repeat: bool,
    pub(super) backoff: Backoff,
    pub(super) redaction: &'a Redaction,
    /// The identity of the call, for the jitter.
    pub(super) id: &'a str,
}

/// Why an attempt has no result.
enum Attempt {
    /// A retry may succeed.
    Passing {
        failure: CallFailure,
        asked_wait: Option<Duration>,
        was_sent: bool,
    },
    Final(CallFailure),
}

impl From<CallFailure> for Attempt {
    fn from(failure: CallFailure) -> Self {
        Self::Final(failure)
    }
}

impl From<OutboundError> for Attempt {
    fn from(error: OutboundError) -> Self {
        let unreachable = |message: String| CallFailure::new(outcome_code::TOOL_UNREACHABLE, message);
        match error {
            OutboundError::NotPublic(refused) => {
                Self::Final(CallFailure::new(outcome_code::ADDRESS_NOT_ALLOWED, refused.to_string()))
            }
            OutboundError::Tls(error) => {
                let message = format!("this machine cannot open secure connections: {}", cause(&error));
                Self::Final(CallFailure::new(outcome_code::TOOL_MISCONFIGURED, message))
            }
            OutboundError::Connect(error) => Self::Passing {
                failure: unreachable(format!("the API cannot be reached: {}", cause(&error))),
                asked_wait: None,
                was_sent: false,
            },
            OutboundError::Broken(error) => Self::Passing {
                failure: CallFailure::failed(format!("the API sent no valid answer: {}", cause(&error))),
                asked_wait: None,
                was_sent: true,
            },
        }
    }
}

impl Exchange<'_> {
    /// The result of a request. `time_left` is what is left for the call at any moment.
    pub(super) async fn run(
        &self,
        prepared: &PreparedRequest,
        time_left: impl Fn() -> Duration,
    ) -> Result<Content, CallFailure> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (failure, asked_wait, was_sent) = match self.attempt(prepared).await {
                Ok(value) => return Ok(value),
                Err(Attempt::Final(failure)) => return Err(failure),
                Err(Attempt::Passing { failure, asked_wait, was_sent }) => (failure, asked_wait, was_sent),
            };
            // A request that was never sent may be retried, whatever its effects.
            let may_repeat = self.is_safe_to_repeat || !was_sent;
            let spread = retry::spread(&[self.id.as_bytes(), &u32::to_be_bytes(attempts)]);
            let wait = self.backoff.wait(attempts, asked_wait, spread);
            let Some(wait) = wait.filter(|wait| may_repeat && *wait < time_left()) else { return Err(failure) };
            let wait_ms = wait.as_millis();
            tracing::warn!(attempts, code = failure.code, wait_ms, "HTTP tool has no result, retrying");
            tokio::time::sleep(wait).await;
        }
    }

    async fn attempt(&self, prepared: &PreparedRequest) -> Result<Content, Attempt> {
        let mut prepared = Cow::Borrowed(prepared);
        for _ in 0..=HOPS {
            let response = self.send(&prepared).await?;
            let status = response.status();
            if !(self.follows_redirects && is_redirect(status)) {
                return self.read(response).await;
            }
            let keeps_method = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            let to = location(&response, prepared.url())?;
            prepared = Cow::Owned(prepared.into_owned().redirected(to, keeps_method)?);
        }
        Err(CallFailure::failed(format!("the API answered with more than {HOPS} redirects")).into())
    }

    async fn send(&self, prepared: &PreparedRequest) -> Result<Response<Body>, Attempt> {
        // A redirect may lead back to the origin of the definition; any other target must be one that clients may reach.
        let of_redirect = SecretReach::Stored { grants: Default::default(), own: None };
        let is_own = prepared.url().origin() == self.origin.origin();
        let client = self.pool.client(prepared.url(), if is_own { self.reach } else { &of_redirect })?;
        Ok(client.send(prepared.request()?).await?)
    }

    async fn read(&self, response: Response<Body>) -> Result<Content, Attempt> {
        let status = response.status();
        if status.is_success() {
            return Ok(response::read(response, self.redaction).await?);
        }
        if is_redirect(status) {
            let message = format!("the API answered {}, and this tool follows no redirects", shown(status));
            return Err(CallFailure::new(outcome_code::HTTP_STATUS, message).into());
        }
        let is_passing = matches!(
            status,
            StatusCode::REQUEST_TIMEOUT
                | StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        let asked_wait = retry::asked_wait(response.headers(), SystemTime::now());
        let failure = response::refusal(response, self.redaction).await;
        if is_passing {
            return Err(Attempt::Passing { failure, asked_wait, was_sent: true });
        }
        Err(failure.into())
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The target of a redirect. The address is not shown: it may contain a token.
fn location(response: &Response<Body>, from: &Url) -> Result<Url, CallFailure> {
    let header = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let found = header.and_then(|text| from.join(text).ok()).filter(|url| {
        let has_user = !url.username().is_empty() || url.password().is_some();
        matches!(url.scheme(), "http" | "https") && !has_user
    });
    let mut url =
        found.ok_or_else(|| CallFailure::failed("the API answered with a redirect without a usable `Location`"))?;
    url.set_fragment(None);
    Ok(url)
}
