//! Results that are too large for a journal: written as blobs first, then referred to.
//!
//! There is one order, wherever the bytes come from: the blob is durable before the entry that refers to it
//! is appended. Content that will not be referred to is not written, as far as that can be known in advance:
//! a result for a call that already has one is only compared. Blobs that a crash or a race leaves unreferenced
//! are garbage-collected.

use std::{sync::Arc, time::Duration};

use bosun_core::{
    Binding, CallId, Content, ContentHash, Namespace, Outcome, QueryName, Toolset,
    ceiling::BLOCKS_SHOWN_BYTES,
    content::{BadContent, Blocks, ContentCheck, ContentDescription, LARGEST_BYTES, Large, MediaType},
    machine::{self, Delivery, DeliveryState, DeliveryVerdict, outcome_code},
    result_rendering::{ImageBudget, RESULT_SHOWN, RenderedBlocks, ResultRenderer},
    transcript::Turn,
};
use bytes::{Bytes, BytesMut};

use crate::{
    EngineError, QueryKey, StoreError,
    background::clock_step::DELETES_AFTER,
    blob::{BlobDraft, Blobs},
    engine::results::READ_RESULT,
    engine::upload_limits::DraftPermit,
    engine::{Engine, Inner},
};

/// An unreferenced blob is kept for at least this long: the append that refers to it may still be under way.
pub const BLOB_GRACE: Duration = Duration::from_secs(3_600);
/// How often unreferenced blobs are collected.
const SWEEP_PERIOD: Duration = Duration::from_secs(3_600);
/// How many blobs are looked up in the store at a time.
const SWEEP_BATCH: usize = 256;
/// The chunks of an upload are buffered up to this size, so that each write is worth a switch to a blocking thread.
const STEP_BYTES: usize = 64 * 1024;

/// Content that has to be sealed as a blob before an entry may refer to it.
#[derive(Debug)]
struct PendingBlob {
    hash: ContentHash,
    bytes: Bytes,
}

/// Moves content that is too large for a journal out of the outcome, and puts a reference in its place.
fn extract_large(outcome: &mut Outcome) -> Option<PendingBlob> {
    let content = outcome.content_mut().filter(|content| content.is_too_large_inline())?;
    let (large, text) = content.as_blob()?;
    let (hash, bytes) = (large.hash, Bytes::from(text.into_owned()));
    *content = Content::Large(large);
    Some(PendingBlob { hash, bytes })
}

/// The hash that an outcome has once it is recorded.
pub(crate) fn recorded_hash(outcome: &Outcome) -> ContentHash {
    if !outcome.content().is_some_and(Content::is_too_large_inline) {
        return outcome.content_hash();
    }
    let mut recorded = outcome.clone();
    let _ = extract_large(&mut recorded);
    recorded.content_hash()
}

async fn seal(blobs: &dyn Blobs, pending: &PendingBlob) -> Result<(), StoreError> {
    let mut draft = blobs.begin().await?;
    draft.write(pending.bytes.clone()).await?;
    draft.seal(pending.hash).await
}

/// Makes the outcome of an inside call small enough for a journal.
pub(crate) async fn keep(blobs: &dyn Blobs, outcome: &Arc<Outcome>) -> Result<Arc<Outcome>, StoreError> {
    if !outcome.content().is_some_and(Content::is_too_large_inline) {
        return Ok(Arc::clone(outcome));
    }
    let outcome = Arc::clone(outcome);
    // Copying, writing and hashing tens of megabytes would block a worker of the runtime for too long.
    let work = tokio::task::spawn_blocking(move || {
        let mut outcome = Outcome::clone(&outcome);
        (extract_large(&mut outcome), outcome)
    });
    let (pending, outcome) = work.await.map_err(|error| StoreError::Unavailable(Box::new(error)))?;
    if let Some(pending) = pending {
        if pending.bytes.len() as u64 > LARGEST_BYTES {
            let message = format!(
                "the tool ran, but its result has {} bytes, more than the limit of {LARGEST_BYTES}",
                pending.bytes.len()
            );
            return Ok(Arc::new(Outcome::failure(outcome_code::RESULT_TOO_LARGE, message)));
        }
        seal(blobs, &pending).await?;
    }
    Ok(Arc::new(outcome))
}

/// How the results of these turns are shown to the model of their query.
pub(crate) async fn renderer(
    blobs: &dyn Blobs,
    query: &QueryName,
    toolset: &Toolset,
    turns: &[Arc<Turn>],
) -> Result<ResultRenderer, StoreError> {
    let is_pager = |binding: &Binding| matches!(binding, Binding::Builtin { name } if name == READ_RESULT);
    let pager = toolset.tools().iter().find(|member| is_pager(&member.tool.binding));
    let mut renderer =
        ResultRenderer { pager: pager.map(|member| Arc::clone(&member.alias)), ..ResultRenderer::default() };
    // Bounds the memory of images; the transcript drops those of older results from the messages by the same rule.
    let mut budget = ImageBudget::default();
    let calls = turns.iter().flat_map(|turn| &turn.calls);
    // The newest first: of images, these are shown.
    for large in calls.rev().filter_map(|call| call.result.as_ref()?.outcome.large()) {
        if large.media_type.is_blocks() {
            if large.size <= BLOCKS_SHOWN_BYTES as u64
                && !renderer.blocks.contains_key(&large.hash)
                && let Some(bytes) = read(blobs, query, large, BLOCKS_SHOWN_BYTES).await?
                && let Some(mut shown) = render(query, large, bytes).await?
            {
                budget.spend(&mut shown.images);
                renderer.blocks.insert(large.hash, shown);
            }
        } else if renderer.pager.is_none()
            && let Some(bytes) = read(blobs, query, large, RESULT_SHOWN).await?
        {
            let whole = str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
            renderer.excerpts.insert(large.hash, String::from_utf8_lossy(&bytes[..whole]).into_owned());
        }
    }
    Ok(renderer)
}

/// The first bytes of a large result; `None` if it is lost. The query can still continue with what is in its journal.
pub(crate) async fn read(
    blobs: &dyn Blobs,
    query: &QueryName,
    large: &Large,
    length: usize,
) -> Result<Option<Bytes>, StoreError> {
    match blobs.read(large.hash, 0, length).await {
        Err(error @ StoreError::DamagedBlob(_)) => {
            tracing::error!(%query, error = %error, "a large result cannot be shown to the model");
            Ok(None)
        }
        Ok(None) => {
            tracing::error!(%query, blob = %large.hash, "the blob of a large result is missing");
            Ok(None)
        }
        read => read,
    }
}

/// The content blocks of a blob; `None` if it does not have any.
async fn render(query: &QueryName, large: &Large, bytes: Bytes) -> Result<Option<RenderedBlocks>, StoreError> {
    // Parsing megabytes would block a worker of the runtime for too long.
    let work = tokio::task::spawn_blocking(move || {
        serde_json::from_slice::<Blocks>(&bytes).map(|blocks| RenderedBlocks::from(&blocks))
    });
    let rendered = work.await.map_err(|error| StoreError::Unavailable(Box::new(error)))?;
    if let Err(error) = &rendered {
        tracing::error!(%query, blob = %large.hash, error = %error, "a large result cannot be shown to the model");
    }
    Ok(rendered.ok())
}

/// The large contents of a delivery: moved out of the results, and sealed once it is certain that they are accepted.
///
/// Whether a result is accepted is decided with the query locked, and its blob must be sealed by then. So a delivery
/// decides, seals what is missing with the query unlocked, and decides again: a result that was refused the first time
/// may be accepted the second time, since the append that it conflicted with may have failed.
#[derive(Debug)]
pub(crate) struct LargeResults(Vec<LargeResult>);

#[derive(Debug)]
struct LargeResult {
    /// The index of its delivery.
    index: usize,
    large: Large,
    /// `None` if it was uploaded.
    pending: Option<PendingBlob>,
    is_kept: bool,
}

impl LargeResults {
    pub(crate) fn extract_large(deliveries: &mut [Delivery]) -> Self {
        let large = deliveries.iter_mut().enumerate().filter_map(|(index, delivery)| {
            let pending = extract_large(&mut delivery.outcome);
            let large = delivery.outcome.large()?.clone();
            Some(LargeResult { index, large, pending, is_kept: false })
        });
        Self(large.collect())
    }

    /// Whether no result is large: then deciding once is enough.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all content that these verdicts accept is sealed.
    pub(crate) fn are_kept(&self, verdicts: &[DeliveryVerdict]) -> bool {
        self.0.iter().all(|result| result.is_kept || !is_accepted(verdicts, result.index))
    }

    /// Seals the content that these verdicts accept.
    ///
    /// # Errors
    /// If it cannot be written; or if it was uploaded and its blob is missing: a dangling reference is worse than a
    /// failure.
    pub(crate) async fn keep(&mut self, blobs: &dyn Blobs, verdicts: &[DeliveryVerdict]) -> Result<(), StoreError> {
        for result in self.0.iter_mut().filter(|result| !result.is_kept && is_accepted(verdicts, result.index)) {
            match &result.pending {
                Some(pending) => seal(blobs, pending).await?,
                None if blobs.size(result.large.hash).await? == Some(result.large.size) => {}
                None => return Err(StoreError::MissingBlob(result.large.hash)),
            }
            result.is_kept = true;
        }
        Ok(())
    }
}

fn is_accepted(verdicts: &[DeliveryVerdict], index: usize) -> bool {
    matches!(verdicts.get(index), Some(DeliveryVerdict::Accepted(_)))
}

impl Inner {
    /// Removes old blobs that no query refers to.
    async fn sweep_blobs(&self) -> Result<usize, StoreError> {
        let mut removed = 0;
        // First the blobs, then the references: a reference that is made in between is to a blob that was sealed in
        // between, and that blob is within the grace period.
        let old = self.blobs.older_than(BLOB_GRACE).await?;
        for batch in old.chunks(SWEEP_BATCH) {
            let referred = self.store.referred(batch).await?;
            for hash in batch.iter().filter(|hash| !referred.contains(hash)) {
                // By a clock that has just been set ahead, every file is old.
                if self.clock_steps.steady_now(&*self.clock, DELETES_AFTER).is_none() {
                    return Ok(removed);
                }
                removed += usize::from(self.blobs.remove(*hash, BLOB_GRACE).await?);
            }
        }
        Ok(removed)
    }

    /// Collects unreferenced blobs until the engine drains.
    pub(crate) async fn sweep_blobs_periodically(self: Arc<Self>) {
        loop {
            match self.sweep_blobs().await {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "removed blobs that no query refers to"),
                Err(error) => tracing::warn!(error = %error, "unreferenced blobs cannot be collected"),
            }
            tokio::select! {
                () = tokio::time::sleep(SWEEP_PERIOD) => {}
                () = self.draining.cancelled() => return,
            }
        }
    }
}

/// A result that is being uploaded, too large to be held in memory.
pub struct Upload {
    media_type: MediaType,
    check: ContentCheck,
    description: ContentDescription,
    /// `None` if the bytes are only compared.
    draft: Option<(Box<dyn BlobDraft>, DraftPermit)>,
    /// Buffered, not written yet.
    step: BytesMut,
}

/// Why an upload was rejected. Nothing of it is kept.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error("a result may have at most {LARGEST_BYTES} bytes")]
    TooLarge,
    #[error(transparent)]
    Bad(#[from] BadContent),
    /// Too many uploads are under way.
    #[error(transparent)]
    Refused(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// How a result for `call`, of the query or of one below it, would be received now, durably.
    ///
    /// # Errors
    /// If the query does not exist or the store fails.
    pub async fn delivery_state(&self, key: &QueryKey, call: CallId) -> Result<DeliveryState, EngineError> {
        let owner = self.inner.owner_of_call(key, call).await?;
        let snapshot = self.get(&owner, None).await?;
        Ok(machine::delivery_state(&snapshot.head, self.inner.clock.now(), call))
    }

    /// Begins the upload of a result for a call with this state. Only the first result of a call is written to disk,
    /// and only a limited number of uploads may be under way.
    ///
    /// # Errors
    /// If a limit of concurrent uploads is reached.
    pub async fn upload(
        &self,
        namespace: &Namespace,
        call: CallId,
        delivery_state: DeliveryState,
        media_type: MediaType,
    ) -> Result<Upload, EngineError> {
        let draft = match delivery_state {
            DeliveryState::Open => {
                let permit = self.inner.drafts.begin(namespace, call)?;
                Some((self.inner.blobs.begin().await?, permit))
            }
            DeliveryState::Resolved | DeliveryState::Expired | DeliveryState::Cancelled | DeliveryState::Unknown => {
                None
            }
        };
        let check = ContentCheck::new(&media_type);
        Ok(Upload { media_type, check, description: ContentDescription::default(), draft, step: BytesMut::new() })
    }

    /// Removes blobs that no query refers to and that are older than [`BLOB_GRACE`], and returns how many.
    /// Safe at any time; the engine does it by itself once an hour.
    ///
    /// # Errors
    /// If the store or the blobs cannot be read.
    pub async fn sweep_blobs(&self) -> Result<usize, EngineError> {
        Ok(self.inner.sweep_blobs().await?)
    }
}

impl Upload {
    /// Appends a chunk.
    ///
    /// # Errors
    /// If the upload is too large, is not valid for its media type, or cannot be written. Then the upload is void.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), UploadError> {
        if self.description.size() + bytes.len() as u64 > LARGEST_BYTES {
            return Err(UploadError::TooLarge);
        }
        self.check.push(&bytes)?;
        self.description.push(&bytes);
        if let Some((draft, permit)) = &mut self.draft {
            permit.grow(bytes.len())?;
            self.step.extend_from_slice(&bytes);
            if self.step.len() >= STEP_BYTES {
                draft.write(self.step.split().freeze()).await?;
            }
        }
        Ok(())
    }

    /// Ends the upload: its bytes are durable, and the returned reference points to them.
    ///
    /// # Errors
    /// If they are not valid for the media type, or cannot be written.
    pub async fn finish(self) -> Result<Large, UploadError> {
        let Self { media_type, check, description, draft, step } = self;
        check.finish()?;
        let large = description.finish(media_type);
        if let Some((mut draft, _permit)) = draft {
            draft.write(step.freeze()).await?;
            draft.seal(large.hash).await?;
        }
        Ok(large)
    }
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Upload")
            .field("media_type", &self.media_type)
            .field("size", &self.description.size())
            .finish_non_exhaustive()
    }
}
