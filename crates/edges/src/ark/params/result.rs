//! What the URL says about a result whose content is the body.

use std::time::Duration;

use axum::http::HeaderMap;
use bosun_core::{Content, Outcome, duration};
use bosun_engine::LeaseToken;
use bosun_reading::{Report, table::duration_schema};
use serde_json::Value;

use super::{ParamGroup, QueryParameter, flag, flag_schema, non_empty, text_schema};
use crate::asking::results::{DEFAULT_FAILURE, NO_REASON};

#[derive(Clone, Debug, Default)]
pub(crate) struct ResultOptions {
    success: Option<bool>,
    error: Option<String>,
    code: Option<String>,
    /// How long the tool ran, if the client has measured it.
    pub(crate) took: Option<Duration>,
    /// The query is held where it is.
    pub(crate) hold: bool,
    /// The lease of the worker that has claimed the call.
    pub(crate) lease: Option<LeaseToken>,
}

impl ParamGroup for ResultOptions {
    const QUERY: &'static [QueryParameter<Self>] = &[
        QueryParameter {
            names: &["success"],
            description: "Whether the tool succeeded",
            schema: flag_schema,
            read: |this, value, _| {
                this.success = Some(flag(value)?);
                Ok(())
            },
        },
        QueryParameter {
            names: &["error"],
            description: "What went wrong; the agent reads it",
            schema: text_schema,
            read: |this, value, _| {
                this.error = non_empty(value);
                Ok(())
            },
        },
        QueryParameter {
            names: &["errorCode"],
            description: "The same for programs",
            schema: text_schema,
            read: |this, value, _| {
                this.code = non_empty(value);
                Ok(())
            },
        },
        QueryParameter {
            names: &["duration"],
            description: "How long the tool ran",
            schema: duration_schema,
            read: |this, value, _| {
                this.took = Some(duration::parse(value).ok_or("a duration such as `70ms` or `1.5s`")?);
                Ok(())
            },
        },
        QueryParameter {
            names: &["continueExecution"],
            description: "`false` holds the query where it is",
            schema: flag_schema,
            read: |this, value, _| {
                this.hold = !flag(value)?;
                Ok(())
            },
        },
        QueryParameter {
            names: &["lease"],
            description: "Of a worker: the lease with which the call was handed out. Without it, the result is that of \
                the query's client",
            schema: text_schema,
            read: |this, value, _| {
                this.lease = Some(LeaseToken::parse(value).ok_or("the lease with which the call was handed out")?);
                Ok(())
            },
        },
    ];

    fn finish(&mut self, _: &HeaderMap, report: &Report) {
        if self.success == Some(true) && self.is_failure() {
            report.fault("success", "invalid", "is true, and there is an `error`");
        }
    }
}

impl ResultOptions {
    /// Whether the tool failed.
    pub(crate) fn is_failure(&self) -> bool {
        self.success == Some(false) || self.error.is_some() || self.code.is_some()
    }

    /// The outcome with this content, which a failure need not have.
    pub(crate) fn outcome(&self, content: Option<Content>) -> Option<Outcome> {
        if !self.is_failure() {
            return content.map(|content| Outcome::Success { content });
        }
        let given = |text: &Option<String>, default: &str| text.clone().unwrap_or_else(|| default.to_owned());
        Some(Outcome::Failure {
            code: given(&self.code, DEFAULT_FAILURE),
            message: given(&self.error, NO_REASON),
            content: content.filter(|content| *content != Content::Inline(Value::Null)),
        })
    }
}
