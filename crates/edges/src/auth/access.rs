//! The policy in force, and how long a caller's grant holds.
//!
//! A policy is replaced as a whole while the server runs. Requests are checked against the current one; requests that
//! outlive it are notified when their grant is revoked.

use std::{fmt, sync::Arc, time::Duration};

use axum::http::HeaderMap;
use bosun_core::{Namespace, Timestamp};
use bosun_engine::{Clock, SystemClock};
use tokio::sync::{Notify, watch};

use super::{
    Grant, Namespaces,
    credential::{self, Credential},
    gate,
    jwt::{Issuer, TokenError},
    keys::{Digest, Keyring},
    revocation::Permitted,
};
use crate::http::error::ApiError;

/// How long a request with a token of an unknown key waits for the keys to be fetched again.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The policy: keys, issuers, and what each may do.
#[derive(Clone, Debug)]
pub struct Policy(Option<Guarded>);

#[derive(Clone, Debug)]
struct Guarded {
    keys: Keyring,
    issuers: Vec<Issuer>,
    /// Keys of an issuer are being fetched: another policy follows when they have arrived or cannot be fetched.
    expects_keys: bool,
}

impl Policy {
    /// Every caller may do everything. For servers that only their own machine can reach.
    #[must_use]
    pub fn open() -> Self {
        Self(None)
    }

    /// Only callers with a key or a token may do anything.
    #[must_use]
    pub fn guarded(keys: Keyring, issuers: Vec<Issuer>) -> Self {
        Self(Some(Guarded { keys, issuers, expects_keys: false }))
    }

    /// Whether another policy follows soon, with the keys that an issuer has published meanwhile.
    #[must_use]
    pub fn expecting_keys(mut self, expects_keys: bool) -> Self {
        if let Some(guarded) = &mut self.0 {
            guarded.expects_keys = expects_keys;
        }
        self
    }
}

/// How a caller was authenticated: enough to check whether the credential is still valid, and nothing secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CredentialProof {
    /// The server is open: there is no credential.
    Open,
    Key(Digest),
    /// A token of the issuer with this id.
    Token(String),
}

/// The policy in force.
#[derive(Clone)]
pub struct Access {
    policy: watch::Receiver<Arc<Policy>>,
    clock: Arc<dyn Clock>,
    /// Notified when a token names a key that its issuer may have published meanwhile.
    keys_wanted: Arc<Notify>,
    /// What an open server grants to every caller.
    everything: Arc<Grant>,
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Access").field("open", &self.is_open()).finish_non_exhaustive()
    }
}

impl Access {
    /// No authentication, forever.
    #[must_use]
    pub fn open() -> Self {
        Self::new(watch::Sender::new(Arc::new(Policy::open())).subscribe(), Arc::new(SystemClock), Arc::default())
    }

    /// Adopts every policy that is sent to `policy`. The sender subscribes to `keys_wanted`, and answers by sending a
    /// new policy.
    #[must_use]
    pub fn new(policy: watch::Receiver<Arc<Policy>>, clock: Arc<dyn Clock>, keys_wanted: Arc<Notify>) -> Self {
        Self { policy, clock, keys_wanted, everything: Arc::new(Grant::everything()) }
    }

    /// The namespaces that keys and issuers are scoped to.
    pub(crate) fn namespaces(&self) -> Vec<Namespace> {
        let policy = Arc::clone(&self.policy.borrow());
        policy.0.iter().flat_map(Guarded::namespaces).cloned().collect()
    }

    /// Whether a key or an issuer is scoped to this namespace.
    pub(crate) fn is_scoped_to(&self, namespace: &Namespace) -> bool {
        self.policy.borrow().0.iter().flat_map(Guarded::namespaces).any(|scoped| scoped == namespace)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.policy.borrow().0.is_none()
    }

    /// Whether callers may have a key: on a server without issuers they have nothing else, even before the first is made.
    pub(crate) fn accepts_keys(&self) -> bool {
        self.policy.borrow().0.as_ref().is_some_and(|guarded| guarded.keys.has_active() || guarded.issuers.is_empty())
    }

    /// Whether callers may have a token of an identity provider.
    pub(crate) fn accepts_tokens(&self) -> bool {
        self.policy.borrow().0.as_ref().is_some_and(|guarded| !guarded.issuers.is_empty())
    }

    /// The credential of a request and its grant; `None` if the caller is not authenticated, whatever the reason.
    pub(super) async fn authenticate(&self, headers: &HeaderMap) -> Option<(CredentialProof, Arc<Grant>)> {
        let policy = Arc::clone(&self.policy.borrow());
        let Some(guarded) = &policy.0 else { return Some((CredentialProof::Open, Arc::clone(&self.everything))) };
        let credential = credential::read(headers)?;
        match guarded.verify(&credential, self.clock.now()) {
            Ok(verified) => Some(verified),
            Err(Some(TokenError::UnknownKey)) => self.verify_with_new_keys(&credential).await,
            Err(reason) => {
                if let Some(reason) = reason {
                    tracing::debug!(reason = %reason, "token was refused");
                }
                None
            }
        }
    }

    /// Keys are rotated: the provider may have published the one that signed this token.
    async fn verify_with_new_keys(&self, credential: &Credential) -> Option<(CredentialProof, Arc<Grant>)> {
        let mut policy = self.policy.clone();
        policy.mark_unchanged();
        self.keys_wanted.notify_one();
        let verified = async {
            loop {
                policy.changed().await.ok()?;
                let policy = Arc::clone(&policy.borrow_and_update());
                let guarded = policy.0.as_ref()?;
                match guarded.verify(credential, self.clock.now()) {
                    // One issuer has answered, and it may be another one that has signed the token.
                    Err(Some(TokenError::UnknownKey)) if guarded.expects_keys => {}
                    verified => return verified.ok(),
                }
            }
        };
        tokio::time::timeout(FETCH_TIMEOUT, verified).await.ok()?
    }

    /// Resolves when the grant behind `proof` does not cover `permitted` any more, with the refusal that a new request
    /// would get.
    pub(super) async fn revoked(mut self, proof: CredentialProof, grant: Arc<Grant>, permitted: Permitted) -> ApiError {
        loop {
            let now = self.clock.now();
            let expires = match self.policy.borrow_and_update().revalidate(&proof, &grant, now) {
                None => return gate::unauthorized(),
                Some(held) => match permitted.check(held, &grant) {
                    Ok(()) => held.expires,
                    Err(refusal) => return refusal,
                },
            };
            let over = async {
                match expires {
                    Some(expires) => tokio::time::sleep(expires.since(now)).await,
                    None => std::future::pending().await,
                }
            };
            let changed = async {
                if self.policy.changed().await.is_err() {
                    // The sender is gone: the policy does not change any more.
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = over => {}
                () = changed => {}
            }
        }
    }
}

impl Policy {
    /// What a proof that led to `granted` grants now; `None` if it is no longer valid.
    fn revalidate<'a>(&'a self, proof: &CredentialProof, granted: &'a Grant, now: Timestamp) -> Option<&'a Grant> {
        match (&self.0, proof) {
            (None, _) => Some(granted),
            (Some(_), CredentialProof::Open) => None,
            (Some(guarded), CredentialProof::Key(digest)) => guarded.keys.revalidate(*digest, now),
            (Some(guarded), CredentialProof::Token(issuer)) => {
                let is_known = guarded.issuers.iter().any(|known| known.id == *issuer);
                (is_known && granted.holds_at(now)).then_some(granted)
            }
        }
    }
}

impl Guarded {
    fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        let of_issuers = self.issuers.iter().map(|issuer| &issuer.namespaces);
        self.keys.namespaces().chain(of_issuers).flat_map(Namespaces::listed)
    }

    fn verify(
        &self,
        credential: &Credential,
        now: Timestamp,
    ) -> Result<(CredentialProof, Arc<Grant>), Option<TokenError>> {
        let (public, secret) = match credential {
            Credential::Pair(public, secret) => (Some(public.as_str()), secret),
            Credential::Bearer(secret) => (None, secret),
        };
        if let Some((digest, grant)) = self.keys.verify(public, secret, now) {
            return Ok((CredentialProof::Key(digest), Arc::new(grant.clone())));
        }
        // Only a token has dots, and only `Bearer` carries one.
        if public.is_some() || !secret.contains('.') {
            return Err(None);
        }
        let mut reason = None;
        for issuer in &self.issuers {
            match issuer.verify(secret, now) {
                Ok(grant) => return Ok((CredentialProof::Token(issuer.id.clone()), Arc::new(grant))),
                // With several issuers, the one whose keys may be old is the one to ask.
                Err(error) if reason != Some(TokenError::UnknownKey) => reason = Some(error),
                Err(_) => {}
            }
        }
        Err(reason)
    }
}
