//! The specification of [`Blobs`], as a test that every back end runs.
//!
//! What is special to a back end (files, crashes, full disks) is tested next to it.

#![expect(clippy::expect_used, reason = "compiled for tests only: a failure here is a failed test")]

use std::{sync::Arc, time::Duration};

use bosun_core::ContentHash;
use bytes::Bytes;
use futures_util::future::join_all;

use crate::blob::Blobs;

/// Persistent storage for blobs.
pub trait BlobPlace: Send {
    /// Opens it. The first time it is empty; after that it contains what was sealed.
    fn open(&mut self) -> Arc<dyn Blobs>;

    /// Makes a blob look as if it had been sealed earlier by `age`.
    fn age(&mut self, hash: ContentHash, age: Duration);
}

/// Makes a test of every clause of the contract, with the attributes of the first argument and a new place for each.
#[macro_export]
macro_rules! blob_contract {
    ([$($attribute:tt)+] $place:expr) => {
        $crate::blob_contract! { @each [$($attribute)+] $place;
            what_was_sealed_is_read,
            any_range_can_be_read,
            a_missing_blob_is_none,
            a_draft_that_was_not_sealed_is_not_a_blob,
            a_blob_may_be_empty,
            the_same_bytes_are_one_blob,
            blobs_survive_a_reopening,
            only_old_blobs_are_listed_and_removed,
            sealing_a_blob_again_renews_its_age,
            concurrent_writers_all_succeed,
        }
    };
    (@each $attribute:tt $place:expr; $($clause:ident,)+) => {
        $($crate::blob_contract! { @one $attribute $place; $clause })+
    };
    (@one [$($attribute:tt)+] $place:expr; $clause:ident) => {
        #[$($attribute)+]
        async fn $clause() {
            $crate::testing::blob_contract::$clause(Box::new($place)).await;
        }
    };
}

const HOUR: Duration = Duration::from_secs(3_600);

/// Seals `pieces` as one blob.
async fn seal(blobs: &dyn Blobs, pieces: &[&[u8]]) -> ContentHash {
    let hash = ContentHash::of(&pieces.concat());
    let mut draft = blobs.begin().await.expect("a draft");
    for piece in pieces {
        draft.write(Bytes::copy_from_slice(piece)).await.expect("room for a piece");
    }
    draft.seal(hash).await.expect("a blob");
    hash
}

async fn read(blobs: &dyn Blobs, hash: ContentHash, offset: u64, length: usize) -> Option<Vec<u8>> {
    blobs.read(hash, offset, length).await.expect("blobs are readable").map(|bytes| bytes.to_vec())
}

pub async fn what_was_sealed_is_read(mut place: Box<dyn BlobPlace>) {
    let blobs = place.open();
    let hash = seal(&*blobs, &[b"one ", b"two ", b"", b"three"]).await;
    assert_eq!(blobs.size(hash).await.expect("blobs are readable"), Some(13));
    assert_eq!(read(&*blobs, hash, 0, 100).await.as_deref(), Some(&b"one two three"[..]));
}

pub async fn any_range_can_be_read(mut place: Box<dyn BlobPlace>) {
    let blobs = place.open();
    let bytes: Vec<u8> = (0..700_000_u32).map(|number| (number % 251) as u8).collect();
    let pieces: Vec<&[u8]> = bytes.chunks(100_001).collect();
    let hash = seal(&*blobs, &pieces).await;
    let size = bytes.len();
    for (offset, length) in [(0, 1), (1, 0), (99_999, 5), (250_000, 300_000), (size - 1, 1), (size - 1, 9), (size, 5)] {
        let expect = &bytes[offset..(offset + length).min(size)];
        assert_eq!(read(&*blobs, hash, offset as u64, length).await.as_deref(), Some(expect), "{offset}+{length}");
    }
    assert_eq!(read(&*blobs, hash, u64::MAX, 5).await.as_deref(), Some(&b""[..]));
}

pub async fn a_missing_blob_is_none(mut place: Box<dyn BlobPlace>) {
    let blobs = place.open();
    let hash = ContentHash::of(b"nothing");
    assert_eq!(blobs.size(hash).await.expect("blobs are readable"), None);
    assert_eq!(read(&*blobs, hash, 0, 1).await, None);
    assert!(!blobs.remove(hash, Duration::ZERO).await.expect("blobs are writable"));
    assert_eq!(blobs.older_than(Duration::ZERO).await.expect("blobs are readable"), []);
}

pub async fn a_draft_that_was_not_sealed_is_not_a_blob(mut place: Box<dyn BlobPlace>) {
    let blobs = place.open();
    let mut draft = blobs.begin().await.expect("a draft");
    draft.write(Bytes::from_static(b"half")).await.expect("room for a piece");
    assert_eq!(blobs.size(ContentHash::of(b"half")).await.expect("blobs are readable"), None);
    assert_eq!(blobs.older_than(Duration::ZERO).await.expect("blobs are readable"), [], "a draft is not a blob");
    drop(draft);
    assert_eq!(blobs.size(ContentHash::of(b"half")).await.expect("blobs are readable"), None);
}

pub async fn a_blob_may_be_empty(mut place: Box<dyn BlobPlace>) {
    let blobs = place.open();
    let hash = seal(&*blobs, &[]).await;
    assert_eq!(blobs.size(hash).await.expect("blobs are readable"), Some(0));
    assert_eq!(read(&*blobs, hash, 0, 9).await.as_deref(), Some(&b""[..]));
}

pub async fn the_same_bytes_are_one_blob(mut place: Box<dyn BlobPlace>) {
    let blobs = place.open();
    let first = seal(&*blobs, &[b"same"]).await;
    let second = seal(&*blobs, &[b"sa", b"me"]).await;
    assert_eq!(first, second);
    assert_eq!(blobs.older_than(Duration::ZERO).await.expect("blobs are readable"), [first]);
    assert_eq!(read(&*blobs, first, 0, 9).await.as_deref(), Some(&b"same"[..]));
}

pub async fn blobs_survive_a_reopening(mut place: Box<dyn BlobPlace>) {
    let hash = seal(&*place.open(), &[b"kept"]).await;
    assert_eq!(read(&*place.open(), hash, 0, 9).await.as_deref(), Some(&b"kept"[..]));
}

pub async fn only_old_blobs_are_listed_and_removed(mut place: Box<dyn BlobPlace>) {
    let blobs = place.open();
    let (old, young) = (seal(&*blobs, &[b"old"]).await, seal(&*blobs, &[b"young"]).await);
    place.age(old, HOUR);
    assert_eq!(blobs.older_than(HOUR).await.expect("blobs are readable"), [old]);
    assert!(!blobs.remove(young, HOUR).await.expect("blobs are writable"));
    assert!(blobs.remove(old, HOUR).await.expect("blobs are writable"));
    assert!(!blobs.remove(old, HOUR).await.expect("blobs are writable"), "it is gone already");
    assert_eq!(read(&*blobs, old, 0, 9).await, None);
    assert_eq!(read(&*blobs, young, 0, 9).await.as_deref(), Some(&b"young"[..]));
}

pub async fn sealing_a_blob_again_renews_its_age(mut place: Box<dyn BlobPlace>) {
    let blobs = place.open();
    let hash = seal(&*blobs, &[b"again"]).await;
    place.age(hash, HOUR);
    assert_eq!(blobs.older_than(HOUR).await.expect("blobs are readable"), [hash]);
    seal(&*blobs, &[b"again"]).await;
    assert!(!blobs.remove(hash, HOUR).await.expect("blobs are writable"), "a reference to it may be under way");
    assert_eq!(blobs.size(hash).await.expect("blobs are readable"), Some(5));
}

pub async fn concurrent_writers_all_succeed(mut place: Box<dyn BlobPlace>) {
    let blobs = place.open();
    let texts: Vec<String> = (0..32).map(|number| format!("blob {}", number % 8).repeat(1_000)).collect();
    let seal_text = async |text: &String| seal(&*blobs, &[text.as_bytes()]).await;
    let hashes = join_all(texts.iter().map(seal_text)).await;
    for (text, hash) in texts.iter().zip(hashes) {
        assert_eq!(read(&*blobs, hash, 0, text.len()).await.as_deref(), Some(text.as_bytes()));
    }
    assert_eq!(blobs.older_than(Duration::ZERO).await.expect("blobs are readable").len(), 8);
}
