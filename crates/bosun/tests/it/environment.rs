//! What the server requires of its machine: private files, and a sufficient limit of open files.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::Method;
use serde_json::json;
use tokio::net::TcpStream;

use crate::support::{
    client::Client,
    scenarios::{self, Scenario},
    server::{ProcessExit, Server, World},
    soon,
};

/// Every file and directory below `path`, with its mode.
fn modes(path: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).expect("a directory") {
        let path = entry.expect("an entry").path();
        let metadata = fs::metadata(&path).expect("a file");
        found.push((path.clone(), metadata.permissions().mode() & 0o777));
        if metadata.is_dir() {
            found.extend(modes(&path));
        }
    }
    found
}

/// Makes the server write everything that it ever does, a large result included.
async fn keep_everything(server: &Server, name: &str) {
    let client = Client::of(&server.base);
    let waiting = client.post("?wait=20s", &scenarios::query(name, Scenario::Outside)).await;
    let (call, _) = &waiting.waiting_calls()[0];
    let result = json!({"toolCallId": call, "success": true, "toolResult": "a".repeat(300 * 1024)});
    assert_eq!(client.post(&format!("/{name}/tool-result?wait=20s"), &result).await.state(), "completed");
}

#[tokio::test]
async fn files_are_private_also_in_a_world_readable_directory() {
    let world = World::new();
    fs::create_dir(world.data()).expect("a directory");
    fs::set_permissions(world.data(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let mut server = world.start().await;
    keep_everything(&server, "first").await;
    let private = |when: &str| {
        let found = modes(&world.data());
        assert!(found.len() > 5, "{found:?}");
        for (path, mode) in found {
            assert_eq!(mode & 0o077, 0, "{when}: {} has {mode:o}", path.display());
        }
    };
    private("of a new store");
    assert_eq!(server.kill().await, ProcessExit::Killed);
    // As an earlier version left them.
    for (path, mode) in modes(&world.data()) {
        let is_of_the_store = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("bosun."));
        if is_of_the_store || path.ends_with("blobs") {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode | mode >> 3 | mode >> 6)).expect("its mode");
        }
    }
    let mut server = world.start().await;
    keep_everything(&server, "second").await;
    private("of an earlier store");
    assert_eq!(server.kill().await, ProcessExit::Killed);
}

/// The limits of open files of a process: the one in force and the highest.
fn file_limits(server: &Server) -> (usize, usize) {
    let text = fs::read_to_string(format!("/proc/{}/limits", server.pid())).expect("the limits of a process");
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files")).expect("the limit of files");
    let numbers: Vec<usize> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    (numbers[0], numbers[1])
}

#[tokio::test]
async fn the_limit_of_open_files_is_raised_as_far_as_it_goes() {
    let mut world = World::new();
    world.start_by(&["bash", "-c", "ulimit -Sn 96; ulimit -Hn 512; exec \"$@\"", "bash"]);
    let mut server = world.start().await;
    assert_eq!(file_limits(&server), (512, 512));
    assert_eq!(server.kill().await, ProcessExit::Killed);
}

#[tokio::test]
async fn with_few_files_clients_above_the_limit_are_refused_and_the_store_has_its_own() {
    const FILES: usize = 256;
    let mut world = World::new();
    world.start_by(&["bash", "-c", &format!("ulimit -n {FILES}; exec \"$@\""), "bash"]);
    let mut server = world.start().await;
    let client = Client::of(&server.base);
    assert_eq!(client.post("?wait=20s", &scenarios::query("before", Scenario::Outside)).await.state(), "waiting");
    let address = server.base.trim_start_matches("http://").to_owned();
    // More connections than there are files, all silent.
    let mut idle = Vec::new();
    for _ in 0..FILES + 50 {
        idle.push(TcpStream::connect(&address).await.expect("a connection"));
    }
    // Some of those that are refused are kept for a second to be answered.
    let refused = soon("an answer", async {
        loop {
            match Client::of(&server.base).ask(&Method::GET, "", None).await {
                // The first client has closed its connection meanwhile: its slot is in use as well.
                Ok(answer) if answer.status == 200 => {
                    idle.push(TcpStream::connect(&address).await.expect("a connection"));
                }
                Ok(answer) => return answer,
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    assert_eq!((refused.status, refused.code()), (503, "overloaded"), "{}", refused.body);
    let open = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("its files").count();
    assert!(open < FILES - 64, "{open} of {FILES} files are open");
    drop(idle);
    let log = fs::read_to_string(world.log()).expect("a log");
    assert_eq!(log.matches("the limit of open files is too low").count(), 1, "{log}");
    assert_eq!(server.kill().await, ProcessExit::Killed);
}
