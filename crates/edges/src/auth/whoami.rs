//! `GET /v1/whoami`: what the caller's key permits.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Namespaces, gate::Caller};
use crate::http::answer::Json;

/// The caller, and what it may do.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Whoami {
    /// The id of the key; absent on a server without authentication.
    key: Option<String>,
    /// The end user that it acts for in this request.
    user: Option<String>,
    /// The first one is the default of requests that name none; `*` means all.
    namespaces: Vec<String>,
    rights: Vec<&'static str>,
    expires_at: Option<String>,
}

pub(crate) async fn whoami(caller: Caller) -> Json<Whoami> {
    let grant = caller.grant();
    Json(Whoami {
        key: caller.actor.key().map(str::to_owned),
        user: caller.actor.user().map(str::to_owned),
        namespaces: match &grant.namespaces {
            Namespaces::All => vec!["*".into()],
            Namespaces::Listed(listed) => listed.iter().map(ToString::to_string).collect(),
        },
        rights: grant.rights.iter().map(super::Right::as_str).collect(),
        expires_at: grant.expires.map(bosun_core::Timestamp::to_rfc3339),
    })
}
