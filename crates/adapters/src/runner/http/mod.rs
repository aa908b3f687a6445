//! Tools that are one HTTP request: ARK's `type: http`.
//!
//! The address, the headers and the body are templates with slots (`template`); a call fills them, looks up the
//! secrets that its headers refer to, and sends the request. A definition in a file of the operator may reach the host
//! and port that it names; one that came through the API reaches public addresses and what the operator excepts, and so
//! does every redirect. Answers are bounded, and the secrets that were sent are redacted from them.

mod exchange;
mod request;
mod response;
mod template;

use std::sync::Arc;

use async_trait::async_trait;
use bosun_core::{
    Binding, Outcome, Tool,
    content::Content,
    machine::outcome_code,
    tool::{HttpRequest, ToolOrigin},
};
use bosun_engine::{
    Runner,
    runner::{InsideCall, RunContext, RunReply},
};
use serde_json::Value;

use self::{exchange::Exchange, request::Sources};
use crate::{
    outbound::{Pool, retry::Backoff},
    secret::{
        Secrets,
        binding::{Grants, SecretReach},
    },
};

pub(crate) use template::RequestTemplate;
pub use template::{TemplateFault, TemplateField};

/// Every fault of the templates of a request that no manifest declares. `parameters` is the schema of its arguments, if its author wrote one.
#[must_use]
pub fn template_faults(request: &HttpRequest, parameters: Option<&Value>) -> Vec<TemplateFault> {
    RequestTemplate::parse(request, parameters).err().unwrap_or_default()
}

/// Runs tools with [`Binding::Http`].
#[derive(Debug)]
pub struct HttpRunner {
    secrets: Arc<Secrets>,
    /// The destinations to which the files of the operator send secrets.
    grants: Arc<Grants>,
    pool: Arc<Pool>,
    backoff: Backoff,
}

impl HttpRunner {
    #[must_use]
    pub fn new(secrets: Arc<Secrets>, grants: Arc<Grants>, pool: Arc<Pool>) -> Self {
        Self { secrets, grants, pool, backoff: Backoff::default() }
    }

    async fn send(
        &self,
        call: &InsideCall,
        request: &HttpRequest,
        context: &RunContext,
    ) -> Result<Content, CallFailure> {
        let template = RequestTemplate::parse(request, None).map_err(|faults| {
            // A manifest is checked when it is read, but a query may be older than this program.
            let message = faults.first().map(|fault| fault.message.clone()).unwrap_or_default();
            CallFailure::new(outcome_code::TOOL_MISCONFIGURED, message)
        })?;
        let reach = reach_of(&call.tool, &self.grants);
        let sources = Sources {
            namespace: &call.namespace,
            secrets: &self.secrets,
            reach: &reach,
            parameters: context.parameters(),
        };
        let (prepared, redaction) = sources.prepare(&template, request, call, context).await?;
        let id = call.id.to_string();
        let exchange = Exchange {
            pool: &self.pool,
            reach: &reach,
            origin: template.origin(),
            follows_redirects: request.follow_redirects,
            is_safe_to_repeat: call.tool.is_safe_to_repeat(),
            backoff: self.backoff,
            redaction: &redaction,
            id: &id,
        };
        exchange.run(&prepared, || context.time_left()).await
    }
}

#[async_trait]
impl Runner for HttpRunner {
    async fn run(&self, call: &InsideCall, context: &RunContext) -> RunReply {
        let Binding::Http(request) = &call.tool.binding else {
            let message = format!("tool `{}` is not an HTTP request", call.tool.name);
            return RunReply::Done(Outcome::failure(outcome_code::TOOL_FAILED, message));
        };
        let result = self.send(call, request, context).await;
        RunReply::Done(result.map_or_else(CallFailure::into_outcome, |content| Outcome::Success { content }))
    }
}

/// Where the secrets of a tool may go, and what it may call.
pub(crate) fn reach_of(tool: &Tool, grants: &Arc<Grants>) -> SecretReach {
    match tool.origin {
        ToolOrigin::Operator => SecretReach::File,
        ToolOrigin::Client | ToolOrigin::Server => SecretReach::Stored { grants: Arc::clone(grants), own: None },
    }
}

/// Why a call has no result; the model reads it.
#[derive(Debug)]
struct CallFailure {
    code: &'static str,
    message: String,
    /// What the API said about it.
    content: Option<Value>,
}

impl CallFailure {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), content: None }
    }

    fn failed(message: impl Into<String>) -> Self {
        Self::new(outcome_code::TOOL_FAILED, message)
    }

    fn into_outcome(self) -> Outcome {
        let Self { code, message, content } = self;
        Outcome::Failure { code: code.to_owned(), message, content: content.map(Into::into) }
    }
}
