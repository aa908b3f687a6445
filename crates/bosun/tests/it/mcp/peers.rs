//! Public MCP servers, at pinned versions, which `interop/mcp/install.sh` installs outside the source tree.
//!
//! Over standard input and output in every run; over HTTP too with `BOSUN_MCP_PEERS=all`, as `make interop` sets it.

use std::{path::PathBuf, process::Stdio};

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::{HEAD, World, text_of};
use crate::program::{Server, free_port, run, stderr, stdout, workspace};

/// Where the packages are. Needs npm and Python, and the network the first time.
pub(crate) async fn packages() -> PathBuf {
    let output = run(Command::new(workspace().join("interop/mcp/install.sh")).arg("peers")).await;
    assert!(output.status.success(), "the peers cannot be installed (npm and pip are needed): {}", stderr(&output));
    stdout(&output).trim().into()
}

/// A peer, as a program and as a server on a port.
struct Peer {
    name: &'static str,
    program: Vec<String>,
    /// The program that listens; `None` if the peer has no HTTP.
    listening: Option<fn(&PathBuf, u16) -> Command>,
    calls: Vec<(&'static str, Value, Value)>,
}

async fn check(peer: Peer, packages: &PathBuf) {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    let spec = json!({"transport": "stdio", "stdio": {"command": peer.program[0], "args": peer.program[1..]}});
    let mut listening: Option<Child> = None;
    let mut servers = vec![("local", spec)];
    if let Some(listen) = peer.listening.filter(|_| std::env::var("BOSUN_MCP_PEERS").is_ok_and(|which| which == "all"))
    {
        let port = free_port();
        let child = listen(packages, port)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        listening = Some(child.unwrap());
        servers.push(("remote", json!({"address": {"value": format!("http://127.0.0.1:{port}/mcp")}})));
    }
    for (name, spec) in &servers {
        world.write(
            &format!("{name}.mcp.yaml"),
            &format!("{HEAD}\nkind: MCPServer\nmetadata: {{name: {name}}}\nspec: {spec}\n"),
        );
    }
    let server = Server::start_with(world.path()).await;
    for (place, _) in &servers {
        world.until(&server, place, "ready").await;
        for (tool, arguments, expect) in &peer.calls {
            let tool = format!("{place}-{tool}");
            world.until_tool(&server, &tool).await;
            let answer = world.call(&server, &tool, arguments).await;
            let found = text_of(&answer);
            let found = serde_json::from_str(found).unwrap_or_else(|_| Value::from(found));
            assert_eq!(found, *expect, "{} {tool}: {answer:#}", peer.name);
        }
    }
    drop(listening);
}

#[tokio::test]
async fn the_reference_server_with_everything_is_usable() {
    let packages = packages().await;
    let script =
        |packages: &PathBuf| packages.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let peer = Peer {
        name: "server-everything",
        program: vec!["node".into(), script(&packages).to_string_lossy().into_owned(), "stdio".into()],
        listening: Some(|packages, port| {
            let script = packages.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
            let mut command = Command::new("node");
            command.arg(script).arg("streamableHttp").env("PORT", port.to_string());
            command
        }),
        calls: vec![
            ("echo", json!({"message": "hello"}), json!("Echo: hello")),
            ("get-sum", json!({"a": 2, "b": 3}), json!("The sum of 2 and 3 is 5.")),
            (
                "trigger-long-running-operation",
                json!({"duration": 1, "steps": 2}),
                json!("Long running operation completed. Duration: 1 seconds, Steps: 2."),
            ),
            (
                "get-tiny-image",
                json!({}),
                json!(
                    "Here's the image you requested:\n[image: image/png, 4033 bytes]\nThe image above is the MCP logo."
                ),
            ),
        ],
    };
    check(peer, &packages).await;
}

#[tokio::test]
async fn the_reference_server_of_files_is_usable() {
    let packages = packages().await;
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    std::fs::write(root.join("answer.txt"), "It is 42.").unwrap();
    let program = packages.join("node_modules/.bin/mcp-server-filesystem");
    let path = root.join("answer.txt").to_string_lossy().into_owned();
    let peer = Peer {
        name: "server-filesystem",
        program: vec![program.to_string_lossy().into_owned(), root.to_string_lossy().into_owned()],
        listening: None,
        calls: vec![("read-text-file", json!({"path": path}), json!({"content": "It is 42."}))],
    };
    check(peer, &packages).await;
}

#[tokio::test]
async fn a_server_of_the_python_sdk_is_usable() {
    let packages = packages().await;
    let script = workspace().join("interop/mcp/peers/server.py").to_string_lossy().into_owned();
    let peer = Peer {
        name: "the Python SDK",
        program: vec![packages.join("venv/bin/python").to_string_lossy().into_owned(), script],
        listening: Some(|packages, port| {
            let mut command = Command::new(packages.join("venv/bin/python"));
            command.arg(workspace().join("interop/mcp/peers/server.py")).arg(port.to_string());
            command
        }),
        calls: vec![
            ("word-count", json!({"text_to_count": "one two three"}), json!({"result": 3})),
            ("fail", json!({"reason": "because"}), json!("Error executing tool fail")),
        ],
    };
    check(peer, &packages).await;
}
