//! Reading the results of a query's calls, from the journal or from a blob.

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use bosun_core::{
    CallId, Content, ContentHash, Transcript,
    content::{ContentPage, ContentWindow, Large, MediaType},
};
use bytes::Bytes;

use crate::{EngineError, QueryKey, StoreError, blob::Blobs, engine::Engine};

/// The builtin tool that reads large results page by page. Agents list it like any other tool; if they do, results that
/// are too large for a model request are shown with a handle for it.
pub const READ_RESULT: &str = "read_result";

/// The results of one query, and of no other.
#[derive(Clone, Default)]
pub struct Results {
    of: Option<(Arc<Transcript>, Arc<dyn Blobs>)>,
}

/// The content of one result, as text.
#[derive(Clone)]
pub struct ResultContent {
    pub media_type: MediaType,
    /// In bytes.
    pub size: u64,
    /// Of the bytes.
    pub hash: ContentHash,
    source: ContentSource,
}

#[derive(Clone)]
enum ContentSource {
    Inline(Bytes),
    Blob(Arc<dyn Blobs>),
}

/// Why a page cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("there is no result with the handle `{0}` in this query")]
    Unknown(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Results {
    #[must_use]
    pub fn of(transcript: Arc<Transcript>, blobs: Arc<dyn Blobs>) -> Self {
        Self { of: Some((transcript, blobs)) }
    }

    /// The content of a call's outcome; `None` if there is no such call, or it has no outcome yet.
    #[must_use]
    pub fn content(&self, call: CallId) -> Option<ResultContent> {
        let (transcript, blobs) = self.of.as_ref()?;
        let content = transcript.call(call)?.result.as_ref()?.outcome.content()?;
        Some(ResultContent::new(content, blobs))
    }

    /// A page of a result. The handle is the id of its call.
    ///
    /// # Errors
    /// If this query has no such result, or it cannot be read right now.
    pub async fn page(&self, handle: &str, offset: u64, limit: u64) -> Result<ContentPage, PageError> {
        let call = handle.parse().ok();
        let content = call.and_then(|call| self.content(call)).ok_or_else(|| PageError::Unknown(handle.to_owned()))?;
        let window = ContentWindow::new(content.size, offset, limit);
        Ok(window.cut(&content.read(window.bytes()).await?))
    }
}

impl fmt::Debug for Results {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Results").finish_non_exhaustive()
    }
}

impl ResultContent {
    fn new(content: &Content, blobs: &Arc<dyn Blobs>) -> Self {
        match content {
            Content::Inline(value) => Self::inline(Large::of(value)),
            Content::Blocks(blocks) => Self::inline(Large::of_blocks(blocks)),
            Content::Large(Large { hash, size, media_type, .. }) => {
                let (media_type, source) = (media_type.clone(), ContentSource::Blob(Arc::clone(blobs)));
                Self { media_type, size: *size, hash: *hash, source }
            }
        }
    }

    fn inline((Large { hash, size, media_type, .. }, text): (Large, Cow<'_, str>)) -> Self {
        Self { media_type, size, hash, source: ContentSource::Inline(text.into_owned().into()) }
    }

    /// The bytes of `range`, all of them.
    ///
    /// # Errors
    /// If the blob is missing or was deleted, or cannot be read right now.
    pub async fn read(&self, range: Range<u64>) -> Result<Bytes, StoreError> {
        let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let read = match &self.source {
            ContentSource::Inline(bytes) => {
                let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(bytes.len());
                Some(bytes.slice(start..start.saturating_add(length).min(bytes.len())))
            }
            ContentSource::Blob(blobs) => blobs.read(self.hash, range.start, length).await?,
        };
        // A truncated blob counts as missing.
        read.filter(|bytes| bytes.len() == length).ok_or(StoreError::MissingBlob(self.hash))
    }
}

impl fmt::Debug for ResultContent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ResultContent")
            .field("hash", &self.hash)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// The content of one result.
    ///
    /// # Errors
    /// If there is no such query, call or result, or the store fails.
    pub async fn result(&self, key: &QueryKey, call: CallId) -> Result<ResultContent, EngineError> {
        let snapshot = self.get(key, None).await?;
        if snapshot.transcript.call(call).is_none() {
            return Err(EngineError::CallNotFound(call));
        }
        let results = Results::of(snapshot.transcript, Arc::clone(&self.inner.blobs));
        results.content(call).ok_or(EngineError::NoResult(call))
    }
}
