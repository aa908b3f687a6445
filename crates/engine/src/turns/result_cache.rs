//! A cache of tool results, for tools with a [cache policy](bosun_core::tool::CachePolicy).
//!
//! The key is a hash of everything that a result may depend on: the tool's definition, the arguments in canonical form,
//! the actor, the parameters of the query, and the scope. Only successes that a journal holds inline are cached. A hit is
//! recorded in the journal with the result itself, so a journal needs no cache to be folded. The cache is in memory:
//! a restart empties it, and costs no more than running the tools again.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bosun_core::{
    Actor, Content, ContentHash, Namespace, Outcome, QueryUid, Spec, Tool, Toolset, Transcript,
    cache::WeightedCache,
    ceiling::RESULT_CACHE_BYTES,
    json,
    machine::{AskedByModel, CallDisposition},
    tool::CacheScope,
};
use serde_json::Value;

use crate::engine::Inner;

/// What one entry weighs besides its content.
const ENTRY_OVERHEAD: usize = 512;

pub(crate) struct ResultCache {
    known: Mutex<WeightedCache<ContentHash, CachedResult>>,
}

struct CachedResult {
    namespace: Namespace,
    tool: String,
    outcome: Arc<Outcome>,
    /// By the monotonic clock: a step of the wall clock changes no lifetime.
    until: Duration,
}

/// Where the result of a call is cached.
#[derive(Clone, Debug)]
pub(crate) struct ResultKey {
    hash: ContentHash,
    namespace: Namespace,
    tool: String,
    ttl: Duration,
}

/// The query that makes a call, as far as its results depend on it.
#[derive(Clone, Debug)]
pub(crate) struct CallingQuery {
    pub(crate) namespace: Namespace,
    pub(crate) uid: QueryUid,
    pub(crate) by: Actor,
    pub(crate) spec: Arc<Spec>,
}

impl CallingQuery {
    pub(crate) fn new(namespace: &Namespace, uid: QueryUid, transcript: &Transcript) -> Self {
        let (by, spec) = (transcript.by.clone(), Arc::clone(&transcript.spec));
        Self { namespace: namespace.clone(), uid, by, spec }
    }

    /// Where a result of this call is cached; `None` if it is not.
    pub(crate) fn key(&self, tool: &Tool, arguments: &Value) -> Option<ResultKey> {
        let policy = tool.cache_policy()?;
        let session = self.spec.session_id.as_deref();
        let of_query = || format!("query {}", self.uid);
        let shared_by = match (policy.scope, session) {
            (CacheScope::Namespace, _) => "namespace".to_owned(),
            (CacheScope::Session, Some(session)) => format!("session {session}"),
            // A query without a session is a session of its own.
            (CacheScope::Session, None) | (CacheScope::Query, _) => of_query(),
        };
        let (tool_text, parameters) =
            (serde_json::to_string(tool).ok()?, serde_json::to_string(&self.spec.parameters).ok()?);
        let hash = ContentHash::of_parts(&[
            self.namespace.as_str().as_bytes(),
            shared_by.as_bytes(),
            self.by.id().as_bytes(),
            tool_text.as_bytes(),
            json::canonical(arguments).as_bytes(),
            parameters.as_bytes(),
        ]);
        Some(ResultKey { hash, namespace: self.namespace.clone(), tool: tool.name.clone(), ttl: policy.ttl })
    }
}

impl Default for ResultCache {
    fn default() -> Self {
        Self::new(RESULT_CACHE_BYTES)
    }
}

impl ResultCache {
    fn new(capacity: usize) -> Self {
        Self { known: Mutex::new(WeightedCache::new(capacity)) }
    }

    fn get(&self, key: &ResultKey, now: Duration) -> Option<Arc<Outcome>> {
        let mut known = self.known();
        let found = known.get(&key.hash).map(|cached| (Arc::clone(&cached.outcome), cached.until > now));
        match found {
            Some((outcome, true)) => Some(outcome),
            Some((_, false)) => {
                let expired = known.remove(&key.hash);
                drop(known);
                drop(expired);
                None
            }
            None => None,
        }
    }

    /// Caches an outcome that was recorded, if it may be reused.
    pub(crate) fn insert(&self, key: ResultKey, outcome: &Arc<Outcome>, now: Duration) {
        let Some(weight) = weight(outcome) else { return };
        let ResultKey { hash, namespace, tool, ttl } = key;
        let cached = CachedResult { namespace, tool, outcome: Arc::clone(outcome), until: now.saturating_add(ttl) };
        let evicted = self.known().insert(hash, cached, weight);
        drop(evicted);
    }

    /// Drops a result whose recording failed.
    pub(crate) fn remove(&self, key: &ResultKey) {
        let removed = self.known().remove(&key.hash);
        drop(removed);
    }

    /// Drops the results of a namespace, of one tool or of all, and returns how many.
    pub(crate) fn clear(&self, namespace: &Namespace, tool: Option<&str>) -> usize {
        let is_meant =
            |cached: &CachedResult| cached.namespace == *namespace && tool.is_none_or(|tool| cached.tool == tool);
        let cleared = self.known().remove_where(is_meant);
        cleared.len()
    }

    /// The approximate size in memory.
    pub(crate) fn weight(&self) -> usize {
        self.known().weight()
    }

    fn known(&self) -> MutexGuard<'_, WeightedCache<ContentHash, CachedResult>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The size of an outcome in memory; `None` if it is not to be cached: a failure may pass, and a blob may be deleted.
fn weight(outcome: &Outcome) -> Option<usize> {
    let content = match outcome {
        Outcome::Success { content: Content::Inline(value) } => json::memory(value),
        Outcome::Success { content: Content::Blocks(blocks) } => json::memory_of(&blocks.to_json()),
        Outcome::Success { content: Content::Large(_) } | Outcome::Failure { .. } => return None,
    };
    Some(ENTRY_OVERHEAD + content)
}

impl Inner {
    /// Answers calls from the cache, where it has their results.
    pub(crate) fn answer_from_cache(&self, query: &CallingQuery, toolset: &Toolset, calls: &mut [AskedByModel]) {
        for call in calls {
            let outside = match call.way {
                CallDisposition::Inside { .. } => false,
                CallDisposition::Outside { .. } | CallDisposition::Worker { .. } => true,
                // A person decides about each call, and only the user knows the values of parameters.
                CallDisposition::Approval { .. } | CallDisposition::Parameters { .. } => continue,
                CallDisposition::Refused { .. } | CallDisposition::Cached { .. } => continue,
            };
            let Some(tool) = toolset.get(&call.tool).map(|member| &member.tool) else { continue };
            let Some(key) = query.key(tool, &call.arguments) else { continue };
            let found = self.result_cache.get(&key, self.clock.monotonic());
            self.metrics.cache_looked_up(&tool.binding, found.is_some());
            if let Some(outcome) = found {
                call.way = CallDisposition::Cached { outcome, outside };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bosun_core::{Binding, tool::CachePolicy};
    use serde_json::json;

    use super::*;
    use crate::testing::query_writer::spec;

    fn query(number: u8) -> CallingQuery {
        CallingQuery {
            namespace: Namespace::default(),
            uid: QueryUid::new(1, [number; 10]),
            by: Actor::local(),
            spec: Arc::new(spec()),
        }
    }

    fn tool() -> Tool {
        let policy = CachePolicy { ttl: Duration::from_secs(60), scope: CacheScope::Query };
        Tool::new("t", "A tool", json!({}), Binding::External).with_cache(Some(policy))
    }

    #[test]
    fn the_total_size_is_bounded_and_the_least_recently_used_is_evicted() {
        const CAPACITY: usize = 64 * 1024;
        let cache = ResultCache::new(CAPACITY);
        let key = |n: usize| query(1).key(&tool(), &json!({ "n": n })).unwrap();
        let outcome = Arc::new(Outcome::success("x".repeat(4 * 1024)));
        for n in 0..100 {
            cache.insert(key(n), &outcome, Duration::ZERO);
            assert!(cache.weight() <= CAPACITY);
            assert!(cache.get(&key(0), Duration::ZERO).is_some(), "in use all the time");
        }
        assert!(cache.get(&key(1), Duration::ZERO).is_none());
        assert!((10..16).contains(&cache.known().len()));
        let larger = Arc::new(Outcome::success("x".repeat(CAPACITY)));
        cache.insert(key(0), &larger, Duration::ZERO);
        assert!(cache.get(&key(0), Duration::ZERO).is_none(), "a result that is larger than the cache is not kept");
    }

    #[test]
    fn failures_and_references_to_blobs_are_not_cached() {
        let cache = ResultCache::default();
        let key = query(1).key(&tool(), &json!({})).unwrap();
        let large = Content::Large(bosun_core::content::Large::of(&json!("x")).0);
        for outcome in [Outcome::failure("c", "m"), Outcome::Success { content: large }] {
            cache.insert(key.clone(), &Arc::new(outcome), Duration::ZERO);
            assert!(cache.known().is_empty());
        }
    }

    #[test]
    fn arguments_are_compared_in_canonical_form() {
        let hash = |arguments: Value| query(1).key(&tool(), &arguments).unwrap().hash;
        assert_eq!(hash(json!({"a": 1, "b": [2]})), hash(json!({"b": [2.0], "a": 1})));
        assert_ne!(hash(json!({"a": 1})), hash(json!({"a": "1"})));
    }

    #[test]
    fn a_changed_definition_or_parameter_is_another_key() {
        let hash = |query: &CallingQuery, tool: &Tool| query.key(tool, &json!({})).unwrap().hash;
        let changed = Tool { description: "Another".into(), ..tool() };
        assert_ne!(hash(&query(1), &tool()), hash(&query(1), &changed));
        let parameters = [("tenant".to_owned(), "a".to_owned())].into();
        let with = CallingQuery { spec: Arc::new(Spec { parameters, ..spec() }), ..query(1) };
        assert_ne!(hash(&query(1), &tool()), hash(&with, &tool()));
    }
}
