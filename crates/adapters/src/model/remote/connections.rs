//! What the models of a server share: the connection pool, and the health of the APIs behind it.

use std::sync::Arc;

use bosun_engine::model::ModelError;

use super::Failure;
use crate::{
    address::NotPublic,
    model::health::Endpoints,
    outbound::{OutboundError, Pool, cause},
};

/// The connections of all models of a server.
#[derive(Debug, Default)]
pub struct Connections {
    pub(crate) pool: Arc<Pool>,
    pub(super) endpoints: Endpoints,
}

impl Connections {
    /// Connections of this pool. No API has been called yet.
    #[must_use]
    pub fn new(pool: Arc<Pool>) -> Self {
        Self { pool, endpoints: Endpoints::default() }
    }
}

impl From<OutboundError> for Failure {
    fn from(error: OutboundError) -> Self {
        match error {
            OutboundError::NotPublic(refused) => Self::Final(not_allowed(refused)),
            OutboundError::Tls(error) => Self::Final(ModelError::Misconfigured(format!(
                "this machine cannot open secure connections: {}",
                cause(&error)
            ))),
            OutboundError::Connect(error) => Self::outage(format!("no connection to its `baseUrl`: {}", cause(&error))),
            OutboundError::Broken(error) => Self::outage(format!("the request broke off: {}", cause(&error))),
        }
    }
}

fn not_allowed(refused: NotPublic) -> ModelError {
    ModelError::AddressNotAllowed(format!("`baseUrl`: {refused}"))
}
