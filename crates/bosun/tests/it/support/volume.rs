//! A disk that is really full.
//!
//! Where the test may mount, it is a `tmpfs` that is just large enough for its content; otherwise it is the operating
//! system's limit on the size of a process' files. Which of the two it was is part of the proof. There is no third way:
//! a machine with neither fails the test.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use super::server::{Server, World};

const ROOMY: &str = "512m";

/// Where a world keeps its data, with a limit that can be moved.
#[derive(Debug)]
pub(crate) enum Volume {
    Tmpfs(PathBuf),
    FileSize,
}

impl Volume {
    /// Puts the data of all later processes of `world` on the volume.
    pub(crate) fn under(world: &mut World) -> Self {
        let data = world.data();
        std::fs::create_dir_all(&data).expect("a directory");
        let options = format!("size={ROOMY},mode=0700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&data).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Self::Tmpfs(data);
        }
        // A process that reaches its limit is killed, unless it ignores the signal.
        world.start_by(&["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
        Self::FileSize
    }

    /// What the limit is made of, for the proof.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Tmpfs(_) => "tmpfs",
            Self::FileSize => "RLIMIT_FSIZE",
        }
    }

    /// Leaves space for this many bytes, or a little more.
    pub(crate) fn fill(&self, server: &Server, room: u64) {
        match self {
            // The server continues writing meanwhile, and a volume cannot be made smaller than what it holds.
            Self::Tmpfs(data) => {
                let filled = (0..1_000).any(|_| try_remount(data, &(used(data) + room).to_string()).is_ok());
                assert!(filled, "{} grows faster than it can be filled", data.display());
            }
            Self::FileSize => limit_files(server, &room.to_string()),
        }
    }

    pub(crate) fn free(&self, server: &Server) {
        match self {
            Self::Tmpfs(data) => remount(data, ROOMY),
            Self::FileSize => limit_files(server, "unlimited"),
        }
    }

    /// The same after the server has ended, and its own limits with it.
    pub(crate) fn free_without_server(&self) {
        if let Self::Tmpfs(data) = self {
            remount(data, ROOMY);
        }
    }
}

/// A read-only directory. Dropping it makes it writable again.
#[derive(Debug)]
pub(crate) struct ReadOnly {
    directory: PathBuf,
    is_mounted: bool,
}

impl ReadOnly {
    /// By its permissions, or, for users who may write in spite of them, by a mount.
    pub(crate) fn make(directory: &Path) -> Self {
        let mut made = Self { directory: directory.to_owned(), is_mounted: false };
        made.permit(0o555);
        if std::fs::write(directory.join("probe"), "").is_ok() {
            std::fs::remove_file(directory.join("probe")).expect("the probe goes");
            run(Command::new("mount").arg("--bind").arg(directory).arg(directory));
            made.is_mounted = true;
            run(Command::new("mount").args(["-o", "remount,bind,ro"]).arg(directory));
        }
        assert!(std::fs::write(directory.join("probe"), "").is_err(), "{} can be written to", directory.display());
        made
    }

    fn permit(&self, mode: u32) {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&self.directory, permissions).expect("permissions are set");
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        if self.is_mounted {
            run(Command::new("umount").arg(&self.directory));
        }
        self.permit(0o755);
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if let Self::Tmpfs(data) = self {
            // A process with an open file there keeps it; the directory can be removed nevertheless.
            let _ = Command::new("umount").arg("--lazy").arg(data).status();
        }
    }
}

fn used(data: &Path) -> u64 {
    let output = run(Command::new("stat").args(["--file-system", "--format", "%S %b %f"]).arg(data));
    let figures: Vec<u64> = output.split_whitespace().map(|figure| figure.parse().expect("a number")).collect();
    (figures[1] - figures[2]) * figures[0]
}

fn remount(data: &Path, size: &str) {
    try_remount(data, size).unwrap_or_else(|error| panic!("{error}"));
}

fn try_remount(data: &Path, size: &str) -> Result<String, String> {
    try_run(Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(data))
}

fn limit_files(server: &Server, size: &str) {
    run(Command::new("prlimit").args(["--pid", &server.pid().to_string(), &format!("--fsize={size}:")]));
}

fn run(command: &mut Command) -> String {
    try_run(command).unwrap_or_else(|error| panic!("{error}"))
}

fn try_run(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} does not run: {error}"));
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8(output.stdout).expect("text"))
}
