//! A disk that fails on demand, and that knows what a power cut would leave.
//!
//! `disk.c` intercepts the calls between the server and its files; this controls it. It is compiled when it is needed,
//! by the compiler that has built SQLite before, and loaded with `LD_PRELOAD`: the program under test is the one that
//! is shipped, and it is the system call that fails.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use super::server::World;

/// The directory of large values next to the database.
const BLOBS: &str = "blobs";

/// Errors of a write, by their numbers on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteError {
    Io = 5,
    NoSpace = 28,
    ReadOnly = 30,
}

/// The fields of the control page, as in `disk.c`.
#[derive(Clone, Copy, Debug)]
enum Field {
    FailSyncs,
    WriteError,
    StallSyncs,
    FailedSyncs,
    FailedWrites,
    Syncs,
    Stalled,
    FullAfter,
}

/// The controls of one world's disk.
#[derive(Debug)]
pub(crate) struct Disk {
    control: File,
    data: PathBuf,
    shadow: PathBuf,
}

impl Disk {
    /// Puts the disk under all later processes of `world`.
    pub(crate) fn under(world: &mut World) -> Self {
        let (library, page, shadow) = (world.path("disk.so"), world.path("disk.control"), world.path("shadow"));
        compile(&library, "disk.c");
        fs::write(&page, [0; 4096]).expect("a control page");
        fs::create_dir_all(shadow.join(BLOBS)).expect("a directory");
        fs::create_dir_all(world.data()).expect("a directory");
        // The program sees the paths of its files without links.
        let data = world.data().canonicalize().expect("a path");
        world.set("LD_PRELOAD", library);
        world.set("BOSUN_DISK_CONTROL", &page);
        world.set("BOSUN_DISK_ROOT", &data);
        world.set("BOSUN_DISK_SHADOW", &shadow);
        let control = File::options().read(true).write(true).open(page).expect("a control page");
        Self { control, data, shadow }
    }

    /// Makes this many flushes fail.
    pub(crate) fn fail_syncs(&self, times: u32) {
        self.set(Field::FailSyncs, times);
    }

    /// Makes every flush fail until the disk is repaired.
    pub(crate) fn fail_all_syncs(&self) {
        self.fail_syncs(u32::MAX);
    }

    /// Makes every write fail until the disk is repaired.
    pub(crate) fn fail_writes(&self, error: WriteError) {
        self.set(Field::WriteError, error as u32);
    }

    /// Makes the disk full after this many flushes, and keeps it so until it is repaired.
    pub(crate) fn fill_after_syncs(&self, times: u32) {
        self.set(Field::FullAfter, times);
    }

    /// Blocks every flush until the disk is repaired.
    pub(crate) fn stall(&self) {
        self.set(Field::StallSyncs, 1);
    }

    pub(crate) fn repair(&self) {
        for field in [Field::FullAfter, Field::FailSyncs, Field::WriteError, Field::StallSyncs] {
            self.set(field, 0);
        }
    }

    /// How many calls have failed, flushes and writes.
    pub(crate) fn failures(&self) -> u32 {
        self.get(Field::FailedSyncs) + self.get(Field::FailedWrites)
    }

    /// How many flushes went well.
    pub(crate) fn syncs(&self) -> u32 {
        self.get(Field::Syncs)
    }

    /// How many flushes were blocked.
    pub(crate) fn stalled(&self) -> u32 {
        self.get(Field::Stalled)
    }

    /// What the next process finds after a power cut. No process may be running.
    pub(crate) fn cut_power(&self) {
        fs::remove_dir_all(&self.data).expect("the directory goes");
        fs::create_dir_all(self.data.join(BLOBS)).expect("a directory");
        for directory in ["", BLOBS] {
            let (from, to) = (self.shadow.join(directory), self.data.join(directory));
            for file in from.read_dir().expect("a directory") {
                let file = file.expect("a file");
                if file.file_name() != BLOBS {
                    fs::copy(file.path(), to.join(file.file_name())).expect("a copy");
                }
            }
        }
    }

    fn set(&self, field: Field, value: u32) {
        self.control.write_all_at(&value.to_ne_bytes(), field as u64 * 4).expect("the control page");
    }

    fn get(&self, field: Field) -> u32 {
        let mut bytes = [0; 4];
        self.control.read_exact_at(&mut bytes, field as u64 * 4).expect("the control page");
        u32::from_ne_bytes(bytes)
    }
}

/// Compiles a source of this directory into a library for `LD_PRELOAD`.
pub(crate) fn compile(library: &Path, source: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support").join(source);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .arg(library)
        .arg(source)
        .args(["-ldl", "-lpthread"])
        .output()
        .unwrap_or_else(|error| panic!("the compiler {compiler:?}, which builds SQLite too, does not run: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
