//! What is remembered of a model API between requests: whether it is worth asking, and asking again.
//!
//! [`Breaker`] and [`Budget`] are pure: time arrives as an argument, and nothing here waits. One
//! [`Endpoint`] has one of each and is shared by everybody who asks the same address, in whatever
//! namespace: that an API is down is true for all of them. A refusal for one key's own load (429) is
//! not, so it spends from the budget and does not trip the breaker.

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
    breaker::{Breaker, Pass},
    budget::Budget,
};

pub(crate) use breaker::{Open, Verdict};

/// The health of one address.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// What `now` is counted from.
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

    /// Notes a request, whatever becomes of it: each one earns a part of a retry.
    pub(crate) fn note_request(&self) {
        lock(&self.budget).note_request(self.now());
    }

    /// Whether a failed request may be sent again; spends from the budget if so.
    pub(crate) fn may_retry(&self) -> bool {
        lock(&self.budget).spend(self.now())
    }

    /// Leave to send one request, unless the API is being left alone.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Permit, Open> {
        let pass = lock(&self.breaker).admit(self.now())?;
        Ok(Permit { endpoint: Arc::clone(self), pass, verdict: Verdict::Unknown })
    }
}

/// Leave to send one request. Whoever drops it without a verdict has learnt nothing.
#[derive(Debug)]
pub(crate) struct Permit {
    endpoint: Arc<Endpoint>,
    pass: Pass,
    verdict: Verdict,
}

impl Permit {
    /// Says how it went.
    pub(crate) fn end(mut self, verdict: Verdict) {
        self.verdict = verdict;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let opened = lock(&self.endpoint.breaker).record(self.pass, self.verdict, self.endpoint.now());
        if let Some(open) = opened {
            let seconds = open.remaining.as_secs();
            tracing::warn!(failures = open.failures, seconds, "model API fails and is left alone");
        }
    }
}

/// The health of so many addresses is known at once: clients may store models of as many as they like.
const MOST_KNOWN: usize = 4_096;

/// The health of every provider's address that was asked so far; of those in use if there are too many.
#[derive(Debug, Default)]
pub(crate) struct Endpoints(Mutex<HashMap<Address, Arc<Endpoint>>>);

/// A provider, and where it is asked: one account with it, as far as a server can tell.
type Address = (&'static str, String);

impl Endpoints {
    /// The health of a provider at this address. What stands behind `?` is a setting, or a secret, and not part of it.
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

/// Nothing that holds these locks can panic half-way through a change.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_addresses_those_in_use_are_known() {
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
