//! What a request looks for: queries, tools, records of the audit log, or counts of usage.
//!
//! A time is RFC 3339, a date, or a duration that counts back from now.

use std::{collections::BTreeMap, time::Duration};

use bosun_core::{
    Timestamp, Tool,
    audit::Action,
    duration,
    query::TargetKind,
    tool::{DEFAULT_CATEGORY, label_selector::LabelSelector},
    usage::Hour,
};
use bosun_engine::store::{QueryPage, RecordSearch};
use bosun_reading::table::DURATION;
use serde_json::{Value, json};

use super::{Expected, PageLimit, ParamGroup, QueryFilter, QueryParameter, non_empty, text_schema};

/// How far back usage is counted by default.
const DEFAULT_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);
/// The coverage is of this many of the most used tools by default.
const DEFAULT_TOP: usize = 10;
const MOST_TOP: usize = 1_000;

/// A time, or how long ago it was.
#[derive(Clone, Copy, Debug)]
enum PointInTime {
    At(Timestamp),
    Ago(Duration),
}

impl PointInTime {
    fn parse(text: &str) -> Option<Self> {
        Timestamp::from_rfc3339(text).map(Self::At).or_else(|| duration::parse_positive(text).map(Self::Ago))
    }

    fn read(text: &str) -> Result<Self, Expected> {
        const TIME: &str = "a time such as `2026-11-15T08:00:00Z`, or a duration such as `24h`";
        Self::parse(text).ok_or(TIME.into())
    }

    fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(duration) => {
                Timestamp(now.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
            }
        }
    }

    fn schema() -> Value {
        const DATE: &str = "[0-9]{4}-[0-9]{2}-[0-9]{2}";
        const TIME: &str = "T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})";
        json!({"type": "string", "pattern": format!("^({DATE}({TIME})?|{DURATION})$")})
    }
}

/// Which queries: by label, session, target, and the time of their creation.
#[derive(Debug, Default)]
pub(crate) struct QuerySearch {
    labels: LabelSelector,
    session: Option<String>,
    target: Option<(TargetKind, String)>,
    since: Option<PointInTime>,
    until: Option<PointInTime>,
}

impl ParamGroup for QuerySearch {
    const QUERY: &'static [QueryParameter<Self>] = &[
        QueryParameter {
            names: LABELS,
            description: "Only queries with these labels, as `kubectl get -l` takes them: `team=red,tier in (a, b),!old`",
            schema: selector_schema,
            read: |this, value, _| {
                this.labels = read_selector(value)?;
                Ok(())
            },
        },
        QueryParameter {
            names: &["sessionId", "session"],
            description: "Only queries of this session",
            schema: || json!({"type": "string", "minLength": 1}),
            read: |this, value, _| {
                this.session = Some(non_empty(value).ok_or("the id of a session")?);
                Ok(())
            },
        },
        QueryParameter {
            names: &["target"],
            description: "Only queries to this target: `agent/<name>`, `model/<name>`, `tool/<name>`; a name alone is an agent's",
            schema: || json!({"type": "string", "minLength": 1}),
            read: |this, value, _| {
                this.target = Some(read_target(value).ok_or("a target such as `agent/<name>`")?);
                Ok(())
            },
        },
        QueryParameter {
            names: &["since"],
            description: "Only queries created at this time or later, or at most this long ago",
            schema: PointInTime::schema,
            read: |this, value, _| {
                this.since = Some(PointInTime::read(value)?);
                Ok(())
            },
        },
        QueryParameter {
            names: &["until"],
            description: "Only queries created before this time, or longer ago than this",
            schema: PointInTime::schema,
            read: |this, value, _| {
                this.until = Some(PointInTime::read(value)?);
                Ok(())
            },
        },
    ];
}

/// The names of the parameter that selects by labels.
const LABELS: &[&str] = &["labelSelector", "label_selector"];
/// A selector is compiled into one statement, whose length is limited with it.
const LARGEST_SELECTOR: usize = 4 * 1024;

/// Its length is in characters, each of which has up to four bytes.
fn selector_schema() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": LARGEST_SELECTOR / 4})
}

fn read_selector(text: &str) -> Result<LabelSelector, Expected> {
    if text.len() > LARGEST_SELECTOR {
        return Err(format!("a selector of at most {LARGEST_SELECTOR} bytes").into());
    }
    LabelSelector::parse(text).map_err(|fault| format!("a selector: {fault}").into())
}

fn read_target(text: &str) -> Option<(TargetKind, String)> {
    let (kind, name) = text.split_once('/').unwrap_or((TargetKind::Agent.as_str(), text));
    Some((TargetKind::parse(kind)?, non_empty(name)?))
}

impl QuerySearch {
    /// Adds what is searched for to a page.
    pub(crate) fn on(self, page: QueryPage, now: Timestamp) -> QueryPage {
        let Self { labels, session, target, since, until } = self;
        let at = |point: PointInTime| point.at(now);
        QueryPage { labels, session, target, since: since.map(at), until: until.map(at), ..page }
    }
}

/// Which tools of a namespace are listed: those for which all of this holds.
#[derive(Debug, Default)]
pub(crate) struct ToolSearch {
    category: Option<String>,
    provider: Option<String>,
    labels: LabelSelector,
}

impl ParamGroup for ToolSearch {
    const QUERY: &'static [QueryParameter<Self>] = &[
        QueryParameter {
            names: &["category"],
            description: "Only tools of this category, whatever its case; a tool without one is in `General`",
            schema: || json!({"type": "string", "minLength": 1, "examples": ["Email"]}),
            read: |this, value, _| {
                this.category = Some(non_empty(value).ok_or("a category")?);
                Ok(())
            },
        },
        QueryParameter {
            names: &["provider"],
            description: "Only tools of this integration (`providerConfigKey`) or server",
            schema: || json!({"type": "string", "minLength": 1, "examples": ["google-mail-ynxw"]}),
            read: |this, value, _| {
                this.provider = Some(non_empty(value).ok_or("the key of an integration, or the name of a server")?);
                Ok(())
            },
        },
        QueryParameter {
            names: LABELS,
            description: "Only tools with these labels, as `kubectl get -l` takes them: `team=red,tier in (a, b),!old`",
            schema: selector_schema,
            read: |this, value, _| {
                this.labels = read_selector(value)?;
                Ok(())
            },
        },
    ];
}

impl ToolSearch {
    pub(crate) fn matches(&self, tool: Option<&Tool>, labels: &BTreeMap<String, String>) -> bool {
        let category = tool.map_or(DEFAULT_CATEGORY, Tool::category);
        let provider = tool.and_then(|tool| tool.binding.provider());
        self.category.as_ref().is_none_or(|asked| category.eq_ignore_ascii_case(asked))
            && self.provider.as_ref().is_none_or(|asked| provider == Some(asked))
            && self.labels.matches(labels)
    }
}

/// `tool`: one tool, or all of them.
#[derive(Debug, Default)]
pub(crate) struct ToolFilter {
    pub(crate) tool: Option<String>,
}

impl ParamGroup for ToolFilter {
    const QUERY: &'static [QueryParameter<Self>] = &[QueryParameter {
        names: &["tool"],
        description: "Only results of this tool",
        schema: text_schema,
        read: |this, value, _| {
            this.tool = non_empty(value);
            Ok(())
        },
    }];
}

/// Which audit records.
#[derive(Debug, Default)]
pub(crate) struct AuditFilter {
    actor: Option<String>,
    tool: Option<String>,
    action: Option<Action>,
    from: Option<PointInTime>,
    to: Option<PointInTime>,
    cursor: Option<u64>,
}

impl ParamGroup for AuditFilter {
    const QUERY: &'static [QueryParameter<Self>] = &[
        QueryParameter {
            names: &["actor"],
            description: "Only what this actor did",
            schema: text_schema,
            read: |this, value, _| {
                this.actor = Some(value.to_owned());
                Ok(())
            },
        },
        QueryParameter {
            names: &["tool"],
            description: "Only what concerns this tool",
            schema: text_schema,
            read: |this, value, _| {
                this.tool = Some(value.to_owned());
                Ok(())
            },
        },
        QueryParameter {
            names: &["action"],
            description: "Only records of this action",
            schema: || json!({"type": "string", "examples": ["call.delivered"]}),
            read: |this, value, _| {
                this.action = Some(read_action(value).ok_or("an action such as `call.delivered`")?);
                Ok(())
            },
        },
        QueryParameter {
            names: &["from"],
            description: "Not before this time, or this long ago",
            schema: PointInTime::schema,
            read: |this, value, _| {
                this.from = Some(PointInTime::read(value)?);
                Ok(())
            },
        },
        QueryParameter {
            names: &["to"],
            description: "Before this time",
            schema: PointInTime::schema,
            read: |this, value, _| {
                this.to = Some(PointInTime::read(value)?);
                Ok(())
            },
        },
        QueryParameter {
            names: &["cursor"],
            description: "The `next` of the previous page",
            schema: || json!({"type": "integer", "minimum": 0}),
            read: |this, value, _| {
                this.cursor = Some(value.parse().map_err(|_| "the `next` of an earlier page")?);
                Ok(())
            },
        },
    ];
}

impl AuditFilter {
    pub(crate) fn search(&self, of: &QueryFilter, limit: PageLimit, now: Timestamp) -> RecordSearch {
        RecordSearch {
            actor: self.actor.clone(),
            tool: self.tool.clone(),
            query: of.query.clone(),
            action: self.action,
            from: self.from.map(|time| time.at(now)),
            to: self.to.map(|time| time.at(now)),
            before: self.cursor,
            limit: limit.get(),
        }
    }
}

/// An action by the name that records have for it.
fn read_action(text: &str) -> Option<Action> {
    serde_json::from_value(Value::from(text)).ok()
}

/// Which counts of usage.
#[derive(Debug, Default)]
pub(crate) struct UsageFilter {
    since: Option<PointInTime>,
    top: Option<usize>,
}

impl ParamGroup for UsageFilter {
    const QUERY: &'static [QueryParameter<Self>] = &[
        QueryParameter {
            names: &["since"],
            description: "From the hour of this time on; `24h` by default",
            schema: PointInTime::schema,
            read: |this, value, _| {
                this.since = Some(PointInTime::read(value)?);
                Ok(())
            },
        },
        QueryParameter {
            names: &["top"],
            description: "How many of the most used tools the coverage is of",
            schema: || json!({"type": "integer", "minimum": 1, "maximum": MOST_TOP}),
            read: |this, value, _| {
                let top = value.parse().ok().filter(|top| (1..=MOST_TOP).contains(top));
                this.top = Some(top.ok_or("a number from 1 to 1000")?);
                Ok(())
            },
        },
    ];
}

impl UsageFilter {
    /// The first hour that is counted.
    pub(crate) fn since(&self, now: Timestamp) -> Hour {
        Hour::of(self.since.unwrap_or(PointInTime::Ago(DEFAULT_WINDOW)).at(now))
    }

    pub(crate) fn top(&self) -> usize {
        self.top.unwrap_or(DEFAULT_TOP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_794_700_800_000);

    #[track_caller]
    fn check(text: &str, expect: Option<i64>) {
        assert_eq!(PointInTime::parse(text).map(|time| time.at(NOW).0), expect, "{text}");
    }

    #[test]
    fn a_time_is_absolute_or_relative_to_now() {
        check("2026-11-15T00:00:00Z", Some(NOW.0));
        check("2026-11-15", Some(NOW.0));
        check("24h", Some(NOW.0 - 86_400_000));
        check("90s", Some(NOW.0 - 90_000));
        check("yesterday", None);
        check("", None);
        check("-1h", None);
    }

    #[test]
    fn usage_is_of_the_last_day_and_of_ten_tools_by_default() {
        assert_eq!(UsageFilter::default().since(NOW), Hour::of(Timestamp(NOW.0 - 86_400_000)));
        assert_eq!(UsageFilter::default().top(), 10);
    }
}
