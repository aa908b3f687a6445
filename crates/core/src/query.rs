//! The specification of a query, and its limits.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ContentHash, conversation, duration, message, team::TeamPlan, trace::TraceContext, transcript::Message,
    tree::Lineage,
};

/// A query as it was frozen at submit. Later changes of a catalogue or a manifest do not reach it; only secrets and
/// permissions are looked up live. Its limits, labels and annotations are the initial ones: the current ones are in its
/// [`Head`](crate::Head).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The name of the target: an agent, a team, a model or a tool. Journals call it `agent`, since it once was always one.
    #[serde(rename = "agent")]
    pub target: String,
    #[serde(rename = "target", default, skip_serializing_if = "TargetKind::is_agent")]
    pub target_kind: TargetKind,
    /// The selector with which the client chose the target, if not by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Arc<Value>>,
    /// The model's name in the namespace of the query; empty if the target needs none.
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The input, with its parameters filled in. If there are `messages`, the last one of the user.
    pub input: String,
    /// The input as the client wrote it, if it had parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The whole input, if it is a conversation and not one text.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "message::openai")]
    pub messages: Vec<Message>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "ModelOptions::is_empty")]
    pub options: ModelOptions,
    /// The JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Arc<Value>>,
    /// The conversation that the answer is appended to, and its history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<conversation::Frozen>,
    /// The toolset document that was stored with the query.
    pub toolset: ContentHash,
    pub limits: QueryLimits,
    #[serde(rename = "view")]
    pub edge_note: EdgeNote,
    #[serde(default, skip_serializing_if = "ExpiryPolicy::is_tell")]
    pub on_expired: ExpiryPolicy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Warnings for the caller about how the request was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The hash of the request that has an idempotency key: the same request is then answered with this query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<ContentHash>,
    /// The caller's trace, which everything that the query does continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<TraceContext>>,
    /// Set if the query answers a call of another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Arc<Lineage>>,
    /// How the members of a team take turns; present if the target is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<Arc<TeamPlan>>,
}

impl Spec {
    /// Whether no model is asked: the one tool of the query is run, and its result is the answer. That is a tool as the
    /// target, or an agent behind an A2A server.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        match self.target_kind {
            TargetKind::Tool => true,
            TargetKind::Agent => self.model.is_empty(),
            TargetKind::Model | TargetKind::Team => false,
        }
    }

    /// Whether a program of version 2, which has no targets, messages and conversations, would run a different query.
    pub(crate) fn is_beyond_version_2(&self) -> bool {
        !self.target_kind.is_agent()
            || !self.messages.is_empty()
            || !self.options.is_empty()
            || self.output_schema.is_some()
            || self.conversation.is_some()
    }
}

/// What becomes of a query when a call that its client runs has no result in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExpiryPolicy {
    /// The model is told, and continues.
    #[default]
    Tell,
    /// The query fails: the client is gone, and no one would read the answer.
    Fail,
}

impl ExpiryPolicy {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tell => "tell",
            Self::Fail => "fail",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Tell, Self::Fail].into_iter().find(|policy| policy.as_str() == text)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    pub(crate) fn is_tell(&self) -> bool {
        *self == Self::Tell
    }
}

/// The kind of a query's target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetKind {
    /// A model with a prompt and tools.
    #[default]
    Agent,
    /// A model alone.
    Model,
    /// A tool alone: it runs once, and its result is the answer.
    Tool,
    /// Agents and teams that work on the input together.
    Team,
}

impl TargetKind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Team => "team",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Agent, Self::Model, Self::Tool, Self::Team].into_iter().find(|kind| kind.as_str() == text)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    fn is_agent(&self) -> bool {
        *self == Self::Agent
    }
}

/// The model parameters of a query. Absent ones are the model's defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelOptions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

impl ModelOptions {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What the edge that created a query needs to know when it shows the query again. Opaque here and in the engine: each
/// edge has its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EdgeNote(Cow<'static, str>);

impl EdgeNote {
    #[must_use]
    pub const fn new(word: &'static str) -> Self {
        Self(Cow::Borrowed(word))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The limits of one query. Each field is already the smallest of server, agent and query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryLimits {
    /// Running time; waiting for a client does not count.
    #[serde(with = "millis")]
    pub query_timeout: Duration,
    /// One inside call.
    #[serde(with = "millis")]
    pub tool_timeout: Duration,
    /// How long an outside call, or a held query, waits for its client.
    #[serde(with = "millis")]
    pub external_timeout: Duration,
    /// How long a call waits for a person: for an approval, or for the values of parameters.
    #[serde(default = "default_approval_timeout", with = "millis")]
    pub approval_timeout: Duration,
    pub max_tool_calls: u32,
    /// Tokens of all turns together; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// How long the query is retained after it has ended.
    #[serde(default = "default_ttl", with = "millis")]
    pub ttl: Duration,
}

fn default_approval_timeout() -> Duration {
    Duration::from_secs(24 * 60 * 60)
}

fn default_ttl() -> Duration {
    Duration::from_secs(720 * 60 * 60)
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self {
            query_timeout: Duration::from_secs(5 * 60),
            tool_timeout: Duration::from_secs(30),
            external_timeout: Duration::from_secs(10 * 60),
            approval_timeout: default_approval_timeout(),
            max_tool_calls: 10,
            max_tokens: None,
            ttl: default_ttl(),
        }
    }
}

/// Limits that an agent, a query or a change of one requests. Absent ones are not requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AskedLimits {
    #[serde(with = "millis::optional", skip_serializing_if = "Option::is_none")]
    pub query_timeout: Option<Duration>,
    #[serde(with = "millis::optional", skip_serializing_if = "Option::is_none")]
    pub tool_timeout: Option<Duration>,
    #[serde(with = "millis::optional", skip_serializing_if = "Option::is_none")]
    pub external_timeout: Option<Duration>,
    #[serde(with = "millis::optional", skip_serializing_if = "Option::is_none")]
    pub approval_timeout: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(with = "millis::optional", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
}

impl AskedLimits {
    /// `wide`, lowered to the limits here: no level gets more than the level above allows.
    #[must_use]
    pub fn narrow(&self, wide: QueryLimits) -> QueryLimits {
        self.within(wide).replace_in(wide)
    }

    /// The limits here, clamped to `wide`, and `defaults` where there are none.
    #[must_use]
    pub fn grant(&self, defaults: QueryLimits, wide: QueryLimits) -> QueryLimits {
        self.within(wide).replace_in(defaults)
    }

    /// The limits that would change from `now`, clamped to `wide`. A limit that already has the requested value is kept
    /// even if `wide` has been tightened since.
    #[must_use]
    pub fn changes(&self, now: QueryLimits, wide: QueryLimits) -> Self {
        self.other_than(now).within(wide).other_than(now)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The bound that a limit sets, if it sets one: `max_tokens` need not.
fn bound<T>(limit: impl Into<Option<T>>) -> Option<T> {
    limit.into()
}

/// A requested limit that exceeds its bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NarrowedLimit {
    /// Its name in a request.
    pub name: &'static str,
    /// Its name as an option and an annotation.
    pub option: &'static str,
    pub asked: String,
    pub granted: String,
}

/// Why a text is not a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitFault {
    UnknownName,
    NotADuration,
    NotANumber,
}

/// A limit as an option or an annotation writes it.
trait ReadLimit: Sized {
    fn read(text: &str) -> Result<Self, LimitFault>;
    fn show(&self) -> String;
}

impl ReadLimit for Duration {
    fn read(text: &str) -> Result<Self, LimitFault> {
        duration::parse_positive(text).ok_or(LimitFault::NotADuration)
    }

    fn show(&self) -> String {
        duration::format(*self)
    }
}

impl ReadLimit for u32 {
    fn read(text: &str) -> Result<Self, LimitFault> {
        text.parse().map_err(|_| LimitFault::NotANumber)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl ReadLimit for u64 {
    fn read(text: &str) -> Result<Self, LimitFault> {
        text.parse().map_err(|_| LimitFault::NotANumber)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// The table of limits: the field, its name in a request, and its name as an option and an annotation.
macro_rules! limits {
    ($($field:ident: $type:ty, $json:literal, $option:literal;)+) => {
        impl AskedLimits {
            /// The names of all limits, as a request spells them.
            pub const NAMES: &[&str] = &[$($json),+];
            /// The names of options and annotations.
            pub const OPTIONS: &[&str] = &[$($option),+];

            /// The limits that differ from `now`.
            #[must_use]
            pub fn other_than(&self, now: QueryLimits) -> Self {
                Self { $($field: self.$field.filter(|asked| Some(*asked) != bound(now.$field)),)+ }
            }

            fn within(&self, wide: QueryLimits) -> Self {
                Self { $($field: self.$field.map(|asked| asked.min(bound(wide.$field).unwrap_or(asked))),)+ }
            }

            /// The limits that exceed `wide`.
            #[must_use]
            pub fn above(&self, wide: QueryLimits) -> Vec<NarrowedLimit> {
                let above = [$(self.$field.zip(bound::<$type>(wide.$field)).filter(|(asked, granted)| asked > granted).map(
                    |(asked, granted)| NarrowedLimit {
                        name: $json,
                        option: $option,
                        asked: asked.show(),
                        granted: granted.show(),
                    },
                )),+];
                above.into_iter().flatten().collect()
            }

            /// `limits`, with those here replaced.
            #[must_use]
            pub fn replace_in(&self, limits: QueryLimits) -> QueryLimits {
                QueryLimits { $($field: self.$field.map_or(limits.$field, Into::into),)+ }
            }

            /// The names of the requested limits, as a request spells them.
            pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
                [$(self.$field.is_some().then_some($json)),+].into_iter().flatten()
            }

            /// Requests the limit that is called `option`, with its value as text.
            ///
            /// # Errors
            /// If there is no such limit, or the text is not a valid value of it; nothing is requested then.
            pub fn ask(&mut self, option: &str, text: &str) -> Result<(), LimitFault> {
                match option {
                    $($option => self.$field = Some(<$type>::read(text)?),)+
                    _ => return Err(LimitFault::UnknownName),
                }
                Ok(())
            }
        }
    };
}

limits! {
    query_timeout: Duration, "timeout", "query-timeout";
    tool_timeout: Duration, "toolTimeout", "tool-timeout";
    external_timeout: Duration, "externalTimeout", "external-timeout";
    approval_timeout: Duration, "approvalTimeout", "approval-timeout";
    max_tool_calls: u32, "maxToolCalls", "max-tool-calls";
    max_tokens: u64, "maxTokens", "max-tokens";
    ttl: Duration, "ttl", "ttl";
}

/// Tokens that the model API reported. Prompt tokens include those read from a cache and those written to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Prompt tokens that the API wrote to its cache, which some bill separately.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    pub(crate) fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
    }
}

/// Durations as whole milliseconds: readable in a journal and exact in every language.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        u64::try_from(value.as_millis()).unwrap_or(u64::MAX).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }

    pub(super) mod optional {
        use super::{Deserialize, Deserializer, Duration, Serializer};

        pub(in super::super) fn serialize<S: Serializer>(
            value: &Option<Duration>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => super::serialize(value, serializer),
                None => serializer.serialize_none(),
            }
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Duration>, D::Error> {
            Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
        }
    }
}
