//! Freezing a query: what it will run with is resolved when it is accepted.
//!
//! Agent, model, limits, prompt and tools are read from the registry once, here. A query that overrides the model,
//! parameters or tools affects no other query: the shared agent is never modified.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bosun_core::{
    ContentHash, Namespace, QueryLimits, Spec, Tool, Toolset,
    ceiling::{REQUEST_PATTERN_BYTES, WARNINGS_KEPT},
    conversation::Frozen,
    duration, json,
    query::{NarrowedLimit, TargetKind},
    schema::{self, Schema, SchemaCache, SchemaError, SchemaFault},
    team::{Strategy, TeamPlan},
    template::{MissingValues, RenderError, Template},
    tool::{
        Confirm,
        catalog::{Catalog, Selection},
        toolset::ToolSources,
    },
    transcript::Message,
};
use serde_json::Value;

use crate::{
    Agent, EngineError, Registry, Submission,
    engine::Inner,
    parameters,
    registry::{self, RemoteAgent},
    store::conversations::Joining,
    submission::Input,
    turns::tool_target,
    turns::turn::INLINE_EFFORT,
};

/// What answers a query: model, prompt, tools, limits and schema.
struct Answerer {
    /// Empty if the target has no model.
    model: String,
    prompt: Option<String>,
    tools: Vec<Tool>,
    /// The limits of a query that asks for none.
    limits: QueryLimits,
    /// Upper bounds of what the query and its tools may ask for.
    bounds: QueryLimits,
    output_schema: Option<Arc<Value>>,
    /// Whether calls wait for approval, where a tool does not say so.
    confirm: Option<Confirm>,
    /// Warnings about tools that it lacks, and limits that were narrowed.
    absent: Vec<String>,
    /// How its members take turns, if it is a team.
    team: Option<Arc<TeamPlan>>,
    /// It is an agent behind an A2A server.
    is_remote: bool,
}

impl Inner {
    /// Compiles the schema that the answer must match, before anything is locked.
    ///
    /// # Errors
    /// If it is not a valid schema, or if its patterns and those of the client's tools exceed their total limit.
    pub(crate) async fn compile_output_schema(&self, submission: &Submission) -> Result<(), EngineError> {
        let source = match (&submission.output_schema, submission.target_kind) {
            (Some(source), _) => Arc::clone(source),
            (None, TargetKind::Agent) => {
                let registry = self.resources.registry();
                let agent = registry.agent(&submission.namespace, &submission.target);
                let Some(source) = agent.and_then(|agent| agent.output_schema.clone()) else { return Ok(()) };
                source
            }
            (None, TargetKind::Model | TargetKind::Tool | TargetKind::Team) => return Ok(()),
        };
        let schema = self.compiled(source).await.map_err(EngineError::InvalidOutputSchema)?;
        let of_tools = |tool: &Tool| self.schemas.get(json::content_hash(&tool.parameters))?.ok();
        // Usually it has no patterns, and nothing has to be looked up.
        if schema.pattern_bytes() > 0
            && let of_all = submission.client_tools.iter().filter_map(of_tools).map(|schema| schema.pattern_bytes())
            && of_all.sum::<usize>() + schema.pattern_bytes() > REQUEST_PATTERN_BYTES
        {
            let fault = SchemaFault::PatternsTooLarge(REQUEST_PATTERN_BYTES);
            return Err(EngineError::InvalidOutputSchema(SchemaError { path: String::new(), fault }));
        }
        Ok(())
    }

    /// A compiled schema: inline if it is cached, or small and simple; otherwise on the blocking pool.
    pub(crate) async fn compiled(&self, source: Arc<Value>) -> Result<Arc<Schema>, SchemaError> {
        let (hash, schemas) = (json::content_hash(&source), Arc::clone(&self.schemas));
        let compiled = match schemas.get(hash) {
            Some(known) => known,
            None if schema::is_light(&source) => schemas.compile_or_refuse(hash, &source),
            None => self.offload.run(move || schemas.compile_or_refuse(hash, &source)).await,
        };
        compiled.map_err(|refusal| refusal.first())
    }

    /// Validates the input of a tool against its parameters now: no model could be asked to try again.
    async fn check_direct(&self, spec: &Spec, toolset: &Arc<Toolset>) -> Result<(), EngineError> {
        if spec.target_kind != TargetKind::Tool {
            return Ok(());
        }
        let arguments = tool_target::arguments(&spec.input);
        let is_small = toolset.get(&spec.target).and_then(|member| member.effort(arguments.len()));
        if is_small.is_some_and(|effort| effort <= INLINE_EFFORT) {
            return check_arguments(toolset, &spec.target, &arguments);
        }
        let (toolset, name) = (Arc::clone(toolset), spec.target.clone());
        self.offload.run(move || check_arguments(&toolset, &name, &arguments)).await
    }

    /// Freezes what a query will need: agent, model, limits and tools as they are now.
    ///
    /// # Errors
    /// If the agent, its model or a tool does not exist, or the input of a tool does not match its parameters.
    pub(crate) async fn prepare(
        &self,
        submission: Submission,
        joins: Option<&Joining>,
        request: Option<ContentHash>,
    ) -> Result<(Spec, Arc<Toolset>), EngineError> {
        let (spec, toolset) = self.freeze(submission, joins, request)?;
        self.check_direct(&spec, &toolset).await?;
        Ok((spec, toolset))
    }

    fn freeze(
        &self,
        mut submission: Submission,
        joins: Option<&Joining>,
        request: Option<ContentHash>,
    ) -> Result<(Spec, Arc<Toolset>), EngineError> {
        // One registry for the whole query: a change in the meantime applies to the next query.
        let registry = self.resources.registry();
        let asked = std::mem::take(&mut submission.parameters);
        let parameters = parameters::resolve(&registry, &submission.namespace, asked)?;
        let mut answerer = self.answerer(&registry, &submission, &parameters)?;
        if answerer.is_remote {
            // No request to its server contains them.
            submission.client_tools.clear();
            submission.tool_sources = ToolSources::Catalog;
        }
        let policy = answerer.confirm.unwrap_or(self.settings.confirm);
        answerer.tools.iter_mut().for_each(|tool| decide_approval(tool, policy));
        let mut warnings = submission.warnings;
        let limits = submission.limits.grant(answerer.limits, answerer.bounds);
        let hidden = warn_of_hidden(submission.tool_sources, &answerer.tools, &submission.client_tools);
        // A tool's own timeout goes beyond a default, and never beyond what the query has asked for.
        let widest = submission.limits.narrow(answerer.bounds);
        let tools = answerer.tools.iter_mut().chain(&mut submission.client_tools);
        let narrowed: Vec<_> = tools.flat_map(|tool| narrow_timeouts(tool, widest)).collect();
        let idle: Vec<_> = registry.warn_of_idle(&answerer.tools).collect();
        let output_schema = submission.output_schema.or(answerer.output_schema);
        let toolset =
            Toolset::merge(submission.tool_sources, answerer.tools, submission.client_tools).sharing(&self.schemas);
        let toolset = self.toolsets.share(toolset);
        let uncached = toolset.tools().iter().filter_map(|member| member.tool.cache_warning());
        let changed = hidden.into_iter().chain(narrowed).chain(uncached);
        let mut further = answerer.absent.into_iter().chain(idle).chain(changed);
        warnings.extend(further.by_ref().take(WARNINGS_KEPT));
        match further.count() {
            0 => {}
            omitted => warnings.push(format!("{omitted} further warnings are not listed")),
        }
        let (input, template, messages) = match submission.input {
            // A text without parameters is not a template: its braces are literal.
            Input::Text(text) if parameters.is_empty() => (text, None, Vec::new()),
            Input::Text(text) => (fill_in(&text, &parameters)?, Some(text), Vec::new()),
            Input::Messages(messages) => (last_user_text(&messages), None, messages),
        };
        let template = template.filter(|template| *template != input);
        let spec = Spec {
            target: submission.target,
            target_kind: submission.target_kind,
            selector: submission.selector,
            model: answerer.model,
            prompt: answerer.prompt,
            input,
            template,
            messages,
            parameters,
            options: submission.options,
            output_schema,
            conversation: joins.map(|joining| Frozen {
                key: joining.key.clone(),
                history: joining.history.as_ref().map(|history| history.hash),
            }),
            toolset: toolset.hash(),
            limits,
            edge_note: submission.edge_note,
            on_expired: submission.on_expired,
            session_id: submission.session_id,
            labels: submission.labels,
            annotations: submission.annotations,
            warnings,
            request,
            trace: submission.trace,
            // Set by the parent that creates the query.
            lineage: None,
            team: answerer.team,
        };
        Ok((spec, toolset))
    }

    fn answerer(
        &self,
        registry: &Registry,
        submission: &Submission,
        parameters: &BTreeMap<String, String>,
    ) -> Result<Answerer, EngineError> {
        let (namespace, name) = (&submission.namespace, &submission.target);
        let alone = |model: &str, tools| Answerer {
            model: model.to_owned(),
            prompt: None,
            tools,
            limits: self.settings.limits,
            bounds: self.settings.ceilings,
            output_schema: None,
            confirm: None,
            absent: Vec::new(),
            team: None,
            is_remote: false,
        };
        match submission.target_kind {
            TargetKind::Agent => self.agent(registry, submission, parameters),
            TargetKind::Model => {
                find_model(registry, namespace, name)?;
                Ok(alone(name, Vec::new()))
            }
            TargetKind::Tool => {
                let tool = registry.tool(namespace, name).ok_or_else(|| EngineError::ToolsNotFound {
                    namespace: namespace.clone(),
                    names: vec![registry.absent(namespace, name)],
                })?;
                Ok(alone("", vec![registry::frozen(tool)]))
            }
            TargetKind::Team => {
                let (plan, members, selector) = team_parts(registry, namespace, name)?;
                let model = selector.as_ref().map_or("", |(model, _)| model.as_str());
                let prompt = selector.as_ref().and_then(|(_, prompt)| prompt.clone());
                Ok(Answerer { prompt, team: Some(Arc::new(plan)), ..alone(model, members) })
            }
        }
    }

    fn agent(
        &self,
        registry: &Registry,
        submission: &Submission,
        parameters: &BTreeMap<String, String>,
    ) -> Result<Answerer, EngineError> {
        let namespace = &submission.namespace;
        let agent = registry
            .agent(namespace, &submission.target)
            .ok_or_else(|| EngineError::AgentNotFound(namespace.clone(), submission.target.clone()))?;
        if let Some(remote) = &agent.remote {
            return self.remote_agent(registry, submission, agent, remote);
        }
        let model = match &submission.model {
            Some(model) => {
                find_model(registry, namespace, model)?;
                model
            }
            None if registry.model(namespace, &agent.model).is_none() => {
                return Err(EngineError::ModelNotFound {
                    namespace: namespace.clone(),
                    agent: agent.name.clone(),
                    model: agent.model.clone(),
                });
            }
            None => &agent.model,
        };
        let selected = submission.selected_tools.as_deref();
        let tools = match &submission.tool_filter {
            Some(selection) => {
                filter(namespace, &*registry.catalog_of(namespace, agent, selected)?, selection, selected)?
            }
            None => registry.tools_of(namespace, agent, selected)?,
        };
        let ceilings = self.settings.ceilings;
        let mut absent = match &submission.selected_tools {
            None => registry.warn_of_absent(namespace, agent),
            Some(_) => Vec::new(),
        };
        absent.extend(agent.limits.above(ceilings).into_iter().map(
            |NarrowedLimit { option, asked, granted, .. }| {
                format!("`{option}` of agent `{}`, {asked}, was narrowed to the limit of {granted}", agent.name)
            },
        ));
        let missing: BTreeSet<String> = tools.iter().flat_map(|tool| tool.missing_presets(parameters)).collect();
        if !missing.is_empty() {
            return Err(EngineError::MissingParameters(MissingValues { names: missing.into_iter().collect() }));
        }
        Ok(Answerer {
            model: model.clone(),
            prompt: agent.prompt_for(parameters)?,
            tools,
            limits: agent.limits.grant(self.settings.limits, ceilings),
            bounds: agent.limits.narrow(ceilings),
            output_schema: agent.output_schema.clone(),
            confirm: agent.confirm,
            absent,
            team: None,
            is_remote: false,
        })
    }

    /// An agent behind an A2A server: it has one tool, which asks it, and no model.
    fn remote_agent(
        &self,
        registry: &Registry,
        submission: &Submission,
        agent: &Agent,
        remote: &RemoteAgent,
    ) -> Result<Answerer, EngineError> {
        let namespace = &submission.namespace;
        let found = remote.tool.as_deref().and_then(|tool| registry.tool(namespace, tool));
        let tool = found.ok_or_else(|| EngineError::ToolsNotFound {
            namespace: namespace.clone(),
            names: vec![registry.absent(namespace, &format!("{}-agent", remote.server))],
        })?;
        let ceilings = self.settings.ceilings;
        Ok(Answerer {
            model: String::new(),
            prompt: None,
            tools: vec![registry::frozen(tool)],
            limits: agent.limits.grant(self.settings.limits, ceilings),
            bounds: agent.limits.narrow(ceilings),
            output_schema: agent.output_schema.clone(),
            confirm: agent.confirm,
            absent: warn_of_unsent(submission, agent),
            team: None,
            is_remote: true,
        })
    }
}

/// Warnings about fields of a query that are not sent to an agent behind an A2A server.
fn warn_of_unsent(submission: &Submission, agent: &Agent) -> Vec<String> {
    let is_conversation = matches!(&submission.input, Input::Messages(messages) if messages.len() > 1);
    let unsent = [
        ("the client's tools", !submission.client_tools.is_empty()),
        ("the selection of tools", submission.selected_tools.is_some() || submission.tool_filter.is_some()),
        ("the model", submission.model.is_some()),
        ("every message but the last one of the user", is_conversation),
    ];
    let warning = |what: &str| format!("agent `{}` is behind an A2A server: it is not sent {what}", agent.name);
    unsent.into_iter().filter(|(_, is_given)| *is_given).map(|(what, _)| warning(what)).collect()
}

/// A team as its query freezes it: the plan, the members as tools, and the model and the prompt of its selector.
type TeamParts = (TeamPlan, Vec<Tool>, Option<(String, Option<String>)>);

fn team_parts(registry: &Registry, namespace: &Namespace, name: &str) -> Result<TeamParts, EngineError> {
    let team =
        registry.team(namespace, name).ok_or_else(|| EngineError::TeamNotFound(namespace.clone(), name.to_owned()))?;
    let incomplete = |missing: String| EngineError::TeamIncomplete { team: name.to_owned(), missing };
    let (mut members, mut roles) = (Vec::new(), Vec::new());
    for member in &team.members {
        let missing = || incomplete(format!("its member `{}` does not exist", member.name));
        let tool = registry.as_tool(namespace, member.kind, &member.name).ok_or_else(missing)?;
        roles.push(tool.description.clone());
        members.push(Tool { passes: vec!["*".to_owned()], ..tool });
    }
    let selector = match team.selector.as_deref().filter(|_| team.strategy == Strategy::Selector) {
        None => None,
        Some(selector) => {
            let missing = || incomplete(format!("its selector `{selector}` does not exist"));
            let agent = registry.agent(namespace, selector).ok_or_else(missing)?;
            find_model(registry, namespace, &agent.model)?;
            Some((agent.model.clone(), agent.prompt_for(&BTreeMap::new())?))
        }
    };
    let plan = TeamPlan {
        members: team.members.iter().map(|member| member.name.clone()).collect(),
        strategy: team.strategy,
        max_turns: team.max_turns,
        edges: team.edges.clone(),
        selector_prompt: team.selector_prompt.clone(),
        roles,
    };
    Ok((plan, members, selector))
}

/// Decides once for the whole query whether calls of a tool wait for approval: a later change of a policy applies to
/// later queries.
fn decide_approval(tool: &mut Tool, policy: Confirm) {
    let needs_approval = tool.needs_approval(policy);
    tool.confirm = needs_approval.then_some(Confirm::Always);
    tool.approval_timeout = tool.approval_timeout.filter(|_| needs_approval);
}

/// Clamps the timeouts of a tool to their bounds, and returns a warning for each that changes.
fn narrow_timeouts(tool: &mut Tool, widest: QueryLimits) -> impl Iterator<Item = String> {
    let limit = if tool.is_external() { widest.external_timeout } else { widest.tool_timeout };
    let timeouts = [
        ("timeout", &mut tool.timeout, limit),
        ("approval.timeout", &mut tool.approval_timeout, widest.approval_timeout),
    ];
    let name = &tool.name;
    timeouts.into_iter().filter_map(move |(field, timeout, limit)| {
        let wanted = timeout.filter(|wanted| *wanted > limit)?;
        *timeout = Some(limit);
        let (wanted, limit) = (duration::format(wanted), duration::format(limit));
        Some(format!("`{field}` of tool `{name}`, {wanted}, was narrowed to the limit of {limit}"))
    })
}

/// Warnings about the client's tools that the query does not have, because the agent has tools of the same names.
fn warn_of_hidden(sources: ToolSources, tools: &[Tool], client_tools: &[Tool]) -> Vec<String> {
    if sources != ToolSources::Both {
        return Vec::new();
    }
    let own: BTreeSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let hidden = client_tools.iter().filter(|tool| own.contains(tool.name.as_str()));
    hidden
        .map(|tool| format!("tool `{}` of the client is not used: the agent has a tool of that name", tool.name))
        .collect()
}

fn find_model(registry: &Registry, namespace: &Namespace, name: &str) -> Result<(), EngineError> {
    match registry.model(namespace, name) {
        Some(_) => Ok(()),
        None => Err(EngineError::NoSuchModel(namespace.clone(), name.to_owned())),
    }
}

/// The tools that the query selects among its agent's, or among those that it names. An unknown name is an error: a
/// misspelt name must not silently remove a tool.
fn filter(
    namespace: &Namespace,
    catalog: &Catalog,
    selection: &Selection,
    among: Option<&[String]>,
) -> Result<Vec<Tool>, EngineError> {
    let not_found = |names| EngineError::ToolsNotFound { namespace: namespace.clone(), names };
    let selected = catalog.select_among(selection, among).map_err(|unknown| not_found(unknown.0))?;
    Ok(selected.into_iter().cloned().collect())
}

/// The input with its parameters substituted.
fn fill_in(text: &str, parameters: &BTreeMap<String, String>) -> Result<String, EngineError> {
    let template = Template::parse(text).map_err(EngineError::InputTemplate)?;
    template.render(|name| parameters.get(name).map(String::as_str)).map_err(|error| match error {
        RenderError::Missing(missing) => EngineError::MissingParameters(missing),
        RenderError::TooLarge(bytes) => EngineError::InputTooLarge(bytes),
    })
}

/// The last user message: what lists show of a conversation.
fn last_user_text(messages: &[Message]) -> String {
    let last = messages.iter().rev().find_map(|message| match message {
        Message::User(text) => Some(text.clone()),
        _ => None,
    });
    last.unwrap_or_default()
}

/// Compiles schemas in order until their patterns exceed the total limit; the request is then rejected for that.
pub(crate) fn compile_all(schemas: &SchemaCache, sources: &[Arc<Value>]) {
    let mut pattern_bytes = 0;
    for source in sources {
        pattern_bytes += match schemas.compile_or_refuse(json::content_hash(source), source) {
            Ok(schema) => schema.pattern_bytes(),
            Err(refusal) => refusal.pattern_bytes,
        };
        if pattern_bytes > REQUEST_PATTERN_BYTES {
            return;
        }
    }
}

fn check_arguments(toolset: &Toolset, name: &str, arguments: &str) -> Result<(), EngineError> {
    let Some(member) = toolset.get(name) else { return Ok(()) };
    let schema = member.schema().map_err(|source| EngineError::ToolUnusable { tool: name.to_owned(), source })?;
    match schema.check_arguments(arguments) {
        Ok(_) => Ok(()),
        Err(violations) => Err(EngineError::InvalidArguments { tool: name.to_owned(), violations }),
    }
}
