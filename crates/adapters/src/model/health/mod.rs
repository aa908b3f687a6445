//! The health of model APIs across requests: whether to send a request, and whether to retry it.
//!
//! [`Breaker`] and [`Budget`] are pure: time arrives as an argument, and nothing here waits. One [`Endpoint`] has one
//! of each and is shared by all callers of the same address, in every namespace: that an API is down is true for all of
//! them. A rate limit of one key (429) is not, so it spends from the budget and does not trip the breaker.

mod breaker;
mod budget;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use url::Url;

use self::{
    breaker::{Breaker, BreakerPermit},
    budget::Budget,
};

pub(crate) use breaker::{BreakerVerdict, OpenCircuit};

/// The health of one address.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// The origin of `now`.
    begun: Instant,
    breaker: Mutex<Breaker>,
    budget: Mutex<Budget>,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self { begun: Instant::now(), breaker: Mutex::default(), budget: Mutex::default() }
    }
}

impl Endpoint {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Counts a request, whatever its result: each one earns a part of a retry.
    pub(crate) fn note_request(&self) {
        lock(&self.budget).note_request(self.now());
    }

    /// Whether a failed request may be retried; spends from the budget if so.
    pub(crate) fn may_retry(&self) -> bool {
        lock(&self.budget).spend(self.now())
    }

    /// A permit for one request, unless the breaker is open.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<ModelPermit, OpenCircuit> {
        let permit = lock(&self.breaker).admit(self.now())?;
        Ok(ModelPermit { endpoint: Arc::clone(self), permit, verdict: BreakerVerdict::Unknown })
    }
}

/// A permit for one request. Dropping it without a verdict counts as unknown.
#[derive(Debug)]
pub(crate) struct ModelPermit {
    endpoint: Arc<Endpoint>,
    permit: BreakerPermit,
    verdict: BreakerVerdict,
}

impl ModelPermit {
    /// Returns the permit with its verdict.
    pub(crate) fn end(mut self, verdict: BreakerVerdict) {
        self.verdict = verdict;
    }
}

impl Drop for ModelPermit {
    fn drop(&mut self) {
        let opened = lock(&self.endpoint.breaker).record(self.permit, self.verdict, self.endpoint.now());
        if let Some(open) = opened {
            let seconds = open.remaining.as_secs();
            tracing::warn!(failures = open.failures, seconds, "model API keeps failing; its circuit breaker is open");
        }
    }
}

/// The maximum number of addresses with known health: clients may store models of any number of them.
const MOST_KNOWN: usize = 4_096;

/// The health of the addresses that were called so far; if there are too many, those not in use are evicted.
#[derive(Debug, Default)]
pub(crate) struct Endpoints(Mutex<HashMap<ModelAddress, Arc<Endpoint>>>);

/// A provider and its address: one account, as far as a server can tell.
type ModelAddress = (&'static str, String);

impl Endpoints {
    /// The health of a provider at this address. The query of the URL is a setting, or a secret, and not part of it.
    pub(crate) fn of(&self, provider: &'static str, url: &Url) -> Arc<Endpoint> {
        let mut url = url.clone();
        url.set_query(None);
        let address = (provider, url.into());
        let mut known = lock(&self.0);
        if known.len() >= MOST_KNOWN && !known.contains_key(&address) {
            known.retain(|_, endpoint| Arc::strong_count(endpoint) > 1);
        }
        Arc::clone(known.entry(address).or_default())
    }
}

/// No code that holds these locks can panic halfway through a change.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_use_are_not_evicted() {
        let endpoints = Endpoints::default();
        let of = |number: usize| {
            endpoints.of("openai", &Url::parse(&format!("https://a{number}.example/v1?key=secret")).unwrap())
        };
        let used = of(0);
        for number in 1..=3 * MOST_KNOWN {
            of(number);
        }
        assert!(lock(&endpoints.0).len() <= MOST_KNOWN);
        assert!(Arc::ptr_eq(&used, &of(0)), "its circuit may be open");
    }

    #[track_caller]
    fn check(left: (&'static str, &str), right: (&'static str, &str), is_one: bool) {
        let endpoints = Endpoints::default();
        let [left, right] = [left, right].map(|(provider, url)| endpoints.of(provider, &Url::parse(url).unwrap()));
        assert_eq!(Arc::ptr_eq(&left, &right), is_one);
    }

    #[test]
    fn health_is_that_of_one_provider_at_one_address() {
        check(("openai", "https://a.example/v1?key=1"), ("openai", "https://a.example/v1?key=2"), true);
        check(("openai", "https://a.example/v1"), ("openai", "https://b.example/v1"), false);
        check(("openai", "https://a.example/v1"), ("anthropic", "https://a.example/v1"), false);
    }
}
