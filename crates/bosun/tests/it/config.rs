//! Settings from the file, the environment and the command line.

use std::path::Path;

use serde_json::Value;
use tokio::process::Command;

use crate::program::{bosun, run, stderr, stdout, workspace};

/// `bosun config` in a directory where `bosun.toml` has this text.
fn config(directory: &Path, text: &str) -> Command {
    std::fs::write(directory.join("bosun.toml"), text).unwrap();
    let mut command = bosun();
    command.arg("config").current_dir(directory);
    command
}

async fn shown(command: &mut Command) -> Value {
    let output = run(command.arg("--json")).await;
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// The file is the manual: it lists every setting with its default.
#[tokio::test]
async fn the_default_file_is_current_and_states_the_defaults() {
    let current = stdout(&run(bosun().args(["config", "--default"])).await);
    let path = workspace().join("examples/bosun.toml");
    if std::env::var_os("BOSUN_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == current, "examples/bosun.toml is out of date: run this test with BOSUN_UPDATE_DOCS=1");

    let directory = tempfile::tempdir().unwrap();
    let defaults = shown(&mut config(directory.path(), "")).await;
    assert_eq!(shown(&mut config(directory.path(), &stored)).await, defaults, "a file of comments says nothing");
    for (name, setting) in defaults.as_object().unwrap() {
        assert_eq!(setting["from"], "default", "{name}");
        let key = name.rsplit('.').next().unwrap();
        assert!(stored.contains(&format!("\n#{key} = ")), "{name} is not in the file");
    }
    // With every line that has a default uncommented, all of them come from the file and are the same.
    let lines: Vec<_> = stored.lines().collect();
    let uncommented: String = lines
        .iter()
        .enumerate()
        .map(|(index, line)| {
            let set = line.starts_with('#') && !line.starts_with("# ") && line.contains(" = ");
            let has_default = !index.checked_sub(1).is_some_and(|above| lines[above].ends_with("not set by default"));
            if set && has_default { format!("{}\n", &line[1..]) } else { format!("{line}\n") }
        })
        .collect();
    let from_file = shown(&mut config(directory.path(), &uncommented)).await;
    let mut from_files = 0;
    for (name, setting) in from_file.as_object().unwrap() {
        assert_eq!(setting["value"], defaults[name]["value"], "{name}");
        from_files += usize::from(setting["from"].as_str().unwrap().starts_with("bosun.toml:"));
    }
    assert!(from_files >= 12, "{from_file}");
}

#[tokio::test]
async fn the_command_line_overrides_the_environment_which_overrides_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let text = "listen = \"127.0.0.1:1\"\ndata = \"a\"\nmanifests = [\"x\", \"y\"]\n\n[limits]\nmax_running = 7\nquery_timeout = \"7s\"\nttl = \"7h\"\n";
    let mut command = config(directory.path(), text);
    command.env("BOSUN_LISTEN", "127.0.0.1:2").env("BOSUN_MAX_RUNNING", "8").env("BOSUN_TTL", "8h").args([
        "--listen",
        "127.0.0.1:3",
        "--ttl",
        "9h",
    ]);
    let shown = shown(&mut command).await;
    for (name, value, from) in [
        ("listen", Value::from("127.0.0.1:3"), "--listen"),
        ("data", "a".into(), "bosun.toml:2:1"),
        ("manifests", vec!["x", "y"].into(), "bosun.toml:3:1"),
        ("secrets", "./secrets".into(), "default"),
        ("limits.max_running", 8.into(), "BOSUN_MAX_RUNNING"),
        ("limits.query_timeout", "7s".into(), "bosun.toml:7:1"),
        ("limits.ttl", "9h".into(), "--ttl"),
        ("limits.max_tokens", Value::Null, "default"),
    ] {
        assert_eq!(shown[name]["value"], value, "{name}");
        assert_eq!(shown[name]["from"], from, "{name}");
    }
    let mut command = config(directory.path(), text);
    let printed = stdout(&run(&mut command).await);
    assert!(printed.contains("[limits]") && printed.contains("max_running = 7"), "{printed}");
    assert!(printed.contains("# bosun.toml:6:1") && printed.contains("# max_tokens is not set"), "{printed}");
}

#[tokio::test]
async fn a_server_starts_with_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let text = "listen = \"127.0.0.1:0\"\nmanifests = [\"nowhere\"]\n";
    std::fs::write(directory.path().join("settings.toml"), text).unwrap();
    let output = run(bosun().args(["serve", "--config", "settings.toml"]).current_dir(directory.path())).await;
    assert!(stderr(&output).contains("there are no agents in nowhere"), "{}", stderr(&output));
    let output = run(bosun().args(["serve", "--config", "gone.toml"]).current_dir(directory.path())).await;
    assert!(stderr(&output).contains("gone.toml cannot be read"), "{}", stderr(&output));
}

#[tokio::test]
async fn every_fault_of_the_file_is_reported_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    for (text, expect) in [
        ("lisen = \"127.0.0.1:1\"", &["bosun.toml:1:1: unknown field `lisen`", "did you mean `listen`?"][..]),
        ("listen = 8080", &["bosun.toml:1:10: `listen` must be a string, not a number", "[wrong_type]"]),
        ("listen = \"8080\"", &["bosun.toml:1:10: `listen` is invalid: write it as ADDRESS:PORT", "[invalid_setting]"]),
        ("\n  data = true", &["bosun.toml:2:10: `data` must be a string, not a boolean"]),
        ("manifests = \"x\"", &["bosun.toml:1:13: `manifests` must be a list of strings"]),
        ("manifests = [\"x\", 7]", &["`manifests` must be a list of strings"]),
        ("log = \"loud\"", &["bosun.toml:1:7: `log` is invalid"]),
        ("[limits]\nmax_running = \"7\"", &["bosun.toml:2:15: `max_running` must be a number, not a string"]),
        ("[limits]\nmax_running = 0", &["bosun.toml:2:15: `max_running` is invalid"]),
        ("[limits]\nquery_timeout = \"soon\"", &["bosun.toml:2:17: `query_timeout` is invalid: write it like `30s`"]),
        ("[limits]\nlisten = \"127.0.0.1:1\"", &["bosun.toml:2:1: `limits` has no field `listen`"]),
        ("[limit]", &["bosun.toml:1:2: unknown field `limit`", "did you mean `limits`?"]),
        ("limits = 7", &["bosun.toml:1:10: `limits` must be a table"]),
        ("listen = \"a\"\nlisten = \"b\"", &["bosun.toml:2:", "[invalid_toml]"]),
        ("listen = ", &["bosun.toml:1:", "[invalid_toml]"]),
        (
            "allow_private = [\"http://localhost\"]",
            &["bosun.toml:1:17: `allow_private` is invalid: write a host, HOST:PORT or a network such as 10.0.0.0/8"],
        ),
        ("fault = \"x\"", &["unknown field `fault`"]),
        ("x = 1\ny = 2", &["bosun.toml:1:1: unknown field `x`", "bosun.toml:2:1: unknown field `y`"]),
        ("listen = \"0.0.0.0:80\"", &["`--auth keys.toml`"]),
    ] {
        let output = run(&mut config(directory.path(), text)).await;
        assert!(!output.status.success(), "{text}");
        for sentence in expect {
            assert!(stderr(&output).contains(sentence), "`{sentence}` is not in:\n{}", stderr(&output));
        }
    }
}
