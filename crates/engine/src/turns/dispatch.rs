//! Dispatch of inside calls: all of a turn at once, each started and finished in the journal.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bosun_core::{
    Binding, CallId, Head, Outcome, QueryUid, Tool, Toolset, Transcript, conversation::History, machine::outcome_code,
    transcript::PendingCall,
};
use futures_util::{
    StreamExt,
    future::poll_immediate,
    stream::{self, FuturesUnordered},
};
use serde_json::Value;
use tracing::Instrument as _;

use crate::{
    Results, StoreError,
    background::detached::DetachedWork,
    engine::{
        large_results,
        tree::{self, ChildCall},
    },
    fault,
    queries::{journal_log, live::LockedQuery},
    runner::{InsideCall, RunContext, RunReply},
    turns::driver::{Calls, Driver},
    turns::progress::CallProgress,
    turns::result_cache::{CallingQuery, ResultKey},
    turns::spans,
    turns::team::EarlierText,
    turns::turn,
};

struct PreparedCall {
    query: QueryUid,
    call: InsideCall,
    repeatable: bool,
    timeout: Duration,
    transcript: Arc<Transcript>,
    toolset: Arc<Toolset>,
    /// Set if the call runs elsewhere already, and is only to be polled.
    pending: Option<PendingCall>,
    /// Set if a person has answered its question.
    answer: Option<Arc<Value>>,
    /// Set if its result may be cached.
    cached_under: Option<ResultKey>,
}

/// Runs calls concurrently, and appends each outcome as it arrives.
pub(crate) async fn run(driver: &mut Driver, Calls { ready, started }: Calls) -> Result<(), StoreError> {
    let (ended, stopped) = (driver.ended.clone(), driver.inner.stopped.clone());
    let mut outcomes = Vec::new();
    let mut failure = None;
    {
        let driver = &*driver;
        let mut time_out = pin!(driver.time_out());
        let count = started.len() + ready.len();
        // First those whose start must be durable.
        let calls = ready.into_iter().map(|call| (call, false)).chain(started.into_iter().map(|call| (call, true)));
        let calls = calls.map(|(call, is_started)| run_one(driver, call, is_started));
        // A single call needs no `FuturesUnordered`, which would allocate.
        let mut running = pin!(if count > 1 {
            calls.collect::<FuturesUnordered<_>>().left_stream()
        } else {
            stream::iter(calls).then(|call| call).right_stream()
        });
        loop {
            let finished = tokio::select! {
                // Calls are polled first: those that end at once cost no timer.
                biased;
                finished = running.next() => finished,
                () = ended.cancelled() => break,
                () = stopped.cancelled() => break,
                timed_out = &mut time_out => {
                    failure = timed_out.err();
                    break;
                }
            };
            match finished {
                None => break,
                Some((outcome, Ok(()))) => outcomes.extend(outcome),
                // The others run on: their side effects cannot be undone, and their outcomes can be appended later.
                Some((outcome, Err(error))) => {
                    outcomes.extend(outcome);
                    failure = Some(error);
                }
            }
        }
    }
    driver.finished.extend(outcomes);
    failure.map_or(Ok(()), Err)
}

/// The outcome of a call, and whether it was recorded.
type Ran = (Option<(CallId, Arc<Outcome>)>, Result<(), StoreError>);

/// Starts one call unless it is started, runs it and records its outcome; returns the outcome even if that failed.
async fn run_one(driver: &Driver, id: CallId, is_started: bool) -> Ran {
    let started = if is_started { prepare(driver, id).await } else { start(driver, id).await };
    let started = match started {
        Ok(started) => started,
        Err(error) => return (None, Err(error)),
    };
    let mut cached_under = None;
    let outcome = match started {
        CallStart::Run(prepared) if tree::asked(&prepared.call.tool.binding).is_some() => {
            match delegate(driver, &prepared).await {
                Ok(None) => return (None, Ok(())),
                Ok(Some(outcome)) => outcome,
                Err(error) => return (None, Err(error)),
            }
        }
        CallStart::Run(mut prepared) => {
            // What is sent to a runner that continues a call elsewhere cannot be taken back: neither its start nor an answer.
            let is_sent_on = match (&prepared.pending, &prepared.answer) {
                (None, _) => prepared.call.tool.binding.is_resumed_by_runner(),
                (Some(_), answer) => answer.is_some(),
            };
            if is_sent_on && let Err(error) = make_start_durable(driver).await {
                return (None, Err(error));
            }
            cached_under = prepared.cached_under.take();
            // With an answer, the call continues.
            let pending = prepared.pending.as_ref().filter(|_| prepared.answer.is_none());
            let deadline = pending.map(|pending| pending.deadline);
            match perform(driver, *prepared).await {
                RunReply::Done(outcome) => outcome,
                RunReply::Pending { handle, poll_at } => {
                    fault::point("call.pending");
                    return (None, driver.leave_pending(id, Arc::new(handle), poll_at, deadline).await);
                }
                RunReply::NeedsInput { handle, question } => {
                    fault::point("call.pending");
                    return (None, driver.ask_person(id, Arc::new(handle), Arc::new(question)).await);
                }
            }
        }
        CallStart::Refused(outcome) => outcome,
        CallStart::Nothing => return (None, Ok(())),
    };
    fault::point("call.ran");
    let outcome = Arc::new(outcome);
    let (outcome, recorded) = match large_results::keep(&*driver.inner.blobs, &outcome).await {
        Ok(kept) => (Arc::clone(&kept), driver.finish(id, kept).await),
        Err(error) => (outcome, Err(error)),
    };
    if let Some(key) = cached_under.filter(|_| recorded.is_ok()) {
        driver.inner.result_cache.insert(key, &outcome, driver.inner.clock.monotonic());
    }
    fault::point("call.finished");
    (Some((id, outcome)), recorded)
}

/// Gives a call of an agent or a team a query of its own, and leaves it waiting for the end of that. The returned
/// outcome is that of a call that could not be given one.
async fn delegate(driver: &Driver, prepared: &PreparedCall) -> Result<Option<Outcome>, StoreError> {
    let PreparedCall { call, transcript, toolset, .. } = prepared;
    // A turn that a failed write undoes may make another call under the same id, which must not find this child.
    let Some(parent) = make_start_durable(driver).await? else { return Ok(None) };
    let inner = &driver.inner;
    // An agent that another agent calls does not read the history of the caller.
    let is_member = transcript.spec.team.is_some();
    let history = if is_member { turn::history(driver, transcript).await? } else { Ok(History::default()) };
    let earlier = match history {
        Ok(history) => EarlierText::new(&history.messages),
        Err(error) => return Ok(Some(Outcome::failure(outcome_code::CHILD_REFUSED, error.to_string()))),
    };
    let child = ChildCall {
        parent,
        transcript: Arc::clone(transcript),
        toolset: Arc::clone(toolset),
        earlier,
        id: call.id,
        tool: Arc::clone(&call.tool),
    };
    let delegated = Arc::clone(inner).delegate(Arc::clone(&driver.live), child);
    Ok(DetachedWork::new(inner.tasks.track_future(delegated)).await?.err())
}

/// Makes the start of a call durable, and with it everything before; returns the head. `None` if the query is gone.
async fn make_start_durable(driver: &Driver) -> Result<Option<Arc<Head>>, StoreError> {
    let (head, position) = {
        let locked = driver.lock().await?;
        let Some(state) = locked.as_ref().and_then(LockedQuery::state) else { return Ok(None) };
        (Arc::clone(&state.head), state.position)
    };
    driver.inner.make_durable(&driver.live, position).await?;
    Ok(Some(head))
}

enum CallStart {
    Run(Box<PreparedCall>),
    /// It cannot be run at all; the model gets the reason.
    Refused(Outcome),
    /// It is no longer ready.
    Nothing,
}

/// Marks the call as started, durably if it must never be started twice.
async fn start(driver: &Driver, id: CallId) -> Result<CallStart, StoreError> {
    fault::point("call.starting");
    let position = driver.append(|head| bosun_core::machine::start_call(head, id)).await?;
    let prepared = prepare(driver, id).await?;
    if let CallStart::Run(prepared) = &prepared
        && !prepared.repeatable
    {
        driver.inner.make_durable(&driver.live, position).await?;
    }
    fault::point("call.started");
    Ok(prepared)
}

async fn prepare(driver: &Driver, id: CallId) -> Result<CallStart, StoreError> {
    let (head, transcript) = {
        let locked = driver.lock().await?;
        let Some(state) = locked.as_ref().and_then(LockedQuery::state) else { return Ok(CallStart::Nothing) };
        (state.head.clone(), state.transcript.clone())
    };
    let (Some(found), Some(bosun_core::head::CallState::Started { repeatable, attempt })) =
        (transcript.call(id), head.call(id).map(|call| call.state))
    else {
        return Ok(CallStart::Nothing);
    };
    let (asked, arguments) = (Arc::clone(&found.asked), Arc::clone(found.arguments()));
    let (pending, answer) = (found.pending.clone(), found.answer.clone());
    let toolset = match turn::toolset(driver, &transcript).await? {
        Ok(toolset) => toolset,
        Err(error) => return Ok(CallStart::Refused(Outcome::failure(error.code(), error.to_string()))),
    };
    let Some(tool) = toolset.get(&asked.tool).map(|member| Arc::clone(&member.tool)) else {
        let message = format!("tool `{}` is not in the query's toolset", asked.tool);
        return Ok(CallStart::Refused(Outcome::failure(outcome_code::UNKNOWN_TOOL, message)));
    };
    let query = CallingQuery::new(&head.namespace, head.uid, &transcript);
    Ok(CallStart::Run(Box::new(PreparedCall {
        query: head.uid,
        repeatable,
        cached_under: query.key(&tool, &asked.arguments),
        timeout: call_timeout(&tool, head.limits.tool_timeout, driver.inner.settings.ceilings.tool_timeout),
        call: InsideCall {
            namespace: head.namespace.clone(),
            id,
            tool,
            arguments,
            attempt,
            results: Results::of(Arc::clone(&transcript), Arc::clone(&driver.inner.blobs)),
        },
        pending,
        answer,
        toolset,
        transcript,
    })))
}

/// How long a call may take without progress: the tool's own timeout up to the ceiling, or else the query's limit.
fn call_timeout(tool: &Tool, limit: Duration, ceiling: Duration) -> Duration {
    let own = tool.timeout.map_or(limit, |own| own.min(limit.max(ceiling)));
    match tool.binding {
        // The runner applies a shorter one to the silence of the server, and cancels the request there.
        Binding::Mcp { .. } => own.max(limit),
        _ => own,
    }
}

async fn perform(driver: &Driver, prepared: PreparedCall) -> RunReply {
    let span = spans::call(&driver.inner, &driver.live, &prepared.call);
    let collected = driver.inner.settings.exports_spans.then(|| span.clone());
    let reply = run_inside(driver, prepared).instrument(span).await;
    if let (Some(span), RunReply::Done(outcome)) = (collected, &reply) {
        spans::finished(&span, outcome);
    }
    reply
}

async fn run_inside(driver: &Driver, prepared: PreparedCall) -> RunReply {
    let PreparedCall { query, call, timeout, transcript, pending, answer, .. } = prepared;
    let began = Instant::now();
    let kind = call.tool.binding.kind();
    let Some(runner) = driver.inner.resources.registry().runner(kind).cloned() else {
        let name = &call.tool.name;
        let message = format!("`{name}` is a tool of type `{kind}`, which this version of the server does not run");
        return Outcome::failure(outcome_code::NO_RUNNER, message).into();
    };
    let progress = Arc::new(CallProgress::new(&driver.live, &call, timeout));
    let context = RunContext::of_query(
        query,
        transcript.by.clone(),
        Arc::clone(&transcript.spec),
        transcript.spec.trace.clone(),
        timeout,
        driver.ended.clone(),
        Arc::clone(&progress) as _,
    );
    let mut running = match (&pending, &answer) {
        (None, _) => runner.run(&call, &context),
        (Some(pending), None) => runner.poll(&call, &pending.handle, &context),
        (Some(pending), Some(answer)) => runner.answer(&call, &pending.handle, answer, &context),
    };
    // A tool that answers at once costs no timer.
    let reply = match poll_immediate(&mut running).await {
        Some(reply) => Ok(reply),
        None => progress.limit(running).await,
    };
    let reply = reply.unwrap_or_else(|_| {
        let message = format!("Tool execution timeout: no answer within {timeout:?}");
        Outcome::failure(outcome_code::TOOL_TIMEOUT, message).into()
    });
    if let RunReply::Done(outcome) = &reply {
        let took = began.elapsed();
        driver.inner.metrics.call_ran(&call.tool.binding, outcome, took);
        journal_log::ran(&driver.live.key, &call, outcome, took);
    }
    reply
}
