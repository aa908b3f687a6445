use std::{collections::BTreeSet, time::SystemTime};

use bosun_engine::testing::blob_contract::BlobPlace;
use tempfile::TempDir;

use super::*;

struct OnDisk(TempDir);

impl OnDisk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("blobs")
    }

    fn names(&self) -> BTreeSet<String> {
        fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl BlobPlace for OnDisk {
    fn open(&mut self) -> Arc<dyn Blobs> {
        Arc::new(BlobDirectory::open(&self.path()).unwrap())
    }

    fn age(&mut self, hash: ContentHash, age: Duration) {
        let file = File::options().write(true).open(self.path().join(hash.to_string())).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }
}

mod contract {
    use super::*;

    bosun_engine::blob_contract!([tokio::test] OnDisk::new());
}

#[tokio::test]
async fn a_blob_is_a_file_with_its_hash_for_a_name() {
    let disk = OnDisk::new();
    let blobs = BlobDirectory::open(&disk.path()).unwrap();
    let mut draft = blobs.begin().await.unwrap();
    draft.write(Bytes::from_static(b"abc")).await.unwrap();
    assert_eq!(disk.names(), BTreeSet::from(["0.new".to_owned()]));
    draft.seal(ContentHash::of(b"abc")).await.unwrap();
    let name = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(disk.names(), BTreeSet::from([name.to_owned()]));
    assert_eq!(fs::read(disk.path().join(name)).unwrap(), b"abc");
}

#[test]
fn a_draft_that_is_dropped_leaves_no_file() {
    let disk = OnDisk::new();
    let blobs = BlobDirectory::open(&disk.path()).unwrap();
    // With one blocking thread, jobs run in order: the listing runs after the removal.
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let mut draft = blobs.begin().await.unwrap();
        draft.write(Bytes::from_static(b"half")).await.unwrap();
        assert_eq!(disk.names().len(), 1);
        drop(draft);
        blobs.size(ContentHash::of(b"half")).await.unwrap();
        assert_eq!(disk.names().len(), 0);
    });
}

#[test]
fn leftovers_of_a_crash_are_removed_and_nothing_else() {
    let disk = OnDisk::new();
    fs::create_dir(disk.path()).unwrap();
    let hash = ContentHash::of(b"kept").to_string();
    for name in ["0.new", "17.new", &hash, "README"] {
        fs::write(disk.path().join(name), "kept").unwrap();
    }
    BlobDirectory::open(&disk.path()).unwrap();
    assert_eq!(disk.names(), BTreeSet::from([hash, "README".to_owned()]));
}

#[tokio::test]
async fn files_that_are_not_blobs_are_ignored() {
    let disk = OnDisk::new();
    let blobs = BlobDirectory::open(&disk.path()).unwrap();
    fs::write(disk.path().join("README"), "mine").unwrap();
    assert_eq!(blobs.older_than(Duration::ZERO).await.unwrap(), []);
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_makes_the_store_unavailable() {
    let disk = OnDisk::new();
    let blobs = BlobDirectory::open(&disk.path()).unwrap();
    fs::remove_dir(disk.path()).unwrap();
    assert!(matches!(blobs.begin().await.err(), Some(StoreError::Unavailable(_))));
    assert_eq!(blobs.size(ContentHash::of(b"abc")).await.unwrap(), None);
    assert!(BlobDirectory::open(Path::new("/dev/null/blobs")).is_err());
}

#[tokio::test]
async fn a_draft_is_not_used_after_a_write_failed() {
    let disk = OnDisk::new();
    let blobs = BlobDirectory::open(&disk.path()).unwrap();
    let mut draft = blobs.begin().await.unwrap();
    // The name of the blob is occupied by a directory that cannot be replaced.
    let hash = ContentHash::of(b"abc");
    fs::create_dir(disk.path().join(hash.to_string())).unwrap();
    draft.write(Bytes::from_static(b"abc")).await.unwrap();
    assert!(draft.seal(hash).await.is_err());
}

#[tokio::test]
async fn a_blob_whose_bytes_have_changed_is_not_read() {
    let disk = OnDisk::new();
    let bytes = Bytes::from(vec![7; 3 * STEP_BYTES / 2]);
    let hash = ContentHash::of(&bytes);
    {
        let blobs = BlobDirectory::open(&disk.path()).unwrap();
        let mut draft = blobs.begin().await.unwrap();
        draft.write(bytes.clone()).await.unwrap();
        draft.seal(hash).await.unwrap();
    }
    let file = disk.path().join(hash.to_string());
    let blobs = BlobDirectory::open(&disk.path()).unwrap();
    assert_eq!(blobs.read(hash, 5, 2).await.unwrap().unwrap(), bytes.slice(5..7));
    // One flipped bit, far from the range that is read, after the verification has expired.
    let mut damaged = bytes.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&file, &damaged).unwrap();
    File::options().write(true).open(&file).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    for (offset, length) in [(0, 2), (bytes.len() as u64 - 1, 1)] {
        let read = blobs.read(hash, offset, length).await;
        assert!(matches!(read, Err(StoreError::DamagedBlob(damaged)) if damaged == hash), "{read:?}");
    }
    // Storing it again repairs it.
    let mut draft = blobs.begin().await.unwrap();
    draft.write(bytes.clone()).await.unwrap();
    draft.seal(hash).await.unwrap();
    assert_eq!(blobs.read(hash, 0, 2).await.unwrap().unwrap(), bytes.slice(0..2));
}
