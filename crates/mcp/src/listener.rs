//! Notifications and requests that a server may send to this client.
//!
//! It may report progress and that its tools have changed. Sampling and roots are answered as unsupported: a server must
//! not spend the operator's tokens. So is elicitation, unless the manifest has it answered with defaults.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bosun_adapters::manifests::ElicitationPolicy;
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorData,
        FormElicitationCapability, Implementation, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    },
    service::{NotificationContext, RequestContext},
};
use tokio::sync::Notify;

use crate::elicitation;

/// The progress of a call, as its server reports it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reported {
    pub(crate) done: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

pub(crate) type ProgressSink = Arc<dyn Fn(Reported) + Send + Sync>;

/// The calls of a session that wait for progress.
#[derive(Default)]
pub(crate) struct ProgressSinks(Mutex<HashMap<ProgressToken, ProgressSink>>);

impl fmt::Debug for ProgressSinks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ProgressSinks(..)")
    }
}

impl ProgressSinks {
    /// Subscribes to the progress of one request, until the guard is dropped.
    pub(crate) fn subscribe(self: &Arc<Self>, token: ProgressToken, sink: ProgressSink) -> Subscribed {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), sink);
        Subscribed { sinks: Arc::clone(self), token }
    }

    fn report(&self, token: &ProgressToken, progress: Reported) {
        let sink = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(token).cloned();
        if let Some(sink) = sink {
            sink(progress);
        }
    }
}

/// A subscription to progress.
#[derive(Debug)]
pub(crate) struct Subscribed {
    sinks: Arc<ProgressSinks>,
    token: ProgressToken,
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.sinks.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.token);
    }
}

/// The client's side of a session.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) progress: Arc<ProgressSinks>,
    /// Notified when the server says that its tools have changed.
    pub(crate) list_changed: Arc<Notify>,
    pub(crate) elicitation: ElicitationPolicy,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("bosun", env!("CARGO_PKG_VERSION"));
        // The default of rmcp is a revision that has no `initialize`, and a server that repeats what it is offered would
        // then be spoken to in the wrong protocol.
        let mut capabilities = ClientCapabilities::default();
        if self.elicitation == ElicitationPolicy::Defaults {
            let form = ElicitationCapability::new().with_form(FormElicitationCapability::new());
            capabilities.elicitation = Some(form);
        }
        ClientConfig::new(capabilities, own).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    #[expect(deprecated, reason = "servers of earlier revisions may still ask")]
    async fn create_message(
        &self,
        _: rmcp::model::CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::CreateMessageResult, ErrorData> {
        Err(unsupported("sampling"))
    }

    #[expect(deprecated, reason = "servers of earlier revisions may still ask")]
    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(unsupported("roots"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        match self.elicitation {
            ElicitationPolicy::Defaults => Ok(elicitation::answer(&request)),
            ElicitationPolicy::Refuse => Err(unsupported("elicitation")),
        }
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let ProgressNotificationParam { progress_token, progress: done, total, message, .. } = progress;
        self.progress.report(&progress_token, Reported { done, total, message });
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changed.notify_one();
    }
}

fn unsupported(what: &str) -> ErrorData {
    ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, format!("this client does not support {what}"), None)
}
