//! Why a call through Nango has no result, and how that is reported to the model.
//!
//! Nango reports a failure of an action script as 500, so the `code` of its body decides and not the status. A 401 means
//! that *our* key is wrong; a login of the user that has expired is a 424 with the provider's own status.

use std::time::{Duration, SystemTime};

use bosun_core::{Outcome, machine::outcome_code, text::clip};
use hyper::{StatusCode, header::HeaderMap};
use serde_json::{Value, json};

use crate::outbound::retry;

/// Characters of a message of another server.
const LONGEST_MESSAGE: usize = 500;

/// Why there is no result. Messages are sentences that a model can act on, and contain no secret.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum NangoError {
    /// Our settings, our key, or what is deployed at Nango: nothing that the model or the user can change.
    #[error("{0}")]
    Misconfigured(String),
    /// Nango does not know what the request names.
    #[error("{0}")]
    NotFound(String),
    /// The arguments passed their schema and still cannot be applied.
    #[error("{0}")]
    InvalidArguments(String),
    #[error("{message}")]
    NotConnected { message: String, link: Option<Value> },
    #[error("{message}")]
    AuthExpired { message: String, link: Option<Value> },
    #[error("{message}")]
    RateLimited { message: String, retry_after: Option<Duration> },
    /// The provider's rate limit, which the action has met: that is its result.
    #[error("{message}")]
    ProviderLimited { message: String, retry_after: Option<Duration> },
    /// The provider's API refused or failed; its answer, if there is one.
    #[error("{message}")]
    Upstream { message: String, answer: Option<Value> },
    /// The action itself failed; what its script says about it.
    #[error("{message}")]
    ActionFailed { message: String, payload: Option<Value> },
    #[error("{0}")]
    SyncNotReady(String),
    /// Nango could not be connected to: nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// The connection to Nango broke, or Nango itself failed. Whether a request took effect is not known.
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    TooLarge(String),
}

impl NangoError {
    fn code(&self) -> &'static str {
        match self {
            Self::Misconfigured(_) | Self::NotFound(_) => outcome_code::TOOL_MISCONFIGURED,
            Self::InvalidArguments(_) => outcome_code::INVALID_ARGUMENTS,
            Self::NotConnected { .. } => outcome_code::PROVIDER_NOT_CONNECTED,
            Self::AuthExpired { .. } => outcome_code::PROVIDER_AUTH_EXPIRED,
            Self::RateLimited { .. } | Self::ProviderLimited { .. } => outcome_code::RATE_LIMITED,
            Self::Upstream { .. } => outcome_code::UPSTREAM_ERROR,
            Self::ActionFailed { .. } => outcome_code::ACTION_FAILED,
            Self::SyncNotReady(_) => outcome_code::SYNC_NOT_READY,
            Self::Unreachable(_) => outcome_code::TOOL_UNREACHABLE,
            Self::Unavailable(_) => outcome_code::TOOL_FAILED,
            Self::TooLarge(_) => outcome_code::RESULT_TOO_LARGE,
        }
    }

    /// The outcome that the model reads.
    pub(super) fn into_outcome(self) -> Outcome {
        let (code, message) = (self.code().to_owned(), self.to_string());
        let content = match self {
            Self::NotConnected { link, .. } | Self::AuthExpired { link, .. } => link,
            Self::Upstream { answer, .. } => answer,
            Self::ActionFailed { payload, .. } => payload,
            Self::RateLimited { retry_after, .. } | Self::ProviderLimited { retry_after, .. } => {
                retry_after.map(|wait| json!({"retryAfterSeconds": wait.as_secs_f64().ceil()}))
            }
            _ => None,
        };
        Outcome::Failure { code, message, content: content.map(Into::into) }
    }

    /// The same for a request that may have taken effect: whether it did is not known.
    pub(super) fn into_unknown(self) -> Outcome {
        match self {
            Self::Unavailable(message) | Self::TooLarge(message) => {
                let message = format!("{message}; whether the action took effect is not known");
                Outcome::failure(outcome_code::OUTCOME_UNKNOWN, message)
            }
            other => other.into_outcome(),
        }
    }

    /// Whether the same read may succeed if it is repeated, and after which delay.
    pub(super) fn is_passing(&self) -> Option<Option<Duration>> {
        match self {
            Self::RateLimited { retry_after, .. } => Some(*retry_after),
            Self::Unreachable(_) | Self::Unavailable(_) => Some(None),
            _ => None,
        }
    }

    /// The error of an answer with a status of failure. `body` was redacted.
    pub(super) fn of_answer(status: StatusCode, headers: &HeaderMap, body: &Value) -> Self {
        let error = body.get("error").unwrap_or(body);
        let text = |name: &str| error.get(name).and_then(Value::as_str);
        let code = text("code").unwrap_or_default();
        let detail = text("message").or_else(|| error.pointer("/payload/message").and_then(Value::as_str));
        let detail = detail.map(|detail| clip(detail, LONGEST_MESSAGE));
        let with =
            |message: &str| detail.as_ref().map_or_else(|| message.to_owned(), |detail| format!("{message}: {detail}"));
        let payload = || error.get("payload").filter(|payload| !payload.is_null()).cloned();
        match (status.as_u16(), code) {
            (401 | 403, _) => Self::Misconfigured(format!(
                "Nango refused the server's key ({status}, `{}`): its operator has to check the secret `nango`",
                clip(code, 80)
            )),
            (429, _) => {
                let retry_after = retry::asked_wait(headers, SystemTime::now());
                Self::RateLimited { message: "Nango's rate limit is reached; try again later".to_owned(), retry_after }
            }
            (_, "unknown_connection") => Self::NotConnected {
                message: "Nango no longer knows the connection of this call".to_owned(),
                link: None,
            },
            (_, "unknown_provider" | "unknown_provider_config") => {
                Self::Misconfigured("Nango has no integration with the tool's `providerConfigKey`".to_owned())
            }
            (_, "invalid_credentials" | "connection_refresh_backoff") => {
                Self::AuthExpired { message: "the connection to the provider has expired".to_owned(), link: None }
            }
            // The code says so, whether or not Nango passes on the provider's answer.
            (_, "script_api_rate_limit_error") => Self::of_provider_limit(error.get("upstream")),
            (_, "script_http_error") => Self::of_upstream(error),
            (
                _,
                "action_script_runtime_error"
                | "script_internal_error"
                | "script_network_error"
                | "script_output_error",
            ) => Self::ActionFailed { message: with("the action failed"), payload: payload() },
            (_, "disabled_resource") => Self::Misconfigured("the action is disabled at Nango".to_owned()),
            (404, "not_found") => Self::NotFound(with("Nango does not have it")),
            (400..500, _) => {
                Self::Misconfigured(with(&format!("Nango refused the request ({status}, `{}`)", clip(code, 80))))
            }
            _ => Self::Unavailable(with(&format!("Nango failed ({status})"))),
        }
    }

    /// The provider's own answer, inside an action.
    fn of_upstream(error: &Value) -> Self {
        let upstream = error.get("upstream");
        let status = upstream.and_then(|upstream| upstream.get("status")).and_then(Value::as_u64);
        let answer = upstream.and_then(|upstream| upstream.get("body")).or_else(|| error.get("payload"));
        let answer = answer.filter(|answer| !answer.is_null()).cloned();
        match status {
            Some(401) => Self::AuthExpired { message: "the provider refused the user's login".to_owned(), link: None },
            Some(429) => Self::of_provider_limit(upstream),
            Some(status) => Self::Upstream { message: format!("the provider's API answered {status}"), answer },
            None => Self::Upstream { message: "the provider's API failed".to_owned(), answer },
        }
    }

    /// The provider's rate limit, with what its answer says about when to try again.
    fn of_provider_limit(upstream: Option<&Value>) -> Self {
        let wait = upstream.and_then(|upstream| upstream.pointer("/headers/retry-after"));
        let wait = wait.and_then(|wait| wait.as_u64().or_else(|| wait.as_str()?.trim().parse().ok()));
        let message = "the provider's rate limit is reached; try again later".to_owned();
        Self::ProviderLimited { message, retry_after: wait.map(Duration::from_secs) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, body: &Value, code: &str, message: &str) -> Outcome {
        let error = NangoError::of_answer(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body);
        let outcome = error.into_outcome();
        let Outcome::Failure { code: found, message: text, .. } = &outcome else { panic!("{outcome:?}") };
        assert_eq!(found, code, "{status} {body}: {text}");
        assert!(text.contains(message), "{status} {body}: {text}");
        outcome
    }

    #[test]
    fn the_code_of_the_body_decides_and_not_the_status() {
        let with = |code: &str| json!({"error": {"code": code, "message": "details"}});
        check(401, &with("unknown_account"), "tool_misconfigured", "check the secret `nango`");
        check(403, &with("forbidden"), "tool_misconfigured", "`forbidden`");
        check(400, &with("unknown_connection"), "provider_not_connected", "connection");
        check(400, &with("unknown_provider"), "tool_misconfigured", "providerConfigKey");
        check(
            400,
            &with("invalid_query_params"),
            "tool_misconfigured",
            "(400 Bad Request, `invalid_query_params`): details",
        );
        check(404, &with("not_found"), "tool_misconfigured", "details");
        check(404, &with("disabled_resource"), "tool_misconfigured", "disabled");
        check(424, &with("invalid_credentials"), "provider_auth_expired", "expired");
        check(500, &with("server_error"), "tool_failed", "Nango failed (500 Internal Server Error): details");
        check(502, &json!("<html>"), "tool_failed", "Nango failed (502 Bad Gateway)");
        for code in ["action_script_runtime_error", "script_internal_error", "script_network_error"] {
            let body = json!({"error": {"code": code, "payload": {"message": "no such label"}}});
            let outcome = check(500, &body, "action_failed", "the action failed: no such label");
            let Outcome::Failure { content, .. } = outcome else { panic!() };
            assert_eq!(content, Some(json!({"message": "no such label"}).into()));
        }
    }

    #[test]
    fn the_providers_own_answer_is_distinguished() {
        let with = |status: Value, headers: Value| {
            json!({"error": {"code": "script_http_error", "payload": {"why": 1},
                "upstream": {"status": status, "headers": headers, "body": {"error": "quota"}}}})
        };
        check(424, &with(json!(401), json!({})), "provider_auth_expired", "refused the user's login");
        check(424, &with(json!(503), json!({})), "upstream_error", "the provider's API answered 503");
        let limited =
            check(424, &with(json!(429), json!({"retry-after": "7"})), "rate_limited", "provider's rate limit");
        let Outcome::Failure { content, .. } = limited else { panic!() };
        assert_eq!(content, Some(json!({"retryAfterSeconds": 7.0}).into()));
        check(424, &json!({"error": {"code": "script_http_error"}}), "upstream_error", "the provider's API failed");
    }

    #[test]
    fn a_rate_limit_of_the_provider_is_known_by_its_code_alone() {
        let limited = |more: Value| {
            let mut body = json!({"error": {"code": "script_api_rate_limit_error"}});
            body["error"].as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            let outcome = check(424, &body, "rate_limited", "provider's rate limit");
            let Outcome::Failure { content, .. } = outcome else { panic!() };
            content
        };
        assert_eq!(limited(json!({})), None);
        assert_eq!(limited(json!({"payload": {"why": 1}, "upstream": null})), None);
        let upstream = json!({"status": 403, "headers": {"retry-after": 9}, "body": "slow down"});
        assert_eq!(limited(json!({"upstream": upstream})), Some(json!({"retryAfterSeconds": 9.0}).into()));
    }

    #[test]
    fn a_rate_limit_has_no_message_of_its_own() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "0".parse().unwrap());
        let body = json!({"error": {"code": "too_many_request", "method": "GET", "path": "/records"}});
        let error = NangoError::of_answer(StatusCode::TOO_MANY_REQUESTS, &headers, &body);
        assert_eq!(error.is_passing(), Some(Some(Duration::ZERO)));
    }
}
