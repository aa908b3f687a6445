//! `make demo` and `make serve` show the progress of a build, and print nothing if the program is up to date.
//!
//! Cargo is replaced by a script that prints its arguments, which are what is tested.

use std::{fs::File, os::unix::fs::PermissionsExt, path::Path};

use tokio::process::Command;

use crate::program::{run, stderr, stdout, workspace};

const NOTICE: &str = "Building bosun and its dependencies from source";

/// What `make target` prints on standard error, and what it asks of cargo, in order.
async fn make(target: &str, directory: &Path) -> (String, Vec<String>) {
    let cargo = directory.join("cargo");
    std::fs::write(&cargo, "#!/bin/sh\necho \"$@\"\n").unwrap();
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("make");
    command
        .arg("--directory")
        .arg(workspace())
        .args(["--no-print-directory", target])
        .arg(format!("CARGO={}", cargo.display()))
        .env("CARGO_TARGET_DIR", directory.join("target"))
        .env_remove("MAKEFLAGS");
    let output = run(&mut command).await;
    assert!(output.status.success(), "{}", stderr(&output));
    (stderr(&output), stdout(&output).lines().map(str::to_owned).collect())
}

#[tokio::test]
async fn the_first_build_is_announced_once_and_shows_its_progress() {
    for (target, arguments) in [("demo", "demo"), ("serve", "serve --manifests examples/agents")] {
        let directory = tempfile::tempdir().unwrap();
        let (printed, asked) = make(target, directory.path()).await;
        assert_eq!(printed.matches(NOTICE).count(), 1, "{printed}");
        let run = format!("run --quiet --locked -p bosun --no-default-features -- {arguments}");
        assert_eq!(asked, ["build --locked -p bosun --no-default-features", &run], "{target}");
    }
}

#[tokio::test]
async fn a_later_build_shows_its_progress_and_none_shows_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let built = directory.path().join("target/debug");
    std::fs::create_dir_all(&built).unwrap();
    let program = File::create(built.join("bosun")).unwrap();
    let (printed, asked) = make("demo", directory.path()).await;
    assert_eq!((printed.as_str(), asked[0].as_str()), ("", "build --quiet --locked -p bosun --no-default-features"));
    // Older than every source.
    program.set_modified(std::time::UNIX_EPOCH).unwrap();
    let (printed, asked) = make("demo", directory.path()).await;
    assert_eq!((printed.as_str(), asked[0].as_str()), ("", "build --locked -p bosun --no-default-features"));
}
