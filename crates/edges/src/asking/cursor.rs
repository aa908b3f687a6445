//! The cursor of a stream: the `id` of an event, `<uid>.<seq>`.

use bosun_core::Seq;
use bosun_engine::Snapshot;

use crate::http::error::{ApiError, Code, clip};

/// The entry that a client has seen last, from the `id` that came with it.
pub(crate) fn read(id: &str, snapshot: &Snapshot) -> Result<Seq, ApiError> {
    let seq = id
        .split_once('.')
        .filter(|(uid, _)| uid.parse() == Ok(snapshot.head.uid))
        .and_then(|(_, seq)| seq.parse::<Seq>().ok())
        .filter(|seq| *seq <= snapshot.head.seq);
    seq.ok_or_else(|| {
        ApiError::new(Code::InvalidEventId, format!("`{}` is not the id of an event of this query", clip(id)))
    })
}
