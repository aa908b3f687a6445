//! `bosun mcp add` and `list`.

use super::World;
use crate::program::{bosun, run, stderr, stdout};

#[tokio::test]
async fn add_writes_a_manifest_that_the_server_reads() {
    let world = World::new(&[], "otherwise: [{say: x}]\n");
    let dir = world.path().to_string_lossy().into_owned();
    let program = crate::program::program().to_string_lossy().into_owned();
    let add = ["mcp", "add", "tiny", "--dir", &dir, "--env", "TOKEN=@tiny/token", "--env", "MODE=a b: c", "--"];
    let output = run(bosun().args(add).args([&program, "mcp", "stand-in", "good"])).await;
    assert!(output.status.success(), "{}", stderr(&output));
    let again = run(bosun().args(add).args([&program, "mcp", "stand-in", "good"])).await;
    assert!(stderr(&again).contains("tiny.mcp.yaml exists already"), "{}", stderr(&again));
    let url =
        ["mcp", "add", "far", "--dir", &dir, "--url", "http://127.0.0.1:9/mcp", "--header", "X-Team=a", "--bearer"];
    assert!(run(bosun().args(url).arg("far/token")).await.status.success());
    let checked = run(bosun().arg("check").arg(&dir)).await;
    assert!(checked.status.success(), "{}{}", stdout(&checked), stderr(&checked));

    let server = world.start().await;
    // The secret of the program is missing, and nothing is sent to an address whose secret is.
    let found = world.until(&server, "tiny", "failed").await;
    let message = found["status_message"].as_str().unwrap();
    assert!(message.contains("secret `tiny` has no key `token` in namespace `default`"), "{message}");
    world.until(&server, "far", "failed").await;
    let listed = stdout(&run(bosun().args(["mcp", "list", "--server", &server.base])).await);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("far   failed       secret `far` has no key"), "{listed}");
    assert!(lines[1].starts_with("tiny  failed       secret `tiny` has no key"), "{listed}");
}

#[tokio::test]
async fn invalid_usage_is_explained() {
    for (arguments, expect) in [
        (&["mcp", "add", "x"][..], "--url <URL>"),
        (&["mcp", "add", "Not A Name", "--url", "http://x"], "cannot be the name of an MCP server"),
        (&["mcp", "add", "x", "--url", "http://x", "--bearer", "nokey"], "`nokey` is not of the form SECRET/KEY"),
        (&["mcp", "add", "x", "--url", "http://x", "--header", "nothing"], "`nothing` is not of the form NAME=VALUE"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let output = run(bosun().args(arguments).current_dir(directory.path())).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(expect), "{arguments:?}: {}", stderr(&output));
    }
}
