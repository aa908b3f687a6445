//! A call in this process, from the files that a server would read.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, anyhow};
use bosun_adapters::{
    address::Reachable,
    manifests::{self, Library, Manifests},
    runner::builtin::Builtins,
    secret::Secrets,
};
use bosun_core::{
    Actor, CallId, Namespace, Outcome, QueryUid, Schema, Tool, content::Content, machine::outcome_code,
    schema::CheckedArguments,
};
use bosun_engine::{
    Clock as _, Registry, Results, SystemClock,
    resource::{Assemble as _, ResourceKind},
    runner::{InsideCall, Progress, ProgressSink, RunContext, run_alone},
};
use serde_json::Value;

use super::{CallResult, INVALID_ARGUMENTS, LocalOptions, run_by_client, unknown_tool};
use crate::{app::Unusable, commands::ask::progress_line, commands::report::printable};

const DEFAULT_MANIFESTS: &str = "./agents";

impl LocalOptions {
    pub(super) async fn call(
        self,
        namespace: Option<String>,
        name: &str,
        arguments: &str,
    ) -> anyhow::Result<CallResult> {
        let namespace = namespace.map_or_else(|| Ok(Namespace::default()), |name| name.parse::<Namespace>())?;
        let builtins = Arc::new(Builtins::new(Arc::new(SystemClock)));
        let registry = self.registry(&builtins)?;
        let tool = registry.tool(&namespace, name).cloned().or_else(|| builtins.tool(name));
        let Some(tool) = tool else { return Err(not_found(&registry, &namespace, name)) };
        if let Some(warning) = tool.deprecation_warning() {
            anstream::eprintln!("warning: {}", printable(&warning));
        }
        if tool.is_external() {
            return Err(run_by_client(name));
        }
        let arguments = match check(&tool, arguments)? {
            Ok(arguments) => arguments,
            Err(message) => return Ok(CallResult::Failure { code: INVALID_ARGUMENTS.into(), message }),
        };
        let kind = tool.binding.kind();
        let Some(runner) = registry.runner(kind) else {
            let message = format!("this version does not run tools of type `{kind}`, which `{name}` is");
            return Ok(CallResult::Failure { code: outcome_code::NO_RUNNER.into(), message });
        };
        let timeout = tool.timeout.unwrap_or(self.tool_timeout).min(self.tool_timeout);
        let mut context = RunContext::alone(Actor::local(), timeout);
        if io::stderr().is_terminal() {
            context = context.reporting_to(Arc::new(ProgressOnTerminal(tool.name.clone())));
        }
        let call = InsideCall {
            namespace,
            id: call_id()?,
            tool: Arc::new(tool),
            arguments: Arc::new(arguments),
            attempt: 1,
            results: Results::default(),
        };
        let outcome = tokio::select! {
            outcome = run_alone(&**runner, &call, &context, &SystemClock) => outcome,
            _ = tokio::signal::ctrl_c() => return Err(anyhow!("the call was interrupted; whether it took effect is not known")),
        };
        Ok(outcome.into())
    }

    fn registry(&self, builtins: &Arc<Builtins>) -> anyhow::Result<Registry> {
        let directories = match self.manifests.as_slice() {
            [] if Path::new(DEFAULT_MANIFESTS).exists() => vec![PathBuf::from(DEFAULT_MANIFESTS)],
            given => given.to_vec(),
        };
        let files = if directories.is_empty() {
            // The builtin tools need no files.
            Manifests::default()
        } else {
            manifests::load(&directories, builtins)
                .map_err(|faults| anyhow!("{}", Unusable { faults, directories: &directories }))?
        };
        let secrets = Arc::new(Secrets::new(Some(self.secrets.clone()), std::env::vars()));
        Ok(Library::new(files, secrets, Reachable::default(), Arc::clone(builtins)).assemble(&[]))
    }
}

fn not_found(registry: &Registry, namespace: &Namespace, name: &str) -> anyhow::Error {
    let tools = registry.resources(ResourceKind::Tool, namespace);
    let known = tools.iter().map(|tool| tool.manifest.key.name.as_str());
    unknown_tool(name, &format!("in namespace `{namespace}` of these files"), known)
}

/// The arguments as the tool gets them; the inner error says why it does not.
fn check(tool: &Tool, arguments: &str) -> anyhow::Result<Result<Value, String>> {
    let schema = Schema::compile(&tool.checked_parameters())
        .map_err(|error| anyhow!("the parameters of `{}` are not a schema: {error}", tool.name))?;
    let checked = schema.check_arguments(arguments).map_err(|violations| {
        violations.iter().map(|violation| violation.message.as_str()).collect::<Vec<_>>().join("; ")
    });
    Ok(checked.map(CheckedArguments::into_value))
}

/// An idempotency key of its own for each call.
fn call_id() -> anyhow::Result<CallId> {
    let mut random = [0; 10];
    getrandom::fill(&mut random).context("the operating system has no randomness for a new call")?;
    let millis = u64::try_from(SystemClock.now().0).unwrap_or_default();
    Ok(CallId::derive(QueryUid::new(millis, random), 1, 0))
}

impl From<Outcome> for CallResult {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success { content: Content::Inline(value) } => Self::Success(value),
            // As a model reads them, with a mark for each image.
            Outcome::Success { content: Content::Blocks(blocks) } => Self::Success(blocks.text().into()),
            // A runner never gives a blob: only the engine makes them.
            Outcome::Success { content: Content::Large(large) } => Self::Success(large.head.into()),
            Outcome::Failure { code, message, .. } => Self::Failure { code, message },
        }
    }
}

/// Shows the progress of the tool of this name.
struct ProgressOnTerminal(String);

impl ProgressSink for ProgressOnTerminal {
    fn report(&self, Progress { done, total, message }: Progress) {
        let line = progress_line(&self.0, done, total, message.as_deref());
        // A terminal that is gone is no reason to stop the tool.
        let _ = writeln!(anstream::stderr(), "  · {line}");
    }
}
