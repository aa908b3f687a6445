//! One turn of the model: send the request, stream the answer, validate the calls.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bosun_core::{
    Binding, Head, Tool, Transcript,
    ceiling::{ARGUMENT_BYTES, REPLY_TEXT_BYTES},
    conversation::History,
    json,
    machine::{self, AskedByModel, CallDisposition, ModelTurnReply, OutputCheck, failure_code, outcome_code},
    query::{Spec, TargetKind},
    result_rendering::ResultRenderer,
    schema::Schema,
    team::TeamPlan,
    tool::{
        Confirm,
        missing::{MissingParameter, ParameterRequest, REQUEST_MISSING_PARAMETERS, missing_parameters},
        toolset::{ToolSources, Toolset, ToolsetMember},
    },
    transcript::{Message, SentMessages, Turn},
    tree::MAX_DEPTH,
};
use tracing::Instrument as _;

use crate::{
    StoreError,
    engine::{Inner, large_results, tree},
    fault,
    model::{AnswerFormat, Deltas, Model, ModelCall, ModelError, ModelReply, ModelRequest},
    queries::live::LiveQuery,
    turns::documents,
    turns::driver::{Driver, StartedTurn},
    turns::filtered,
    turns::result_cache::CallingQuery,
    turns::spans,
    turns::team::{self, EarlierText, TeamTurn},
    turns::terminate,
    turns::tool_target::{self, ToolTargetAnswer},
};

/// How often a turn that breaks off after text was streamed is retried.
const MAX_BROKEN_TURNS: u32 = 3;

enum PreparedTurn {
    Ask(Box<Question>),
    /// No model is asked: the answer is the result of a tool, or that of a team.
    Whole(Box<WholeReply>),
    /// No model is asked, and the tool or the member of the team has failed.
    Failed {
        code: String,
        message: String,
    },
}

/// An answer, and what it is checked against.
struct WholeReply {
    reply: ModelReply,
    toolset: Arc<Toolset>,
    /// The schema that the answer must match.
    schema: Option<Arc<Schema>>,
    /// What is added to the conversation if this is the last turn, without the answer itself.
    remembered: Option<Vec<Message>>,
}

struct Question {
    model: Arc<dyn Model>,
    request: ModelRequest,
    /// The turns that the request includes.
    turns: Vec<Arc<Turn>>,
    /// The schema that the answer must match.
    schema: Option<Arc<Schema>>,
    /// What is added to the conversation if this is the last turn, without the answer itself.
    remembered: Option<Vec<Message>>,
    /// Set if the model is the selector of a team.
    selects: Option<Selects>,
}

/// What the selector of a team chooses from.
struct Selects {
    choices: Vec<String>,
    transcript: Arc<Transcript>,
    /// The members as tools.
    toolset: Arc<Toolset>,
}

/// Runs a turn that has begun and appends its outcome.
pub(crate) async fn take(driver: &mut Driver, begun: StartedTurn) -> Result<(), StoreError> {
    let StartedTurn { head, transcript, ended } = begun;
    fault::point("turn.started");
    let sent = mem::take(&mut driver.sent);
    let prepared = prepare(driver, sent, &head, &transcript).await?;
    let query = CallingQuery::new(&head.namespace, head.uid, &transcript);
    let tree = head.is_in_tree().then(|| Arc::clone(&head));
    // So that the next appender does not have to copy them.
    drop((head, transcript));
    let question = match prepared {
        Ok(PreparedTurn::Ask(question)) => *question,
        Ok(PreparedTurn::Failed { code, message }) => {
            return driver.append(|head| machine::fail(head, code, shortened(message))).await.map(|_| ());
        }
        Ok(PreparedTurn::Whole(last)) => return end(driver, *last, query, tree).await,
        Err(error) => return fail(driver, &error).await,
    };
    let Question { model, request, turns, schema, remembered, selects } = question;
    let spec = Arc::clone(&query.spec);
    let name = &spec.model;
    // The other queries of its tree may have used the rest of the budget: then no model is asked.
    if let Some(head) = &tree
        && driver.fail_if_spent(head).await?
    {
        return Ok(());
    }
    let (metrics, began) = (Arc::clone(&driver.inner.metrics), Instant::now());
    let reply = tokio::select! {
        // The model is polled first: one that answers at once costs no timer.
        biased;
        reply = ask(driver, &*model, name, &request) => reply,
        () = ended.cancelled() => return Ok(()),
        // The attempt is lost, not the query: the next process retries it.
        () = driver.inner.draining.cancelled() => return Ok(()),
        timed_out = driver.time_out() => return timed_out,
    };
    fault::point("turn.replied");
    metrics.model_asked(name, reply.as_ref().ok(), began.elapsed());
    let ModelRequest { messages, toolset, .. } = request;
    driver.sent = SentMessages { messages, turns };
    match reply {
        Ok(reply) => {
            driver.failed_turns = 0;
            let Some(Selects { choices, transcript, toolset: members }) = selects else {
                return end(driver, WholeReply { reply, toolset, schema, remembered }, query, tree).await;
            };
            driver.sent = SentMessages::default();
            match team::chosen(reply, &choices, &transcript, &members) {
                Ok(reply) => end(driver, WholeReply { reply, toolset: members, schema, remembered }, query, tree).await,
                Err(message) => {
                    let code = failure_code::NO_SUCH_MEMBER;
                    driver.append(|head| machine::fail(head, code, shortened(message))).await.map(|_| ())
                }
            }
        }
        Err(ModelError::Incomplete(reason)) if driver.failed_turns + 1 < MAX_BROKEN_TURNS => {
            driver.failed_turns += 1;
            metrics.model_retried(name);
            tracing::warn!(query = %driver.live.key.1, reason, "model's answer broke off, asking again");
            Ok(())
        }
        Err(error) => fail(driver, &error).await,
    }
}

/// Appends the outcome of an answer.
async fn end(
    driver: &mut Driver,
    whole: WholeReply,
    query: CallingQuery,
    tree: Option<Arc<Head>>,
) -> Result<(), StoreError> {
    let WholeReply { reply, toolset, schema, remembered } = whole;
    // Checked for every model, whether or not its client limits the size itself.
    if let Err(error) = reply.check_size() {
        return fail(driver, &error).await;
    }
    let remembered = remembered.map(|mut remembered| {
        let (text, provider) = (reply.text.clone(), reply.provider.clone());
        remembered.push(Message::Assistant { text, calls: Vec::new(), provider });
        remembered.into()
    });
    // Before the query is locked: callers that want the lock, and perhaps a worker, would wait for the check.
    let mut reply = if is_heavy(&reply, &toolset, schema.as_deref()) {
        let (toolset, spec) = (Arc::clone(&toolset), Arc::clone(&query.spec));
        driver.inner.offload.run(move || checked(reply, &toolset, &spec, schema.as_deref())).await
    } else {
        checked(reply, &toolset, &query.spec, schema.as_deref())
    };
    driver.inner.answer_from_cache(&query, &toolset, &mut reply.calls);
    let ceilings = driver.inner.settings.ceilings;
    // One turn of a tree ends at a time: otherwise two could spend what is left of its budget.
    let inner = Arc::clone(&driver.inner);
    let _one_at_a_time = match &tree {
        Some(head) => Some(inner.tree_turns.lock(head.lineage.as_ref().map_or(head.uid, |one| one.root)).await),
        None => None,
    };
    if let Some(head) = tree {
        reply.tree = inner.tree_budget(&head).await?.map(|(tree, _)| tree);
    }
    driver
        .end_turn(remembered, |head, now| {
            let mut reply = reply;
            for call in &mut reply.calls {
                let clamp = |timeout: &mut Duration, limit: Duration, ceiling: Duration| {
                    *timeout = if *timeout == NO_TIMEOUT { limit } else { (*timeout).min(limit.max(ceiling)) };
                };
                match &mut call.way {
                    CallDisposition::Outside { timeout } | CallDisposition::Worker { timeout, .. } => {
                        clamp(timeout, head.limits.external_timeout, ceilings.external_timeout);
                    }
                    CallDisposition::Approval { timeout, .. } | CallDisposition::Parameters { timeout } => {
                        clamp(timeout, head.limits.approval_timeout, ceilings.approval_timeout);
                    }
                    CallDisposition::Inside { .. }
                    | CallDisposition::Refused { .. }
                    | CallDisposition::Cached { .. } => {}
                }
            }
            machine::end_turn(head, now, reply)
        })
        .await?;
    fault::point("turn.ended");
    Ok(())
}

/// A placeholder for the query's own limit until that is known.
const NO_TIMEOUT: Duration = Duration::MAX;

/// The [effort](Schema::effort) that is spent on a worker of the runtime; more goes to the blocking pool.
pub(crate) const INLINE_EFFORT: u64 = 50_000;

/// Whether validating a reply takes too long for a worker.
fn is_heavy(reply: &ModelReply, toolset: &Toolset, schema: Option<&Schema>) -> bool {
    let text = reply.text.as_ref().map_or(0, String::len);
    let mut effort = schema.map_or(0, |schema| schema.effort(text));
    for call in &reply.calls {
        let Some(member) = toolset.by_alias(&call.alias) else { continue };
        let Some(more) = member.effort(call.arguments.len()) else { return true };
        effort = effort.saturating_add(more);
    }
    effort > INLINE_EFFORT
}

/// Validates the calls and the answer of a reply.
fn checked(reply: ModelReply, toolset: &Toolset, spec: &Spec, schema: Option<&Schema>) -> ModelTurnReply {
    let output = schema.map(|schema| check_output(schema, reply.text.as_deref())).unwrap_or_default();
    let ModelReply { text, calls, usage, provider, answered_by } = reply;
    let calls = calls.into_iter().map(|call| check(toolset, spec, call)).collect();
    ModelTurnReply { text, calls, usage, output, provider, answered_by, tree: None }
}

/// The message of a failure is part of an event, too, and may quote untrusted text.
const MESSAGE_BYTES: usize = 16 * 1024;

fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES));
        message.push('…');
    }
    message
}

/// A schema up to this size is repeated to a model whose answer did not match it.
const SCHEMA_REPEATED: usize = 8 * 1024;

/// Validates an answer against its schema.
fn check_output(schema: &Schema, text: Option<&str>) -> OutputCheck {
    let text = text.map(str::trim).unwrap_or_default();
    let faults = match schema.check_arguments(text) {
        // A missing answer is not an empty object.
        _ if text.is_empty() => "there is no answer".to_owned(),
        Ok(arguments) if arguments.dropped.is_empty() => return OutputCheck::Fits,
        Ok(arguments) => return OutputCheck::FitsAs(arguments.into_value()),
        Err(violations) => violations.iter().map(|violation| violation.message.as_str()).collect::<Vec<_>>().join("; "),
    };
    let source = schema.source().to_string();
    let repeated = if source.len() <= SCHEMA_REPEATED { format!(": {source}") } else { ".".to_owned() };
    OutputCheck::Misfits(format!(
        "This answer is not what was asked for: {faults}\nAnswer again with one JSON object that matches its \
         JSON Schema, and nothing else{repeated}"
    ))
}

async fn fail(driver: &Driver, error: &ModelError) -> Result<(), StoreError> {
    driver.append(|head| machine::fail(head, error.code(), shortened(error.to_string()))).await?;
    Ok(())
}

async fn ask(driver: &Driver, model: &dyn Model, name: &str, request: &ModelRequest) -> Result<ModelReply, ModelError> {
    let Driver { inner, live, .. } = driver;
    let span = spans::turn(inner, live, name, model.provider(), request);
    let collected = inner.settings.exports_spans.then(|| span.clone());
    let deltas = DraftDeltas { live, bytes: AtomicUsize::new(0) };
    let reply = model.reply(request, &deltas).instrument(span).await;
    if let Some(span) = collected {
        spans::replied(&span, &reply);
    }
    reply
}

/// Builds the next request from what the model has been `sent` and what is new.
async fn prepare(
    driver: &Driver,
    sent: SentMessages,
    head: &Head,
    transcript: &Arc<Transcript>,
) -> Result<Result<PreparedTurn, ModelError>, StoreError> {
    let inner = &driver.inner;
    let toolset = match toolset(driver, transcript).await? {
        Ok(toolset) => toolset,
        Err(error) => return Ok(Err(error)),
    };
    let spec = &transcript.spec;
    // A conversation and the answer of a tool are rendered from all turns.
    let all = spec.conversation.is_some() || spec.is_direct() || spec.target_kind == TargetKind::Team;
    let turns = if all { &transcript.turns } else { transcript.unsent_turns(&sent) };
    let mut renderer = large_results::renderer(&*inner.blobs, &head.name, &toolset, turns).await?;
    filtered::add(inner, &head.name, &toolset, turns, &mut renderer).await?;
    if let Some(plan) = &spec.team {
        return Ok(match history(driver, transcript).await? {
            Ok(history) => {
                let earlier = EarlierText::new(&history.messages);
                prepare_team(inner, plan, head, transcript, &earlier, toolset, &renderer)
            }
            Err(error) => Err(error),
        });
    }
    let schema = match &spec.output_schema {
        None => None,
        Some(source) => match inner.compiled(Arc::clone(source)).await {
            Ok(schema) => Some(schema),
            Err(error) => return Ok(Err(ModelError::Misconfigured(format!("`outputSchema` is invalid: {error}")))),
        },
    };
    if spec.is_direct() {
        // The steps of an agent behind a server are not known here.
        let remembered = spec.conversation.is_some().then(|| vec![Message::User(spec.input.clone())]);
        return Ok(Ok(match tool_target::answer(transcript, &toolset, &renderer) {
            ToolTargetAnswer::Reply(reply) => {
                PreparedTurn::Whole(Box::new(WholeReply { reply, toolset, schema, remembered }))
            }
            ToolTargetAnswer::Failed { code, message } => PreparedTurn::Failed { code, message },
        }));
    }
    let remembered = || spec.conversation.is_some().then(|| transcript.remembered(&renderer));
    if let Some(response) = terminate::response(transcript, &toolset, &renderer) {
        let reply = ModelReply { text: Some(response), ..ModelReply::default() };
        let last = WholeReply { reply, schema, remembered: remembered(), toolset };
        return Ok(Ok(PreparedTurn::Whole(Box::new(last))));
    }
    let history = match history(driver, transcript).await? {
        Ok(history) => history,
        Err(error) => return Ok(Err(error)),
    };
    let Some(model) = inner.resources.registry().model(&head.namespace, &spec.model).cloned() else {
        return Ok(Err(ModelError::Misconfigured(format!("model `{}` no longer exists", spec.model))));
    };
    let remembered = remembered();
    let SentMessages { messages, turns } = transcript.extend_sent(sent, &history.messages, &renderer);
    Ok(Ok(PreparedTurn::Ask(Box::new(Question {
        model,
        turns,
        request: ModelRequest {
            query: head.uid,
            turn: head.turn,
            messages,
            toolset,
            tools_allowed: !head.tools_spent,
            options: spec.options,
            trace: spans::trace_of_turn(inner, head, transcript),
            answer: spec
                .output_schema
                .as_ref()
                .map(|schema| AnswerFormat { name: format_name(head), schema: Arc::clone(schema) }),
        },
        schema,
        remembered,
        selects: None,
    }))))
}

/// The turn of a team: that of its next member, or that of the model that chooses it.
fn prepare_team(
    inner: &Inner,
    plan: &TeamPlan,
    head: &Head,
    transcript: &Arc<Transcript>,
    earlier: &EarlierText,
    toolset: Arc<Toolset>,
    renderer: &ResultRenderer,
) -> Result<PreparedTurn, ModelError> {
    let spec = &transcript.spec;
    let (choices, messages) = match team::turn(plan, transcript, earlier, &toolset, renderer) {
        TeamTurn::Reply(reply) => {
            // The intermediate texts of the members are in their own queries.
            let remembered = spec.conversation.is_some().then(|| vec![Message::User(spec.input.clone())]);
            return Ok(PreparedTurn::Whole(Box::new(WholeReply { reply, toolset, schema: None, remembered })));
        }
        TeamTurn::Failed { code, message } => return Ok(PreparedTurn::Failed { code, message }),
        TeamTurn::Ask { choices, messages } => (choices, messages),
    };
    let Some(model) = inner.resources.registry().model(&head.namespace, &spec.model).cloned() else {
        return Err(ModelError::Misconfigured(format!("model `{}` no longer exists", spec.model)));
    };
    Ok(PreparedTurn::Ask(Box::new(Question {
        model,
        turns: Vec::new(),
        request: ModelRequest {
            query: head.uid,
            turn: head.turn,
            messages,
            // A selector answers with a name.
            toolset: Arc::new(Toolset::merge(ToolSources::Catalog, Vec::new(), Vec::new())),
            tools_allowed: false,
            options: spec.options,
            trace: spans::trace_of_turn(inner, head, transcript),
            answer: None,
        },
        schema: None,
        remembered: None,
        selects: Some(Selects { choices, transcript: Arc::clone(transcript), toolset }),
    })))
}

/// ARK's name of the format of an agent's answers.
fn format_name(head: &Head) -> String {
    let name = format!("namespace-{}-agent-{}", head.namespace, head.target);
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    name.chars().take(64).map(|letter| if fits(letter) { letter } else { '-' }).collect()
}

/// The toolset that was frozen at submission.
pub(crate) async fn toolset(
    driver: &Driver,
    transcript: &Transcript,
) -> Result<Result<Arc<Toolset>, ModelError>, StoreError> {
    let inner = &driver.inner;
    let hash = transcript.spec.toolset;
    if let Some(toolset) = inner.toolsets.get(hash) {
        return Ok(Ok(toolset));
    }
    let Some(document) = documents::read(driver, hash).await? else {
        return Ok(Err(ModelError::Misconfigured(format!("toolset {hash} is not in the store"))));
    };
    match Toolset::from_document(&document) {
        Ok(toolset) => Ok(Ok(inner.toolsets.share(toolset.sharing(&inner.schemas)))),
        Err(error) => Ok(Err(ModelError::Misconfigured(format!("toolset {hash} is not readable: {error}")))),
    }
}

/// The history of the conversation, as it was frozen at submission.
pub(crate) async fn history(
    driver: &Driver,
    transcript: &Transcript,
) -> Result<Result<History, ModelError>, StoreError> {
    let Some(hash) = transcript.spec.conversation.as_ref().and_then(|conversation| conversation.history) else {
        return Ok(Ok(History::default()));
    };
    let Some(document) = documents::read(driver, hash).await? else {
        return Ok(Err(ModelError::Misconfigured(format!("history {hash} is not in the store"))));
    };
    let read = History::from_document(&document);
    Ok(read.map_err(|error| ModelError::Misconfigured(format!("history {hash} is not readable: {error}"))))
}

/// Validates a call: its tool must exist, and its arguments must be strict JSON that matches its parameters.
fn check(toolset: &Toolset, spec: &Spec, call: ModelCall) -> AskedByModel {
    let ModelCall { provider_id, alias, arguments: written } = call;
    let provider_id: Arc<str> = provider_id.into();
    let refused_with = |tool, alias, written, code: &str, message, details| AskedByModel {
        provider_id: Arc::clone(&provider_id),
        tool,
        alias,
        arguments: Arc::default(),
        written: Some(written),
        dropped: Vec::new(),
        deprecated: None,
        on_expired: None,
        way: CallDisposition::Refused { code: code.into(), message, details },
    };
    let refused = |tool, alias, written, code: &str, message| refused_with(tool, alias, written, code, message, None);
    let Some(member) = toolset.by_alias(&alias) else {
        let message = format!("there is no tool `{alias}`; use one of the tools that are listed");
        let alias: Arc<str> = alias.into();
        return refused(Arc::clone(&alias), alias, written, outcome_code::UNKNOWN_TOOL, message);
    };
    let ToolsetMember { tool, name, alias, .. } = member;
    let (name, alias) = (Arc::clone(name), Arc::clone(alias));
    let schema = match member.schema() {
        Ok(schema) => schema,
        Err(error) => {
            let message = format!("the parameters of this tool cannot be checked: {error}");
            return refused(name, alias, written, outcome_code::INVALID_SCHEMA, message);
        }
    };
    match schema.check_arguments(&written) {
        Ok(arguments) => {
            if tree::asked(&tool.binding).is_some() && spec.lineage.as_ref().is_some_and(|one| one.depth >= MAX_DEPTH) {
                let message = format!("agents have called agents {MAX_DEPTH} levels deep; answer with what you have");
                return refused(name, alias, written, outcome_code::DEPTH_LIMIT, message);
            }
            let mut way = disposition_of(tool);
            let dropped = arguments.dropped.clone();
            let mut arguments = arguments.into_value();
            // Planners leave empty texts and placeholders where an integration needs a value.
            let missing = match tool.binding {
                Binding::Nango(_) => missing_parameters(&schema, &arguments),
                _ => Vec::new(),
            };
            if !missing.is_empty() {
                let (message, details) = missing_result(&missing);
                return refused_with(name, alias, written, outcome_code::MISSING_PARAMETERS, message, Some(details));
            }
            if matches!(&tool.binding, Binding::Builtin { name } if name == REQUEST_MISSING_PARAMETERS) {
                match ParameterRequest::read(toolset, &arguments) {
                    Ok(request) => {
                        (arguments, way) = (request.describe(), CallDisposition::Parameters { timeout: NO_TIMEOUT });
                    }
                    Err(message) => return refused(name, alias, written, outcome_code::INVALID_ARGUMENTS, message),
                }
            }
            if let Err(message) = tool.fill_presets(&mut arguments, &spec.parameters) {
                return refused(name, alias, written, outcome_code::TOOL_FAILED, message);
            }
            let written = Some(written).filter(|text| !json::is_compact(text, &arguments));
            // `1e15` has four bytes, and more when it is serialised again.
            if let Some(text) = written.as_ref().filter(|_| json::compact_size(&arguments) > ARGUMENT_BYTES) {
                let message = format!("Arguments have more than {ARGUMENT_BYTES} bytes");
                return refused(name, alias, text.clone(), outcome_code::INVALID_ARGUMENTS, message);
            }
            AskedByModel {
                provider_id,
                tool: name,
                alias,
                arguments: Arc::new(arguments),
                written,
                dropped,
                deprecated: tool.deprecation_warning(),
                on_expired: tool.on_expired,
                way,
            }
        }
        Err(violations) => {
            let sentences: Vec<_> = violations.iter().map(|violation| violation.message.as_str()).collect();
            let message = shortened(sentences.join("; "));
            let missing = match json::parse(&written, json::JsonLimits::ARGUMENTS) {
                Ok(arguments) if violations.iter().all(|violation| violation.keyword == "required") => {
                    missing_parameters(&schema, &arguments)
                }
                _ => Vec::new(),
            };
            if missing.is_empty() {
                return refused(name, alias, written, outcome_code::INVALID_ARGUMENTS, message);
            }
            let (_, details) = missing_result(&missing);
            refused_with(name, alias, written, outcome_code::MISSING_PARAMETERS, message, Some(details))
        }
    }
}

/// Where a valid call goes. Timeouts are clamped to the query's limits when those are known.
fn disposition_of(tool: &Tool) -> CallDisposition {
    // The query of a call is created once, however often it is tried.
    let repeatable =
        tool.is_safe_to_repeat() || tree::asked(&tool.binding).is_some() || tool.binding.is_resumed_by_runner();
    let timeout = tool.timeout.unwrap_or(NO_TIMEOUT);
    if tool.is_external() && tool.claimable {
        CallDisposition::Worker { timeout, repeatable }
    } else if tool.is_external() {
        CallDisposition::Outside { timeout }
    } else if tool.confirm == Some(Confirm::Always) {
        CallDisposition::Approval { repeatable, timeout: tool.approval_timeout.unwrap_or(NO_TIMEOUT) }
    } else {
        CallDisposition::Inside { repeatable }
    }
}

/// What the model reads of a call that lacks parameters: a sentence for each, and the list as data.
fn missing_result(missing: &[MissingParameter]) -> (String, Arc<serde_json::Value>) {
    let sentence = |parameter: &MissingParameter| format!("Missing required parameter: {}", parameter.path);
    let sentences: Vec<_> = missing.iter().map(sentence).collect();
    (shortened(sentences.join("; ")), Arc::new(serde_json::json!({ "missing": missing })))
}

/// Streams text to the readers of a query, up to the size limit of a reply: beyond it the reply fails, and further text
/// is dropped.
struct DraftDeltas<'a> {
    live: &'a LiveQuery,
    bytes: AtomicUsize,
}

impl Deltas for DraftDeltas<'_> {
    fn push(&self, text: &str) {
        let more = json::escaped_size(text);
        if self.bytes.fetch_add(more, Ordering::Relaxed) + more <= REPLY_TEXT_BYTES {
            self.live.push_delta(text);
        }
    }
}
