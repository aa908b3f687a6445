//! The journal of a query.
//!
//! A query *is* its journal: [`Head`](crate::Head) and [`Transcript`](crate::Transcript) are folds of it, and a stream
//! is a translation of it, at most one event for each entry. Entries are written as JSON with a `kind` and a
//! version `v`; fields are only ever added. Token deltas are not here: they are not worth a disk write, and a reader
//! that missed them gets the whole text.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Actor, CallId, ContentHash, Outcome, QueryUid, Timestamp,
    content::{Content, Large},
    query::{AskedLimits, ExpiryPolicy, Spec, Usage},
    tree::{Spent, TreeBudget},
};

/// The sequence number of an event in its query's journal; the first is 1.
pub type Seq = u64;

/// The newest version of the event format that this code reads and writes. Version 2 has references to large results;
/// version 3 has targets, messages, conversations and rejected answers; version 4 has changes of an accepted query;
/// version 5 has clean shutdowns and steps of the clock; version 6 has pending calls and content blocks; version 7 has
/// approvals, requests for parameters, cached results, calls that workers claim, and queries that fail with an expired
/// call; version 8 has child queries and teams; version 9 has questions of calls that continue elsewhere. An entry is written with the oldest version that can represent it.
pub const VERSION: u32 = 9;

/// One entry: what happened, when, and its sequence number.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub seq: Seq,
    pub at: Timestamp,
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    Created {
        spec: Arc<Spec>,
        /// The caller that created it.
        #[serde(default, skip_serializing_if = "Actor::is_local")]
        by: Actor,
    },
    /// The model is being asked. A higher `attempt` of the same turn replaces everything seen of the earlier one.
    TurnStarted {
        turn: u32,
        attempt: u32,
        /// Whether the model may call tools; not on the last turn after the limit of calls.
        tools: bool,
    },
    /// The model's stream ended cleanly. The calls it asked for follow as [`Event::CallAsked`], in the same append.
    TurnEnded {
        turn: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(default)]
        usage: Usage,
        /// The number of calls that follow.
        calls: u32,
        /// Opaque data of the model API next to text and calls, which it expects back with the next request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Arc<Value>>,
        /// The model that answered, if it was a fallback and not the query's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<String>,
        /// The answer as it was validated, where an explicit `null` was dropped from it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Arc<Value>>,
        /// Why the text failed validation against `outputSchema`; the model is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rejected: Option<String>,
        /// The budget of the tree that the query belongs to, if it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<TreeBudget>,
    },
    /// Shared with readers of the query: arguments may be large, and are never changed.
    CallAsked(Arc<AskedCall>),
    /// An inside call is about to be run. For a tool that must not run twice, this is durable before it does.
    CallStarted {
        call: CallId,
        attempt: u32,
    },
    /// An inside call continues elsewhere; its runner polls for the result with `handle`.
    CallPending {
        call: CallId,
        handle: Arc<Value>,
        poll_at: Timestamp,
        /// The call expires at this time, however often it is polled.
        deadline: Timestamp,
    },
    /// The time to poll a pending call has come.
    CallDue {
        call: CallId,
    },
    /// A call that continues elsewhere has a question, and continues once a person has answered it.
    CallQuestioned {
        call: CallId,
        handle: Arc<Value>,
        question: Arc<CallQuestion>,
        /// The call expires at this time if there is no answer.
        deadline: Timestamp,
    },
    /// A person has answered the question of a call; its runner passes the answer on.
    CallAnswered {
        call: CallId,
        answer: Arc<Value>,
        /// The caller that delivered it.
        #[serde(default, skip_serializing_if = "Actor::is_local")]
        by: Actor,
    },
    /// A call of an agent or a team has a query of its own, which is durable.
    CallDelegated {
        call: CallId,
        child: QueryUid,
    },
    /// The query of a call has ended. Its outcome follows as [`Event::CallFinished`], in the same append.
    ChildEnded {
        call: CallId,
        child: QueryUid,
        /// What the child and its own children have used.
        #[serde(default, skip_serializing_if = "Spent::is_zero")]
        spent: Spent,
        /// The child ended by a call of `terminate`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        terminated: bool,
    },
    /// An inside call has its outcome.
    CallFinished {
        call: CallId,
        outcome: Arc<Outcome>,
    },
    /// The client delivered the outcome of an outside call.
    CallResolved {
        call: CallId,
        outcome: Arc<Outcome>,
        /// The caller that delivered it.
        #[serde(default, skip_serializing_if = "Actor::is_local")]
        by: Actor,
        /// How long the tool ran, in milliseconds, if the client has measured it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_ms: Option<u64>,
    },
    /// A person approved a call: it may run once, with the arguments of this hash.
    CallApproved {
        call: CallId,
        hash: ContentHash,
        /// The arguments, if the person changed them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Arc<Value>>,
        /// The caller that approved it.
        #[serde(default, skip_serializing_if = "Actor::is_local")]
        by: Actor,
    },
    /// A person rejected a call: it is never run, and the model is told.
    CallRejected {
        call: CallId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The caller that rejected it.
        #[serde(default, skip_serializing_if = "Actor::is_local")]
        by: Actor,
    },
    /// A worker has claimed an outside call. Durable before the call is handed out.
    CallClaimed {
        call: CallId,
        /// Names the lease: the worker sends it with the result.
        lease: Arc<str>,
        until: Timestamp,
        /// The caller that claimed it.
        #[serde(default, skip_serializing_if = "Actor::is_local")]
        by: Actor,
    },
    /// The worker that has claimed a call still runs it.
    CallExtended {
        call: CallId,
        until: Timestamp,
    },
    /// The lease of a call that is safe to repeat has lapsed: another worker may claim it.
    CallReleased {
        call: CallId,
    },
    /// What the call waited for did not come before the deadline; the model is told.
    CallExpired {
        call: CallId,
    },
    /// The same call had the same result too often; the model is told with this call's result.
    LoopNoticed {
        call: CallId,
    },
    /// A client holds the query until it continues it.
    Held {
        until: Timestamp,
        /// The caller that held it.
        #[serde(default, skip_serializing_if = "Actor::is_local")]
        by: Actor,
    },
    Continued {
        /// The caller that continued it.
        #[serde(default, skip_serializing_if = "Actor::is_local")]
        by: Actor,
    },
    /// A caller changed the limits, labels or annotations of the query. The only entry that may follow an end.
    Changed(Box<Changed>),
    /// The wall clock stepped by this much while the query ran: the step is not running time. Always precedes the
    /// entries that were appended when the step was noticed, in the same append.
    ClockStepped {
        by_ms: i64,
    },
    /// The process shuts down cleanly while work is in progress: the process that takes it over counts no crash.
    Interrupted,
    /// A new process took over unfinished work of an earlier one, or the same process did after a failed write.
    Recovered {
        /// No crash of a process is the reason, or it did not interrupt work of this query.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        orderly: bool,
        /// The query is retried in isolation: no other query that a crash interrupted is retried meanwhile.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        alone: bool,
    },
    /// The end of the query has reached its tree: its open children are cancelled, and its parent has the outcome. Follows
    /// the end of a query that has a parent or had open children, and nothing else does but [`Event::Changed`].
    Settled,
    Completed,
    Failed {
        code: String,
        message: String,
    },
    Cancelled {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The caller that cancelled it.
        #[serde(default, skip_serializing_if = "Actor::is_local")]
        by: Actor,
    },
}

/// What a call that continues elsewhere needs from a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallQuestion {
    pub text: String,
    /// An authorization is needed, which is usually given elsewhere; the answer says that it was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_authorization: bool,
    /// The question as data, as far as there is any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<Value>,
}

/// The fields that a change sets; absent fields keep their value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    #[serde(default, skip_serializing_if = "AskedLimits::is_empty")]
    pub limits: AskedLimits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Arc<BTreeMap<String, String>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Arc<BTreeMap<String, String>>>,
    /// The caller that changed it.
    #[serde(default, skip_serializing_if = "Actor::is_local")]
    pub by: Actor,
}

impl Changed {
    /// The names of the changed fields, as a request spells them.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let labels = self.labels.as_ref().map(|_| "labels");
        let annotations = self.annotations.as_ref().map(|_| "annotations");
        self.limits.names().chain(labels).chain(annotations)
    }
}

/// One call as the model asked for it and as it was validated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedCall {
    pub call: CallId,
    /// The id that the model API gave; only that API ever sees it again.
    pub provider_id: Arc<str>,
    /// The real name of the tool, or what the model wrote if there is no such tool.
    pub tool: Arc<str>,
    /// The name that the model used.
    pub alias: Arc<str>,
    /// The arguments that will be run.
    pub arguments: Arc<Value>,
    /// The model's own text, if it is not the compact form of `arguments`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
    /// Optional parameters that were dropped because the model sent `null` for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    /// Why the tool should not be used any more, if it is deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// What becomes of the query if the client runs the call and delivers no result in time; the query's own policy
    /// where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_expired: Option<ExpiryPolicy>,
    pub route: CallRoute,
}

/// How a call is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "snake_case")]
pub enum CallRoute {
    /// Run by the server. `repeatable` says whether it may be started again after a crash.
    Inside { repeatable: bool },
    /// Handed to the client, which has until `deadline`, or to a worker that claims it.
    Outside {
        deadline: Timestamp,
        /// Set if workers may claim it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        claim: Option<ClaimPolicy>,
    },
    /// Run by the server once a person has approved it, who has until `deadline`.
    Approval { repeatable: bool, deadline: Timestamp },
    /// Answered by the user, who has until `deadline` to give the values of parameters.
    Parameters { deadline: Timestamp },
    /// Never run: the model reads why.
    Refused {
        code: String,
        message: String,
        /// What is wrong, as data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Arc<Value>>,
    },
    /// Not run: an earlier call of the same tool with the same arguments had this outcome. It is never a reference to a
    /// blob, so the journal needs nothing but itself.
    Cached {
        outcome: Arc<Outcome>,
        /// Whether the tool is run by a client.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        outside: bool,
    },
}

/// What happens to a claimed call whose worker is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimPolicy {
    /// Whether another worker may run it again.
    pub repeatable: bool,
}

impl CallRoute {
    /// Whether a program of version 6 does not know it.
    fn is_beyond_version_6(&self) -> bool {
        match self {
            Self::Approval { .. } | Self::Parameters { .. } | Self::Cached { .. } => true,
            Self::Outside { claim, .. } => claim.is_some(),
            Self::Refused { details, .. } => details.is_some(),
            Self::Inside { .. } => false,
        }
    }

    /// The outcome of a call that is never run.
    #[must_use]
    pub fn refusal(&self) -> Option<Outcome> {
        let Self::Refused { code, message, details } = self else { return None };
        let content = details.as_deref().map(|details| Content::Inline(details.clone()));
        Some(Outcome::Failure { code: code.clone(), message: message.clone(), content })
    }
}

/// Why a journal entry could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("journal entry has version {0}, newer than this program's {VERSION}")]
    NewerVersion(u32),
    #[error("journal entry is not readable")]
    Malformed(#[source] serde_json::Error),
}

#[derive(Deserialize)]
struct JournalVersion {
    v: u32,
}

impl Event {
    /// The text that a store persists.
    ///
    /// # Errors
    /// Only if the event holds a value that JSON cannot, which no event does.
    pub fn encode(&self) -> Result<String, serde_json::Error> {
        let mut body = Vec::with_capacity(512);
        body.extend_from_slice(br#"{"v":"#);
        serde_json::to_writer(&mut body, &self.version())?;
        let members = body.len();
        serde_json::to_writer(&mut body, self)?;
        // The opening brace of the event: its members follow the version. An event is never an empty object.
        body[members] = b',';
        String::from_utf8(body).map_err(serde::ser::Error::custom)
    }

    fn version(&self) -> u32 {
        match self {
            Self::CallQuestioned { .. } | Self::CallAnswered { .. } => 9,
            Self::CallDelegated { .. } | Self::ChildEnded { .. } | Self::Settled => 8,
            Self::TurnEnded { tree: Some(_), .. } => 8,
            Self::Created { spec, .. } if spec.lineage.is_some() || spec.team.is_some() => 8,
            Self::CallApproved { .. } | Self::CallRejected { .. } => 7,
            Self::CallClaimed { .. } | Self::CallExtended { .. } | Self::CallReleased { .. } => 7,
            Self::CallAsked(asked) if asked.on_expired.is_some() || asked.route.is_beyond_version_6() => 7,
            Self::Created { spec, .. } if !spec.on_expired.is_tell() => 7,
            Self::CallPending { .. } | Self::CallDue { .. } => 6,
            Self::CallFinished { outcome, .. } | Self::CallResolved { outcome, .. } if outcome.has_blocks() => 6,
            Self::ClockStepped { .. } | Self::Interrupted => 5,
            Self::Changed(_) => 4,
            Self::Created { spec, .. } if spec.is_beyond_version_2() => 3,
            Self::TurnEnded { rejected: Some(_), .. } => 3,
            _ if self.large().is_some() => 2,
            _ => 1,
        }
    }

    /// Reads what [`Event::encode`] wrote, in this or an earlier version of the program.
    ///
    /// # Errors
    /// If a newer program wrote it, or the text is damaged: the query is parked, not the server.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        match serde_json::from_str(text) {
            Ok(event) => Ok(event),
            Err(error) => match serde_json::from_str::<JournalVersion>(text) {
                Ok(JournalVersion { v }) if v > VERSION => Err(DecodeError::NewerVersion(v)),
                Ok(_) | Err(_) => Err(DecodeError::Malformed(error)),
            },
        }
    }

    /// The inside call that is about to be run.
    #[must_use]
    pub fn started_call(&self) -> Option<CallId> {
        if let Self::CallStarted { call, .. } = self { Some(*call) } else { None }
    }

    /// The call that ends here without having run to its end: its deadline has passed, or a client has delivered the
    /// outcome. If it continues elsewhere, that is no longer wanted.
    #[must_use]
    pub fn given_up_call(&self) -> Option<CallId> {
        match self {
            Self::CallExpired { call } | Self::CallResolved { call, .. } => Some(*call),
            _ => None,
        }
    }

    /// The blob that it refers to.
    #[must_use]
    pub fn large(&self) -> Option<&Large> {
        match self {
            Self::CallFinished { outcome, .. } | Self::CallResolved { outcome, .. } => outcome.large(),
            _ => None,
        }
    }

    /// Whether the event is progress of the query itself, and not only a change of its metadata.
    #[must_use]
    pub fn moves(&self) -> bool {
        !matches!(self, Self::Changed(_))
    }

    /// Whether the event ends the query.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed { .. } | Self::Cancelled { .. })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{QueryUid, content::Blocks};

    fn resolved(content: Content) -> Event {
        let call = CallId::derive(QueryUid::new(0, [0; 10]), 1, 0);
        Event::CallResolved { call, outcome: Arc::new(Outcome::Success { content }), by: Actor::local(), took_ms: None }
    }

    #[test]
    fn an_entry_has_the_oldest_version_that_can_represent_it() {
        let small = resolved(json!("2108").into()).encode().unwrap();
        assert!(small.starts_with(r#"{"v":1,"kind":"call_resolved","#), "{small}");
        let event = resolved(Content::Large(Large::of(&json!("2108")).0));
        let large = event.encode().unwrap();
        assert!(large.starts_with(r#"{"v":2,"kind":"call_resolved","#), "{large}");
        assert_eq!(Event::decode(&large).unwrap(), event);
        let blocks = Content::Blocks(Blocks::new(vec![json!({"type": "text", "text": "2108"})], None));
        let large = Content::Large(blocks.as_blob().unwrap().0);
        for event in [resolved(blocks), resolved(large)] {
            let text = event.encode().unwrap();
            assert!(text.starts_with(r#"{"v":6,"kind":"call_resolved","#), "{text}");
            assert_eq!(Event::decode(&text).unwrap(), event);
        }
        let outcome = Arc::new(Outcome::success("2108"));
        let asked = AskedCall {
            call: CallId::derive(QueryUid::new(0, [0; 10]), 1, 0),
            provider_id: "p".into(),
            tool: "t".into(),
            alias: "t".into(),
            arguments: json!({}).into(),
            written: None,
            dropped: Vec::new(),
            deprecated: None,
            on_expired: None,
            route: CallRoute::Cached { outcome, outside: true },
        };
        let event = Event::CallAsked(Arc::new(asked));
        let cached = event.encode().unwrap();
        let route = r#""route":{"to":"cached","outcome":{"result":"success","content":"2108"},"outside":true}}"#;
        assert!(cached.starts_with(r#"{"v":7,"kind":"call_asked","#) && cached.ends_with(route), "{cached}");
        assert_eq!(Event::decode(&cached).unwrap(), event);
        let changed = Event::Changed(Box::default()).encode().unwrap();
        assert_eq!(changed, r#"{"v":4,"kind":"changed"}"#, "no earlier version has it");
        let stepped = Event::ClockStepped { by_ms: -7 }.encode().unwrap();
        assert_eq!(stepped, r#"{"v":5,"kind":"clock_stepped","by_ms":-7}"#);
        let call = CallId::derive(QueryUid::new(0, [0; 10]), 1, 0);
        let rejected = Event::CallRejected { call, reason: None, by: Actor::local() }.encode().unwrap();
        assert_eq!(rejected, format!(r#"{{"v":7,"kind":"call_rejected","call":"{call}"}}"#));
    }

    #[test]
    fn provider_data_is_kept_and_older_entries_have_none() {
        let old = r#"{"v":1,"kind":"turn_ended","turn":1,"usage":{"promptTokens":1,"completionTokens":2},"calls":0}"#;
        let event = Event::decode(old).unwrap();
        assert!(matches!(&event, Event::TurnEnded { provider: None, answered_by: None, .. }), "{event:?}");
        assert_eq!(event.encode().unwrap(), old);
        let Event::TurnEnded { turn, text, usage, calls, output, rejected, tree, .. } = event else { panic!() };
        let kept = json!({"anthropic": {"content": [{"type": "thinking", "signature": "c2ln"}]}});
        let (provider, answered_by) = (Some(Arc::new(kept)), Some("second".to_owned()));
        let event = Event::TurnEnded { turn, text, usage, calls, output, rejected, provider, answered_by, tree };
        let text = event.encode().unwrap();
        assert!(text.starts_with(r#"{"v":1,"#), "{text}");
        assert_eq!(Event::decode(&text).unwrap(), event);
    }

    #[test]
    fn a_recovery_of_an_earlier_version_counts_as_a_crash() {
        let old = r#"{"v":1,"kind":"recovered"}"#;
        let event = Event::decode(old).unwrap();
        assert_eq!(event, Event::Recovered { orderly: false, alone: false });
        assert_eq!(event.encode().unwrap(), old);
        let event = Event::Recovered { orderly: true, alone: true };
        assert_eq!(Event::decode(&event.encode().unwrap()).unwrap(), event);
    }

    #[test]
    fn an_entry_of_a_newer_version_is_distinguished_from_a_damaged_one() {
        let newer = Event::decode(r#"{"v":99,"kind":"call_dreamt_of"}"#);
        assert!(matches!(newer, Err(DecodeError::NewerVersion(99))), "{newer:?}");
        let damaged = Event::decode(r#"{"v":2,"kind":"call_dreamt_of"}"#);
        assert!(matches!(damaged, Err(DecodeError::Malformed(_))), "{damaged:?}");
    }
}
