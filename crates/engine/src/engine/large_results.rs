//! Results that are too large for a journal: kept as blobs first, then referred to.
//!
//! There is one order, whoever brings the bytes: the blob is durable before the entry that refers to it
//! is appended. What is not going to be referred to is not written, as far as that can be known before:
//! a result for a call that has one already is only compared. What is left over all the same, by a
//! crash or a race, is swept.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bosun_core::{
    Binding, CallId, Content, ContentHash, Namespace, Outcome, QueryName, Toolset, Transcript,
    content::{BadContent, ContentCheck, Description, LARGEST_BYTES, Large, MediaType},
    machine::{self, Delivery, Standing, Verdict, outcome_code},
    showing::{RESULT_SHOWN, Showing},
};
use bytes::{Bytes, BytesMut};

use crate::{
    EngineError, QueryKey, StoreError,
    background::clock_step::DELETES_AFTER,
    blob::{Blobs, Draft},
    engine::results::READ_RESULT,
    engine::upload_limits::DraftPermit,
    engine::{Engine, Inner},
};

/// A blob that nobody refers to is left alone for so long: the reference may be on its way.
pub const BLOB_GRACE: Duration = Duration::from_secs(3_600);
/// How often blobs are looked after.
const SWEEP_PERIOD: Duration = Duration::from_secs(3_600);
/// How many blobs the store is asked about at a time.
const SWEEP_BATCH: usize = 256;
/// Pieces of an upload are written in steps of this size, so that a step is worth its thread.
const STEP_BYTES: usize = 64 * 1024;

/// Content that has to be sealed before it may be referred to.
#[derive(Debug)]
struct Aside {
    hash: ContentHash,
    bytes: Bytes,
}

/// Puts content that is too large for a journal aside, and a reference in its place.
fn put_aside(outcome: &mut Outcome) -> Option<Aside> {
    let content = outcome.content_mut().filter(|content| content.is_too_large_inline())?;
    let Content::Inline(value) = content else { return None };
    let (large, text) = Large::of(value);
    let (hash, bytes) = (large.hash, Bytes::from(text.into_owned()));
    *content = Content::Large(large);
    Some(Aside { hash, bytes })
}

async fn seal(blobs: &dyn Blobs, aside: &Aside) -> Result<(), StoreError> {
    let mut draft = blobs.begin().await?;
    draft.write(aside.bytes.clone()).await?;
    draft.seal(aside.hash).await
}

/// Makes the outcome of an inside call fit for a journal.
pub(crate) async fn keep(blobs: &dyn Blobs, outcome: &Arc<Outcome>) -> Result<Arc<Outcome>, StoreError> {
    if !outcome.content().is_some_and(Content::is_too_large_inline) {
        return Ok(Arc::clone(outcome));
    }
    let outcome = Arc::clone(outcome);
    // To copy, write and hash tens of megabytes takes longer than others may be kept waiting.
    let work = tokio::task::spawn_blocking(move || {
        let mut outcome = Outcome::clone(&outcome);
        (put_aside(&mut outcome), outcome)
    });
    let (aside, outcome) = work.await.map_err(|error| StoreError::Unavailable(Box::new(error)))?;
    if let Some(aside) = aside {
        if aside.bytes.len() as u64 > LARGEST_BYTES {
            let message = format!(
                "the tool ran, but its result of {} bytes is larger than the {LARGEST_BYTES} that are taken",
                aside.bytes.len()
            );
            return Ok(Arc::new(Outcome::failure(outcome_code::RESULT_TOO_LARGE, message)));
        }
        seal(blobs, &aside).await?;
    }
    Ok(Arc::new(outcome))
}

/// How the results of a query are shown to its model.
pub(crate) async fn showing(
    blobs: &dyn Blobs,
    query: &QueryName,
    toolset: &Toolset,
    transcript: &Transcript,
) -> Result<Showing, StoreError> {
    let is_pager = |binding: &Binding| matches!(binding, Binding::Builtin { name } if name == READ_RESULT);
    let pager = toolset.tools().iter().find(|member| is_pager(&member.tool.binding));
    let mut showing = Showing { pager: pager.map(|member| Arc::clone(&member.alias)), excerpts: BTreeMap::new() };
    if showing.pager.is_some() {
        return Ok(showing);
    }
    let outcomes = transcript.calls().filter_map(|call| call.result.as_ref());
    for large in outcomes.filter_map(|recorded| recorded.outcome.large()) {
        let read = match blobs.read(large.hash, 0, RESULT_SHOWN).await {
            Err(error @ StoreError::DamagedBlob(_)) => {
                tracing::error!(%query, error = %error, "a large result cannot be shown to the model");
                continue;
            }
            read => read?,
        };
        match read {
            Some(bytes) => {
                let whole = str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
                showing.excerpts.insert(large.hash, String::from_utf8_lossy(&bytes[..whole]).into_owned());
            }
            // The query can still go on with the beginning that stands in its journal.
            None => tracing::error!(%query, blob = %large.hash, "the blob of a large result is not there"),
        }
    }
    Ok(showing)
}

/// The large contents of a post: put aside, and sealed once it is certain that they are taken.
///
/// Whether a result is taken is decided with the query locked, and it must be sealed by then. So whoever
/// delivers looks, keeps what is lacking with the query unlocked, and looks again: what was refused at the
/// first look may be taken at the second, since what stood in its way may not have been kept.
#[derive(Debug)]
pub(crate) struct LargeResults(Vec<LargeResult>);

#[derive(Debug)]
struct LargeResult {
    /// Which of the deliveries it is.
    index: usize,
    large: Large,
    /// `None` if it was uploaded.
    aside: Option<Aside>,
    is_kept: bool,
}

impl LargeResults {
    pub(crate) fn put_aside(deliveries: &mut [Delivery]) -> Self {
        let large = deliveries.iter_mut().enumerate().filter_map(|(index, delivery)| {
            let aside = put_aside(&mut delivery.outcome);
            let large = delivery.outcome.large()?.clone();
            Some(LargeResult { index, large, aside, is_kept: false })
        });
        Self(large.collect())
    }

    /// Then one look is enough.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all that these verdicts take is sealed.
    pub(crate) fn are_kept(&self, verdicts: &[Verdict]) -> bool {
        self.0.iter().all(|result| result.is_kept || !is_taken(verdicts, result.index))
    }

    /// Seals what these verdicts take.
    ///
    /// # Errors
    /// If it cannot be written; or if it was uploaded, and is not there: to refer to it would be worse than to fail.
    pub(crate) async fn keep(&mut self, blobs: &dyn Blobs, verdicts: &[Verdict]) -> Result<(), StoreError> {
        for result in self.0.iter_mut().filter(|result| !result.is_kept && is_taken(verdicts, result.index)) {
            match &result.aside {
                Some(aside) => seal(blobs, aside).await?,
                None if blobs.size(result.large.hash).await? == Some(result.large.size) => {}
                None => return Err(StoreError::MissingBlob(result.large.hash)),
            }
            result.is_kept = true;
        }
        Ok(())
    }
}

fn is_taken(verdicts: &[Verdict], index: usize) -> bool {
    matches!(verdicts.get(index), Some(Verdict::Accepted(_)))
}

impl Inner {
    /// Removes old blobs that no query refers to.
    async fn sweep_blobs(&self) -> Result<usize, StoreError> {
        let mut removed = 0;
        // First the blobs, then the references: a reference that is made in between is to a blob that
        // has been sealed in between, and that is young.
        let aged = self.blobs.aged(BLOB_GRACE).await?;
        for batch in aged.chunks(SWEEP_BATCH) {
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

    /// Looks after the blobs until the engine drains.
    pub(crate) async fn tend_blobs(self: Arc<Self>) {
        loop {
            match self.sweep_blobs().await {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "removed blobs that no query refers to"),
                Err(error) => tracing::warn!(error = %error, "blobs cannot be looked after"),
            }
            tokio::select! {
                () = tokio::time::sleep(SWEEP_PERIOD) => {}
                () = self.draining.cancelled() => return,
            }
        }
    }
}

/// A result on its way in, too large to be held in memory.
pub struct Upload {
    media_type: MediaType,
    check: ContentCheck,
    description: Description,
    /// `None` if the bytes are only to be compared.
    draft: Option<(Box<dyn Draft>, DraftPermit)>,
    /// Not written yet.
    step: BytesMut,
}

/// Why an upload was not taken. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error("a result may have at most {LARGEST_BYTES} bytes")]
    TooLarge,
    #[error(transparent)]
    Bad(#[from] BadContent),
    /// Too much is on its way in already.
    #[error(transparent)]
    Refused(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// What a result for `call` would meet now, durably.
    ///
    /// # Errors
    /// If the query does not exist or the store fails.
    pub async fn standing(&self, key: &QueryKey, call: CallId) -> Result<Standing, EngineError> {
        let snapshot = self.get(key, None).await?;
        Ok(machine::standing(&snapshot.head, self.inner.clock.now(), call))
    }

    /// Begins to take a result for a call of this namespace that stands like this. Only the first result of a call is
    /// worth a place on the disk, and only a few at a time have one.
    ///
    /// # Errors
    /// If there is no place.
    pub async fn upload(
        &self,
        namespace: &Namespace,
        call: CallId,
        standing: Standing,
        media_type: MediaType,
    ) -> Result<Upload, EngineError> {
        let draft = match standing {
            Standing::Open => {
                let permit = self.inner.drafts.begin(namespace, call)?;
                Some((self.inner.blobs.begin().await?, permit))
            }
            Standing::Resolved | Standing::Expired | Standing::Cancelled | Standing::Unknown => None,
        };
        let check = ContentCheck::new(&media_type);
        Ok(Upload { media_type, check, description: Description::default(), draft, step: BytesMut::new() })
    }

    /// Removes blobs that no query refers to and that are older than [`BLOB_GRACE`], and says how many.
    /// Harmless at any time; the engine does it by itself once an hour.
    ///
    /// # Errors
    /// If the store or the blobs cannot be read.
    pub async fn sweep_blobs(&self) -> Result<usize, EngineError> {
        Ok(self.inner.sweep_blobs().await?)
    }
}

impl Upload {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// If they are too many, not what the media type says, or cannot be written. Then the upload is void.
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

    /// All bytes have been there: they are durable now, and this is the reference to them.
    ///
    /// # Errors
    /// If they are not what the media type says, or cannot be written.
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
