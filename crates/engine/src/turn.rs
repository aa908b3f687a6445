//! One turn of the model: ask, listen, check what it wants.

use std::sync::Arc;

use bosun_core::{
    Head, Transcript,
    machine::{self, Asked, Reply, Way},
    tool::toolset::Toolset,
};

use crate::{
    StoreError,
    desk::Live,
    driver::Driver,
    fault, large,
    model::{Deltas, Model, ModelCall, ModelError, ModelReply, ModelRequest},
};

/// A turn that breaks off after text has been seen is begun again this often.
const MAX_BROKEN_TURNS: u32 = 3;

struct Prepared {
    model: Arc<dyn Model>,
    request: ModelRequest,
    time_left: std::time::Duration,
}

/// Takes the turn that is due and appends what came of it.
pub(crate) async fn take(driver: &mut Driver) -> Result<(), StoreError> {
    driver.append(machine::start_turn).await?;
    fault::point("turn.started");
    let prepared = match prepare(driver).await? {
        Ok(prepared) => prepared,
        Err(error) => return fail(driver, &error).await,
    };
    let Prepared { model, request, time_left } = prepared;
    let (deltas, ended) = (DraftDeltas(&driver.live), driver.live.ended());
    let reply = tokio::select! {
        // The model first: one that answers at once costs no timer.
        biased;
        reply = ask(&*model, &request, &deltas) => reply,
        () = ended.cancelled() => return Ok(()),
        // The attempt is lost, not the query: the next process begins it again.
        () = driver.inner.draining.cancelled() => return Ok(()),
        () = tokio::time::sleep(time_left) => return driver.time_out().await,
    };
    fault::point("turn.replied");
    match reply {
        Ok(reply) => {
            driver.failed_turns = 0;
            let toolset = &request.toolset;
            driver
                .append(|head| {
                    let calls = reply.calls.into_iter().map(|call| check(toolset, head, call)).collect();
                    let reply = Reply { text: reply.text, calls, usage: reply.usage };
                    machine::end_turn(head, driver.inner.clock.now(), reply)
                })
                .await?;
            fault::point("turn.ended");
            Ok(())
        }
        Err(ModelError::Incomplete(reason)) if driver.failed_turns + 1 < MAX_BROKEN_TURNS => {
            driver.failed_turns += 1;
            tracing::warn!(query = %driver.live.key.1, reason, "model's answer broke off, asking again");
            Ok(())
        }
        Err(error) => fail(driver, &error).await,
    }
}

async fn fail(driver: &Driver, error: &ModelError) -> Result<(), StoreError> {
    driver.append(|head| machine::fail(head, error.code(), error.to_string())).await?;
    Ok(())
}

#[tracing::instrument(name = "model.reply", skip_all, fields(query = %request.query, turn = request.turn))]
async fn ask(model: &dyn Model, request: &ModelRequest, deltas: &dyn Deltas) -> Result<ModelReply, ModelError> {
    model.reply(request, deltas).await
}

async fn prepare(driver: &Driver) -> Result<Result<Prepared, ModelError>, StoreError> {
    let inner = &driver.inner;
    let (head, transcript) = {
        let locked = driver.live.lock(&*inner.store).await?;
        let Some(state) = locked.state() else { return Ok(Err(gone())) };
        driver.live.start_draft(state.head.turn, state.head.attempt);
        (Arc::clone(&state.head), Arc::clone(&state.transcript))
    };
    let Some(model) = inner.resources.registry().model(&head.namespace, &transcript.spec.model).cloned() else {
        return Ok(Err(ModelError::Misconfigured(format!(
            "model `{}` does not exist any more",
            transcript.spec.model
        ))));
    };
    let toolset = match toolset(driver, &transcript).await? {
        Ok(toolset) => toolset,
        Err(error) => return Ok(Err(error)),
    };
    Ok(Ok(Prepared {
        model,
        time_left: head.limits.query_timeout.saturating_sub(head.clock.spent(inner.clock.now())),
        request: ModelRequest {
            query: head.uid,
            turn: head.turn,
            messages: transcript.messages(&large::showing(&*inner.blobs, &toolset, &transcript).await?),
            toolset,
            tools_allowed: !head.tools_spent,
        },
    }))
}

fn gone() -> ModelError {
    ModelError::Misconfigured("the query is gone".into())
}

/// The toolset that was frozen at submit.
pub(crate) async fn toolset(
    driver: &Driver,
    transcript: &Transcript,
) -> Result<Result<Arc<Toolset>, ModelError>, StoreError> {
    let inner = &driver.inner;
    let hash = transcript.spec.toolset;
    if let Some(toolset) = inner.toolsets.get(hash) {
        return Ok(Ok(toolset));
    }
    let Some(document) = inner.store.document(hash).await? else {
        return Ok(Err(ModelError::Misconfigured(format!("toolset {hash} is not in the store"))));
    };
    match Toolset::from_document(&document) {
        Ok(toolset) => Ok(Ok(inner.toolsets.share(toolset.sharing(&inner.schemas)))),
        Err(error) => Ok(Err(ModelError::Misconfigured(format!("toolset {hash} is not readable: {error}")))),
    }
}

/// Holds a call against its tool: it must exist, and its arguments must be strict JSON that fits.
fn check(toolset: &Toolset, head: &Head, call: ModelCall) -> Asked {
    let ModelCall { provider_id, alias, arguments: written } = call;
    let refused = |tool: String, alias, written, code: &str, message| Asked {
        provider_id: provider_id.clone(),
        tool,
        alias,
        arguments: serde_json::Value::Null,
        written: Some(written),
        dropped: Vec::new(),
        deprecated: None,
        way: Way::Refused { code: code.into(), message },
    };
    let Some(member) = toolset.by_alias(&alias) else {
        let message = format!("there is no tool `{alias}`; use one of the tools that are listed");
        return refused(alias.clone(), alias, written, "unknown_tool", message);
    };
    let tool = &member.tool;
    let checked = match member.schema() {
        Ok(schema) => schema.check_arguments(&written),
        Err(error) => {
            let message = format!("the parameters of this tool cannot be checked: {error}");
            return refused(tool.name.clone(), alias, written, "invalid_schema", message);
        }
    };
    match checked {
        Ok(arguments) => {
            let way = if tool.is_external() {
                Way::Outside {
                    timeout: tool.timeout.unwrap_or(head.limits.external_timeout).min(head.limits.external_timeout),
                }
            } else {
                Way::Inside { repeatable: tool.is_safe_to_repeat() }
            };
            let dropped = arguments.dropped.clone();
            let arguments = arguments.into_value();
            let compact = arguments.to_string();
            let written = Some(written).filter(|text| *text != compact);
            Asked {
                provider_id: provider_id.clone(),
                tool: tool.name.clone(),
                alias,
                arguments,
                written,
                dropped,
                deprecated: tool.deprecation_warning(),
                way,
            }
        }
        Err(violations) => {
            let sentences: Vec<_> = violations.iter().map(|violation| violation.message.as_str()).collect();
            refused(tool.name.clone(), alias, written, "invalid_arguments", sentences.join("; "))
        }
    }
}

struct DraftDeltas<'a>(&'a Live);

impl Deltas for DraftDeltas<'_> {
    fn push(&self, text: &str) {
        self.0.push_delta(text);
    }
}
