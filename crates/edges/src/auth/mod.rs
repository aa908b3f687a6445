//! Authentication and authorization.
//!
//! A request proves who it comes from with an `Authorization` header, and the [policy](Access) turns that
//! proof into a [`Grant`]: an actor, namespaces and rights. Each route says in its table what it needs,
//! the gate in front of it compares, and only the gate makes an `Authorized` namespace, without which
//! no handler reaches a row. There is no session, no cookie and no token in a URL. The program decides where keys come
//! from (files, key servers); nothing here reads a file or opens a connection.

mod access;
mod credential;
pub(crate) mod gate;
pub mod jwt;
pub mod keys;
pub(crate) mod refusals;
mod revocation;
pub(crate) mod whoami;

use bosun_core::{Actor, Namespace, Timestamp};

pub use access::{Access, Policy};

macro_rules! rights {
    ($($(#[doc = $doc:literal])+ $variant:ident $word:literal,)+) => {
        /// What a key may be allowed to do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Right {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Right {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}

rights! {
    /// See agents, queries, results and events.
    Read "read",
    /// Create queries, cancel them and resume them.
    Run "run",
    /// Deliver the results of outside tools.
    Deliver "deliver",
    /// Approve and reject calls that wait for it.
    Approve "approve",
    /// Change and delete what others rely on: resources, conversations, finished queries.
    Manage "manage",
    /// See who did what, and how much was used.
    Audit "audit",
}

impl Right {
    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    #[must_use]
    pub fn all() -> Self {
        Right::ALL.iter().copied().collect()
    }

    #[must_use]
    pub fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.iter().copied().filter(move |right| self.has(*right))
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        Self(rights.into_iter().fold(0, |bits, right| bits | right.bit()))
    }
}

/// The namespaces that a key reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    All,
    /// The first one is the key's own. An empty list reaches nothing.
    Listed(Vec<Namespace>),
}

impl Namespaces {
    #[must_use]
    pub fn include(&self, namespace: &Namespace) -> bool {
        match self {
            Self::All => true,
            Self::Listed(listed) => listed.contains(namespace),
        }
    }

    /// Those that are listed by name.
    pub(crate) fn listed(&self) -> &[Namespace] {
        match self {
            Self::All => &[],
            Self::Listed(listed) => listed,
        }
    }

    /// The default of requests that name none.
    #[must_use]
    pub fn own(&self) -> Namespace {
        match self {
            Self::All => Namespace::default(),
            Self::Listed(listed) => listed.first().cloned().unwrap_or_default(),
        }
    }
}

/// The end users that a key may act for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndUsers {
    Any,
    Listed(Vec<String>),
}

impl EndUsers {
    fn include(&self, user: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(listed) => listed.iter().any(|known| known == user),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Listed(listed) if listed.is_empty())
    }
}

/// What an authenticated caller may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub actor: Actor,
    pub namespaces: Namespaces,
    pub rights: Rights,
    pub may_act_for: EndUsers,
    /// The moment from which the grant is no longer valid.
    pub expires: Option<Timestamp>,
}

impl Grant {
    /// Everything: the grant of every caller of a server without authentication.
    fn everything() -> Self {
        Self {
            actor: Actor::local(),
            namespaces: Namespaces::All,
            rights: Rights::all(),
            may_act_for: EndUsers::Listed(Vec::new()),
            expires: None,
        }
    }

    fn holds_at(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}
