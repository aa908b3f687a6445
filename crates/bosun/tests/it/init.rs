//! `bosun init`: a folder that passes the check, and commands that work as they are printed.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Output,
};

use crate::{
    program::{bosun, free_port, run, run_shell, stderr, stdout},
    terminal::Terminal,
};

async fn init(directory: &Path, arguments: &[&str]) -> Output {
    run(bosun().arg("init").args(arguments).current_dir(directory)).await
}

/// Every file below `directory`, by its path in it.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut ahead = vec![PathBuf::new()];
    while let Some(path) = ahead.pop() {
        for entry in fs::read_dir(directory.join(&path)).unwrap().map(Result::unwrap) {
            let path = path.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                ahead.push(path);
            } else {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

/// The printed commands: lines indented by four spaces, in one block for each terminal.
fn commands(printed: &str) -> Vec<String> {
    let blocks = printed.split("\n\n").filter(|block| block.starts_with("    "));
    blocks.map(|block| block.lines().map(|line| format!("{}\n", line.trim())).collect()).collect()
}

#[tokio::test]
async fn the_commands_that_it_prints_work_in_the_folder_that_it_writes() {
    let directory = tempfile::tempdir().unwrap();
    let output = init(directory.path(), &["my agents", "--model", "scripted"]).await;
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = commands(&stdout(&output));
    let [serve, ask] = printed.as_slice() else { panic!("{printed:?}") };
    let serve = serve.strip_suffix("bosun serve\n").map(|before| format!("{before}bosun serve > ../server.log &\n"));
    let chat = ask.trim_end().rsplit('\n').next().unwrap().to_owned();
    let ask = ask.replace(&chat, &format!("echo 'How much disk space is free?' | {chat}"));
    let port = free_port();
    let script = format!(
        "export BOSUN_LISTEN=127.0.0.1:{port} BOSUN_SERVER=http://127.0.0.1:{port}\n\
         here=$PWD\n{}curl --silent --retry 9 --retry-connrefused $BOSUN_SERVER/health\ncd \"$here\"\n{ask}",
        serve.expect("the server comes last"),
    );
    let output = run_shell(&script, directory.path()).await;
    let (printed, log) = (stdout(&output), stderr(&output));
    assert!(output.status.success(), "{printed}{log}");
    assert!(log.contains("3 files, 0 errors, 0 warnings"), "{log}");
    // Once by the query and once by the chat, each with a tool of either side.
    assert_eq!(printed.matches("Filesystem").count(), 2, "{printed}{log}");
    assert_eq!(printed.matches("That was at 20").count(), 2, "{printed}{log}");
    assert_eq!(log.matches("→ disk_space").count(), 2, "{log}");
    assert!(directory.path().join("my agents/data").is_dir(), "the settings of the folder are in force");
}

#[tokio::test]
async fn each_model_has_a_folder_that_passes_the_check() {
    let directory = tempfile::tempdir().unwrap();
    let common = [".gitignore", "agents/assistant.yaml", "agents/model.yaml", "bosun.toml", "tools.json"];
    for (folder, arguments, secret) in [
        ("scripted", &[] as &[&str], None),
        ("openai", &["--model", "openai"], Some("openai")),
        ("anthropic", &["--model", "anthropic", "--model-name", "claude-x"], Some("anthropic")),
        ("local", &["--model", "http://127.0.0.1:11434/v1", "--model-name", "qwen3:8b"], None),
        ("other", &["--model", "https://api.example.com/v1"], Some("model")),
    ] {
        let output = init(directory.path(), &[&[folder], arguments].concat()).await;
        assert!(output.status.success(), "{}", stderr(&output));
        let written = directory.path().join(folder);
        let mut expected: Vec<_> = common.map(str::to_owned).to_vec();
        if folder == "scripted" {
            expected.insert(2, "agents/model.script.yaml".into());
        }
        assert_eq!(files(&written), expected, "{folder}");
        let checked = run(bosun().args(["check", "."]).current_dir(&written)).await;
        assert!(stderr(&checked).ends_with(" 0 errors, 0 warnings\n"), "{}{}", stdout(&checked), stderr(&checked));
        let text = stdout(&output);
        assert_eq!(text.contains("instead of `default`"), folder == "other", "{text}");
        match secret {
            None => assert!(!text.contains("secrets/") && !written.join("secrets").exists(), "{text}"),
            Some(secret) => {
                let mode = |path: &str| fs::metadata(written.join(path)).unwrap().permissions().mode() & 0o777;
                // The printed command, with a key in place of the pasted one.
                let printed = commands(&text);
                let put = &printed[0];
                // Both are typed into one terminal.
                assert_eq!(format!("{put}{}", printed[1]).matches("cd ").count(), 1, "{text}");
                assert!(put.contains(&format!("secrets/default/{secret}/api-key")), "{put}");
                let output = run_shell(&put.replace("cat >", "echo key | cat >"), directory.path()).await;
                assert!(output.status.success(), "{}", stderr(&output));
                assert_eq!(mode(&format!("secrets/default/{secret}/api-key")), 0o600);
                assert_eq!(mode("secrets"), 0o700);
            }
        }
    }
}

#[tokio::test]
async fn existing_files_are_not_overwritten_and_then_no_others_are_written() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("tools.json"), "mine").unwrap();
    fs::write(directory.path().join(".gitignore"), "mine").unwrap();
    let output = init(directory.path(), &[]).await;
    assert_eq!(output.status.code(), Some(1));
    let message = stderr(&output);
    assert!(message.contains("already has tools.json, .gitignore; nothing was written"), "{message}");
    assert_eq!(files(directory.path()), [".gitignore", "tools.json"]);
    assert_eq!(fs::read_to_string(directory.path().join("tools.json")).unwrap(), "mine");
}

#[tokio::test]
async fn an_unknown_model_is_refused_with_the_known_ones() {
    let directory = tempfile::tempdir().unwrap();
    let output = init(directory.path(), &["--model", "gpt"]).await;
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(message.contains("`gpt` is not a model: expected scripted, openai, anthropic or a base URL"), "{message}");
    assert!(files(directory.path()).is_empty());
}

#[tokio::test]
async fn on_a_terminal_it_asks_for_the_model() {
    let directory = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::run(&["init", "asked"], directory.path());
    terminal.sees("Which model?").await;
    terminal.types("gpt\r").await;
    terminal.sees("`gpt` is not a model").await;
    terminal.sees("Which model?").await;
    terminal.types("http://127.0.0.1:11434/v1\r").await;
    terminal.sees("What does the API call the model?").await;
    terminal.types("qwen3:8b\r").await;
    assert_eq!(terminal.end().await, 0);
    let manifest = fs::read_to_string(directory.path().join("asked/agents/model.yaml")).unwrap();
    assert!(manifest.contains("\"http://127.0.0.1:11434/v1\"") && manifest.contains("\"qwen3:8b\""), "{manifest}");
}
