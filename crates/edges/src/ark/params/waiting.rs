//! `wait`: how long a request may wait for the next state of a query before it is answered.

use std::time::Duration;

use bosun_core::duration;
use bosun_reading::{Report, table::DURATION};
use serde_json::{Value, json};

use super::{ParamGroup, QueryParameter};
pub(crate) use crate::asking::wait::{DEFAULT_WAIT, MAX_WAIT};

/// How long the client wants to wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitTime {
    /// `Some(0)`: not at all.
    wait: Option<Duration>,
}

impl ParamGroup for WaitTime {
    const QUERY: &'static [QueryParameter<Self>] = &[QueryParameter {
        names: &["wait"],
        description: "How long to wait for the next state before answering",
        schema: || json!({"type": "string", "pattern": format!("^(true|false|0|0s|[1-9][0-9]*|{DURATION})$")}),
        read: |this, value, report| {
            let wait = read_wait(&Value::from(value)).ok_or("true, false or a duration such as `20s`")?;
            this.wait = Some(clamp_wait(wait, report));
            Ok(())
        },
    }];
}

impl WaitTime {
    /// How long the engine should wait: as the query string says, or else `default`.
    pub(crate) fn or(self, default: Option<Duration>) -> Option<Duration> {
        self.wait.or(default).filter(|wait| !wait.is_zero())
    }
}

/// Reads `true`, `20`, `"20s"`; zero means not at all.
pub(crate) fn read_wait(value: &Value) -> Option<Duration> {
    match value {
        Value::Bool(true) => Some(DEFAULT_WAIT),
        Value::Bool(false) => Some(Duration::ZERO),
        Value::Number(number) if number.as_u64() == Some(0) => Some(Duration::ZERO),
        Value::String(text) => match text.as_str() {
            "true" => Some(DEFAULT_WAIT),
            "false" | "0" | "0s" => Some(Duration::ZERO),
            _ => duration::positive_from_json(value),
        },
        _ => duration::positive_from_json(value),
    }
}

pub(crate) fn clamp_wait(wait: Duration, report: &Report) -> Duration {
    if wait > MAX_WAIT {
        report.note(format!(
            "`wait` of {} was shortened to {}, the longest that is served",
            duration::format(wait),
            duration::format(MAX_WAIT)
        ));
    }
    wait.min(MAX_WAIT)
}
