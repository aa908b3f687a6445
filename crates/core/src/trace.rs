//! W3C Trace Context: a position in a distributed trace.
//!
//! The context of the request that created a query is stored with the query, so that everything that happens later, in
//! this process or another, continues the caller's trace. An invalid context is ignored: a malformed header of a proxy
//! or client is no reason to reject a request. Nothing here makes or sends spans.

use std::fmt;

use serde::{Deserialize, Serialize};

/// W3C requires receivers to accept at least this much of a `tracestate`; a longer one is dropped.
const LONGEST_STATE: usize = 512;
/// The known flags: sampled, and random trace id.
const KNOWN_FLAGS: u8 = 0b11;
const SAMPLED: u8 = 0b01;

/// A span of a trace, as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenTrace", into = "WrittenTrace")]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
    /// Vendor-specific data, opaque here.
    state: Option<String>,
}

/// As it is in headers and journals.
#[derive(Serialize, Deserialize)]
struct WrittenTrace {
    traceparent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
}

impl From<TraceContext> for WrittenTrace {
    fn from(context: TraceContext) -> Self {
        Self { traceparent: context.to_string(), tracestate: context.state }
    }
}

impl TryFrom<WrittenTrace> for TraceContext {
    type Error = String;
    fn try_from(written: WrittenTrace) -> Result<Self, String> {
        let WrittenTrace { traceparent, tracestate } = written;
        Self::parse(&traceparent, tracestate.as_deref())
            .ok_or_else(|| format!("`{traceparent}` is not a valid traceparent"))
    }
}

impl TraceContext {
    /// The first span of a new, sampled trace. `None` for ids of zero, which W3C forbids.
    #[must_use]
    pub fn begin(trace: u128, span: u64) -> Option<Self> {
        (trace != 0 && span != 0).then_some(Self { trace, span, flags: SAMPLED, state: None })
    }

    /// Parses `00-<32 digits>-<16 digits>-<flags>`, and the `tracestate` that comes with it. Later versions may append
    /// more.
    #[must_use]
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let whole = version != "00" || parts.next().is_none();
        let (version, flags) = (hex(version, 2)?, hex(flags, 2)?);
        let (trace, span) = (hex(trace, 32)?, u64::try_from(hex(span, 16)?).ok()?);
        if !whole || version == 0xff || trace == 0 || span == 0 {
            return None;
        }
        let flags = u8::try_from(flags).ok()? & KNOWN_FLAGS;
        let is_plain = |state: &&str| {
            (1..=LONGEST_STATE).contains(&state.len()) && state.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        };
        Some(Self { trace, span, flags, state: tracestate.map(str::trim).filter(is_plain).map(str::to_owned) })
    }

    /// Another span of the same trace.
    #[must_use]
    pub fn at(&self, span: u64) -> Self {
        // Zero is not a valid span id; the context keeps its own.
        Self { span: if span == 0 { self.span } else { span }, ..self.clone() }
    }

    #[must_use]
    pub fn trace(&self) -> u128 {
        self.trace
    }

    #[must_use]
    pub fn span(&self) -> u64 {
        self.span
    }

    /// Whether the caller sampled the trace.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The header `tracestate`.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

/// The header `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// A number of exactly this many lower-case hexadecimal digits, as W3C requires.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let fits = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    fits.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[track_caller]
    fn check(traceparent: &str, expect: Option<&str>) {
        let read = TraceContext::parse(traceparent, None).map(|context| context.to_string());
        assert_eq!(read.as_deref(), expect, "{traceparent}");
    }

    #[test]
    fn an_invalid_traceparent_is_ignored() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        check(GOOD, Some(GOOD));
        check(&GOOD.replace("-01", "-00"), Some(&GOOD.replace("-01", "-00")));
        for bad in [
            "",
            "00-1-2-01",
            &GOOD.replace("00-", "ff-"),
            &GOOD.to_uppercase(),
            &format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            &format!("00-{trace}-{}-01", "0".repeat(16)),
            &format!("00-{trace}-b7ad6b7169203331"),
            &format!("00-{trace}-+7ad6b7169203331-01"),
            &format!("{GOOD}-more"),
            &format!("{GOOD}0"),
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn a_later_version_is_read_as_this_one_and_unknown_flags_are_dropped() {
        check(&format!("{}-more", GOOD.replacen("00-", "cc-", 1)), Some(GOOD));
        check(&GOOD.replace("-01", "-ff"), Some(&GOOD.replace("-01", "-03")));
    }

    #[test]
    fn a_tracestate_is_kept_if_it_is_a_valid_header() {
        let state = |text: &str| TraceContext::parse(GOOD, Some(text)).unwrap().state().map(str::to_owned);
        assert_eq!(state(" congo=t61rcWkgMzE,rojo=1 ").as_deref(), Some("congo=t61rcWkgMzE,rojo=1"));
        for bad in ["", " ", "a=b\nc=d", "ä=ö", &"x".repeat(LONGEST_STATE + 1)] {
            assert_eq!(state(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_context_survives_being_written_and_read() {
        let context = TraceContext::parse(GOOD, Some("congo=1")).unwrap();
        let written = serde_json::to_string(&context).unwrap();
        assert_eq!(written, format!(r#"{{"traceparent":"{GOOD}","tracestate":"congo=1"}}"#));
        assert_eq!(serde_json::from_str::<TraceContext>(&written).unwrap(), context);
        assert!(serde_json::from_str::<TraceContext>(r#"{"traceparent":"x"}"#).is_err());
        let child = context.at(0xabc);
        assert_eq!((child.trace(), child.span(), child.state()), (context.trace(), 0xabc, Some("congo=1")));
        assert_eq!(context.at(0), context);
    }
}
