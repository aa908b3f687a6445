//! The runner of tools of MCP servers.
//!
//! A call uses the session that all callers share, or its caller's own. A session that the server no longer knows is
//! opened again, once, and the call is sent a second time only if it was not processed or its tool is safe to repeat.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bosun_core::{Binding, Outcome, machine::outcome_code};
use bosun_engine::{
    Runner,
    runner::{InsideCall, Progress, RunContext, RunReply},
};
use rmcp::model::RequestMetaObject;
use serde_json::{Map, Value};

use crate::{
    error::McpError,
    host::Servers,
    identity::SessionIdentity,
    listener::Reported,
    server::Server,
    session::{CallLimits, Session},
};

/// How long a call waits for a server that is being connected to.
const SESSION_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest call, however much progress it reports.
const LONGEST_CALL: Duration = Duration::from_secs(60 * 60);
const LONGEST_MESSAGE: usize = 200;

/// Runs tools with an MCP binding.
#[derive(Debug)]
pub(crate) struct McpRunner {
    servers: Arc<Servers>,
}

impl McpRunner {
    pub(crate) fn new(servers: Arc<Servers>) -> Self {
        Self { servers }
    }
}

#[async_trait]
impl Runner for McpRunner {
    async fn run(&self, call: &InsideCall, context: &RunContext) -> RunReply {
        let Binding::Mcp { server, tool } = &call.tool.binding else {
            return Outcome::failure(outcome_code::NO_RUNNER, "this is not a tool of an MCP server").into();
        };
        let Some(found) = self.servers.get(&call.namespace, server) else {
            let message = format!("there is no MCP server `{server}`; do not call this tool again");
            return Outcome::failure(outcome_code::MCP_SERVER_UNAVAILABLE, message).into();
        };
        let identity = match SessionIdentity::of(&found.manifest, context) {
            Ok(identity) => identity,
            Err(missing) => {
                let message = format!("MCP server `{server}`: {missing}");
                return Outcome::failure(outcome_code::TOOL_MISCONFIGURED, message).into();
            }
        };
        let target = CallTarget { server: &found, tool, identity };
        let outcome = match run(&target, call, context).await {
            Ok(outcome) => outcome,
            Err(error) => error.to_outcome(server),
        };
        outcome.into()
    }
}

/// Where a call goes.
struct CallTarget<'a> {
    server: &'a Server,
    /// The server's own name of the tool.
    tool: &'a str,
    identity: Option<SessionIdentity>,
}

async fn run(target: &CallTarget<'_>, call: &InsideCall, context: &RunContext) -> Result<Outcome, McpError> {
    let is_safe = call.tool.is_safe_to_repeat();
    let (session, error) = match call_once(target, call, context).await {
        Ok(outcome) => return Ok(outcome),
        Err(failed) => failed,
    };
    let is_unsent = matches!(error, McpError::Unavailable(_));
    let is_lost = matches!(error, McpError::Stale(_) | McpError::Broken(_));
    // Without a session there was an attempt to make one, and another would fail in the same way.
    let Some(session) = session.filter(|_| is_unsent || is_lost) else { return Err(error) };
    session.retire();
    if is_unsent || is_safe {
        return call_once(target, call, context).await.map_err(|(_, error)| error);
    }
    Err(error)
}

type Failed = (Option<Arc<Session>>, McpError);

async fn call_once(target: &CallTarget<'_>, call: &InsideCall, context: &RunContext) -> Result<Outcome, Failed> {
    let &CallTarget { server, tool, ref identity } = target;
    let timeout = SESSION_TIMEOUT.min(context.time_left());
    let found = server.session(identity.as_ref(), timeout).await.map_err(|error| (None, error))?;
    let session = &found.session;
    let known = match server.tool(tool) {
        Ok(known) => known,
        Err(message) => return Ok(Outcome::failure(outcome_code::UNKNOWN_TOOL, message)),
    };
    let arguments = match &*call.arguments {
        Value::Object(arguments) => arguments.clone(),
        _ => Map::new(),
    };
    let silent = call.tool.timeout.unwrap_or_else(|| server.manifest.silence());
    let limits = CallLimits { silent, total: LONGEST_CALL };
    let sink = progress_sink(session, context);
    let result = session.call(tool, arguments, limits, trace_meta(context), sink).await;
    match result {
        Ok(result) => Ok(result.into_outcome(known.output.as_deref(), session.redactor())),
        Err(error) => Err((Some(Arc::clone(session)), error)),
    }
}

fn progress_sink(session: &Arc<Session>, context: &RunContext) -> crate::listener::ProgressSink {
    let (context, session) = (context.clone(), Arc::clone(session));
    Arc::new(move |Reported { done, total, message }| {
        let message = message.map(|message| session.redactor().clean_to(&message, LONGEST_MESSAGE));
        context.progress(Progress { done, total, message });
    })
}

/// The caller's trace, under the keys that MCP documents for it.
fn trace_meta(context: &RunContext) -> Option<RequestMetaObject> {
    let trace = context.trace.as_ref()?;
    let mut meta = RequestMetaObject::default();
    meta.insert("traceparent".to_owned(), trace.to_string().into());
    Some(meta)
}
