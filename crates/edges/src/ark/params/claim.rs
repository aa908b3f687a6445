//! What a worker asks for: which tools, how many calls, and for how long.

use std::time::Duration;

use bosun_core::{ceiling, duration};
use bosun_reading::{Field, Report, table::duration_schema};
use serde_json::{Value, json};

use super::{ParamGroup, QueryParameter};

/// The default lease of a claimed call.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(60);
/// The longest lease without a heartbeat, which is how long a call of a lost worker waits.
const LONGEST_LEASE: Duration = Duration::from_secs(ceiling::LEASE_SECONDS as u64);
/// The default number of calls that are claimed at once.
const DEFAULT_LIMIT: usize = 1;

/// The lease that a heartbeat asks for.
pub(crate) const LEASE: Field = Field::new("for", duration_schema);

/// `tools`, `limit` and `lease`
#[derive(Debug)]
pub(crate) struct ClaimOptions {
    pub(crate) tools: Vec<String>,
    pub(crate) limit: usize,
    pub(crate) lease: Duration,
}

impl Default for ClaimOptions {
    fn default() -> Self {
        Self { tools: Vec::new(), limit: DEFAULT_LIMIT, lease: DEFAULT_LEASE }
    }
}

impl ParamGroup for ClaimOptions {
    const QUERY: &'static [QueryParameter<Self>] = &[
        QueryParameter {
            names: &["tools"],
            description: "The names of the tools that the worker runs, with commas",
            schema: || json!({"type": "string", "minLength": 1}),
            read: |this, value, _| {
                this.tools =
                    value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
                if this.tools.len() > ceiling::WORKER_TOOLS {
                    return Err(format!("a list of at most {} tools", ceiling::WORKER_TOOLS).into());
                }
                Ok(())
            },
        },
        QueryParameter {
            names: &["limit"],
            description: "How many calls to claim at most",
            schema: || json!({"type": "integer", "minimum": 1, "maximum": ceiling::CALLS_CLAIMED}),
            read: |this, value, _| {
                let limit = value.parse().ok().filter(|limit| (1..=ceiling::CALLS_CLAIMED).contains(limit));
                this.limit = limit.ok_or_else(|| format!("a number from 1 to {}", ceiling::CALLS_CLAIMED))?;
                Ok(())
            },
        },
        QueryParameter {
            names: &["lease"],
            description: "How long the worker has each call without a heartbeat",
            schema: duration_schema,
            read: |this, value, report| {
                let lease = duration::positive_from_json(&Value::from(value)).ok_or("a duration such as `60s`")?;
                this.lease = clamp_lease(lease, report);
                Ok(())
            },
        },
    ];

    fn finish(&mut self, _: &axum::http::HeaderMap, report: &Report) {
        if self.tools.is_empty() {
            report.fault("tools", "missing", "is missing: name the tools that the worker runs, with commas");
        }
    }
}

pub(crate) fn clamp_lease(lease: Duration, report: &Report) -> Duration {
    if lease > LONGEST_LEASE {
        report.note(format!(
            "a lease of {} was shortened to {}, the longest that is served",
            duration::format(lease),
            duration::format(LONGEST_LEASE)
        ));
    }
    lease.min(LONGEST_LEASE)
}
