//! What a request looks for in the audit log or the counts of usage.
//!
//! A time is RFC 3339, a date, or a duration that counts back from now.

use std::time::Duration;

use bosun_core::{QueryName, Timestamp, audit::Action, tool::parse_duration, usage::Hour};
use bosun_engine::store::Search;
use serde_json::{Value, json};

/// How far back usage is counted where nobody says.
const DEFAULT_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);
/// How many tools the share of the most used is of, where nobody says.
const DEFAULT_TOP: usize = 10;
const MOST_TOP: usize = 1_000;

#[derive(Clone, Copy, Debug)]
enum When {
    At(Timestamp),
    Ago(Duration),
}

impl When {
    fn read(text: &str) -> Option<Self> {
        Timestamp::from_rfc3339(text).map(Self::At).or_else(|| parse_duration(text).map(Self::Ago))
    }

    fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(duration) => {
                Timestamp(now.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Lookup {
    actor: Option<String>,
    tool: Option<String>,
    query: Option<QueryName>,
    action: Option<Action>,
    from: Option<When>,
    to: Option<When>,
    since: Option<When>,
    cursor: Option<u64>,
    top: Option<usize>,
}

impl Lookup {
    /// Takes one parameter, or says what it should have been.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        const TIME: &str = "a time such as `2026-11-15T08:00:00Z`, or a duration such as `24h`";
        let when = || When::read(value).map(Some).ok_or(TIME);
        match name {
            "actor" => self.actor = Some(value.to_owned()),
            "tool" => self.tool = Some(value.to_owned()),
            "query" => self.query = Some(value.parse().map_err(|_| "the name of a query")?),
            "action" => self.action = Some(read_action(value).ok_or("an action such as `call.delivered`")?),
            "from" => self.from = when()?,
            "to" => self.to = when()?,
            "since" => self.since = when()?,
            "cursor" => self.cursor = Some(value.parse().map_err(|_| "the `next` of an earlier page")?),
            _ => {
                let top = value.parse().ok().filter(|top| (1..=MOST_TOP).contains(top));
                self.top = Some(top.ok_or("a number from 1 to 1000")?);
            }
        }
        Ok(())
    }

    /// The query that was asked for.
    pub(super) fn query(&self) -> Option<&QueryName> {
        self.query.as_ref()
    }

    pub(super) fn search(&self, now: Timestamp, limit: usize) -> Search {
        Search {
            actor: self.actor.clone(),
            tool: self.tool.clone(),
            query: self.query.clone(),
            action: self.action,
            from: self.from.map(|when| when.at(now)),
            to: self.to.map(|when| when.at(now)),
            before: self.cursor,
            limit,
        }
    }

    /// The first hour that is counted.
    pub(super) fn since(&self, now: Timestamp) -> Hour {
        Hour::of(self.since.unwrap_or(When::Ago(DEFAULT_WINDOW)).at(now))
    }

    pub(super) fn top(&self) -> usize {
        self.top.unwrap_or(DEFAULT_TOP)
    }
}

/// An action by the word that records have for it.
fn read_action(text: &str) -> Option<Action> {
    serde_json::from_value(Value::from(text)).ok()
}

/// A parameter, described.
pub(super) fn parameter(name: &str) -> Value {
    const TIME: &str = "^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z|[1-9][0-9]{0,3}(s|m|h))$";
    let in_query = |schema: Value, description: &str| json!({"name": name, "in": "query", "schema": schema, "description": description});
    match name {
        "actor" => in_query(json!({"type": "string"}), "Only what this actor did"),
        "tool" => in_query(json!({"type": "string"}), "Only what concerns this tool"),
        "query" => in_query(
            json!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253}),
            "Only what concerns this query",
        ),
        "action" => {
            in_query(json!({"type": "string", "examples": ["call.delivered"]}), "Only what was done in this way")
        }
        "from" => in_query(json!({"type": "string", "pattern": TIME}), "Not before this time, or so long ago"),
        "to" => in_query(json!({"type": "string", "pattern": TIME}), "Before this time"),
        "since" => {
            in_query(json!({"type": "string", "pattern": TIME}), "From the hour of this time on; `24h` without it")
        }
        "cursor" => in_query(json!({"type": "integer", "minimum": 0}), "The `next` of the page before"),
        "top" => in_query(
            json!({"type": "integer", "minimum": 1, "maximum": MOST_TOP}),
            "How many of the most used tools the coverage is of",
        ),
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_794_700_800_000);

    #[track_caller]
    fn check(text: &str, expect: Option<i64>) {
        assert_eq!(When::read(text).map(|when| when.at(NOW).0), expect, "{text}");
    }

    #[test]
    fn a_time_is_a_moment_or_so_long_ago() {
        check("2026-11-15T00:00:00Z", Some(NOW.0));
        check("2026-11-15", Some(NOW.0));
        check("24h", Some(NOW.0 - 86_400_000));
        check("90s", Some(NOW.0 - 90_000));
        check("yesterday", None);
        check("", None);
        check("-1h", None);
    }

    #[test]
    fn every_parameter_is_taken_and_described() {
        for (name, good, bad) in [
            ("query", "a-query", "No Query"),
            ("action", "call.delivered", "call.dreamt_of"),
            ("from", "1h", "soon"),
            ("to", "2026-11-15", "2026-15-11"),
            ("since", "24h", "x"),
            ("cursor", "12", "-1"),
            ("top", "10", "0"),
        ] {
            let mut lookup = Lookup::default();
            assert!(lookup.set(name, good).is_ok() && lookup.set(name, bad).is_err(), "{name}");
            assert_eq!(parameter(name)["in"], "query", "{name}");
        }
        assert_eq!(Lookup::default().since(NOW), Hour::of(Timestamp(NOW.0 - 86_400_000)));
        assert_eq!(Lookup::default().top(), 10);
    }
}
