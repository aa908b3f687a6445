//! Every command that a page shows is run verbatim.
//!
//! Blocks marked `sh` are commands, in order, in one shell; other blocks are not. A request that the
//! server refuses fails the test. What is replaced is only what a test must not share with the rest of
//! the machine: the port, and `make`.

use std::{collections::BTreeSet, fmt::Write, path::Path};

use serde_json::Value;

use crate::{
    program::{Server, bosun, free_port, run, run_shell, stderr, stdout, workspace},
    scripted::MODEL,
};

/// The blocks of a page that are marked with `language`.
pub(crate) fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(marked)) => open = Some((marked == language, String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take().filter(|(wanted, _)| *wanted).map(|(_, text)| text)),
            (Some((_, text)), None) => writeln!(text, "{line}").expect("a string takes everything"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

pub(crate) fn read(page: &str) -> String {
    std::fs::read_to_string(workspace().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The commands of a page as one script for a server on `port`.
fn script(page: &str, port: u16) -> String {
    let mut script = String::new();
    for block in blocks(page, "sh") {
        if block.starts_with("curl -N") {
            // It stays open until the query ends, for which a later command is needed.
            writeln!(script, "{} &", block.trim_end()).expect("a string takes everything");
            if let Some(name) = created(&block) {
                let wait =
                    format!("curl --silent --retry 9 --retry-all-errors 'localhost:8080/v1/queries/{name}?wait=20s'\n");
                script.push_str(&wait);
            }
        } else {
            script.extend(block.lines().map(|line| known_target(line) + "\n"));
        }
    }
    script.push_str("wait\n");
    script
        .replace("bosun serve ", &format!("bosun serve --listen 127.0.0.1:{port} "))
        .replace("localhost:8080", &format!("127.0.0.1:{port}"))
}

/// The query that a command creates.
fn created(command: &str) -> Option<&str> {
    command.contains("/queries?").then(|| command.split_once("\"name\": \"")?.1.split('"').next()).flatten()
}

/// `make test` would run this very test: of `make` it is only checked that it knows the target.
fn known_target(line: &str) -> String {
    match line.strip_prefix("make ").and_then(|rest| rest.split_whitespace().next()) {
        Some(target) => format!("make --silent --dry-run --directory '{}' {target} >/dev/null", workspace().display()),
        None => line.to_owned(),
    }
}

async fn run_page(page: &str, port: u16, directory: &Path) -> String {
    let script = script(&read(page), port);
    assert!(script.contains("curl"), "{page} has no commands");
    let script = format!(
        "export BOSUN_SERVER=http://127.0.0.1:{port}\n\
         curl() {{ command curl --fail-with-body --max-time 60 \"$@\"; }}\n\
         {script}"
    );
    let output = run_shell(&script, directory).await;
    assert!(
        output.status.success(),
        "{page} ended with {}\n--- output\n{}\n--- errors\n{}",
        output.status,
        stdout(&output),
        stderr(&output)
    );
    stdout(&output)
}

#[tokio::test]
async fn the_tour_of_the_readme_runs_as_it_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let output = run_page("README.md", free_port(), directory.path()).await;
    assert_eq!(output.matches("25% of 8,432 is 2,108").count(), 3, "{output}");
    assert!(output.contains(r#""status": "tool_call_required""#), "{output}");
    assert!(output.contains("searched for Rust programming language news"), "{output}");
    assert!(output.contains("event: complete"), "{output}");
    assert!(output.contains("Filesystem") && output.contains("That was at 20"), "{output}");
}

#[tokio::test]
async fn the_page_of_the_command_line_has_every_command_and_what_it_shows_runs() {
    let page = read("docs/cli.md");
    let help = stdout(&run(bosun().arg("help")).await);
    let (_, commands) = help.split_once("Commands:\n").expect("a list of commands");
    let commands: Vec<_> = commands
        .lines()
        .map_while(|line| line.trim_start().split(' ').next().filter(|name| !name.is_empty()))
        .collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands.iter().filter(|name| **name != "help") {
        assert!(page.contains(&format!("`bosun {command}`")), "{command} is not on the page");
    }
    let server = Server::start().await;
    let directory = tempfile::tempdir().unwrap();
    let script = format!("export BOSUN_SERVER={}\n{}", server.base, script(&page, server.port()));
    let output = run_shell(&script, directory.path()).await;
    assert_eq!(stdout(&output), "25% of 8,432 is 2,108\n", "{}", stderr(&output));
}

#[tokio::test]
async fn the_commands_of_the_api_page_run() {
    let server = Server::start().await;
    let directory = tempfile::tempdir().unwrap();
    run_page("docs/api.md", server.port(), directory.path()).await;
}

/// The page quotes the example, whose service and server listen on ports of this test here.
#[tokio::test]
async fn the_tour_of_the_tools_page_runs_as_it_is_printed() {
    let page = read("docs/tools.md");
    for (language, file) in [("python", "service.py"), ("yaml", "database-query.yaml")] {
        let text = read(&format!("examples/database/{file}"));
        assert!(blocks(&page, language).iter().any(|block| text.ends_with(block)), "{file} is not as the page has it");
    }
    let directory = tempfile::tempdir().unwrap();
    let (port, service) = (free_port(), free_port());
    let example = directory.path().join("examples/database");
    std::fs::create_dir_all(&example).unwrap();
    for entry in std::fs::read_dir(workspace().join("examples/database")).unwrap().map(Result::unwrap) {
        let text = std::fs::read_to_string(entry.path()).unwrap().replace("8090", &service.to_string());
        std::fs::write(example.join(entry.file_name()), text).unwrap();
    }
    let script = script(&page, port).replace("8090", &service.to_string());
    let script = format!("export BOSUN_SERVER=http://127.0.0.1:{port}\n{script}");
    let output = run_shell(&script, directory.path()).await;
    assert!(output.status.success(), "{}\n{}", stdout(&output), stderr(&output));
    let shown = format!("{}{}", stdout(&output), stderr(&output));
    let results = blocks(&page, "text").into_iter().skip(1).collect::<String>();
    for line in results.lines().filter(|line| *line != "⋮") {
        assert!(shown.contains(line), "`{line}` is not in:\n{shown}");
    }
}

/// From nothing to an agent that uses two public servers. `npx` takes the pinned packages of `interop/mcp`, since the folder
/// is below them.
#[tokio::test]
async fn the_tour_of_the_mcp_page_runs_as_it_is_printed() {
    let packages = crate::mcp::packages().await;
    let directory = tempfile::tempdir_in(packages).unwrap();
    let output = run_page("docs/mcp.md", free_port(), directory.path()).await;
    for line in [
        "{\"content\":\"The answer is 42.\\n\"}",
        "everything  ready ",
        "files       ready ",
        "The file says {\"content\":\"The answer is 42.\\n\"} The sum of 40 and 2 is 42.",
    ] {
        assert!(output.contains(line), "`{line}` is not in:\n{output}");
    }
}

#[tokio::test]
async fn the_commands_of_the_streaming_page_run() {
    let server = Server::start().await;
    let directory = tempfile::tempdir().unwrap();
    let output = run_page("docs/streaming.md", server.port(), directory.path()).await;
    assert!(output.contains("event: complete"), "{output}");
}

/// Checks that the commands of a page have answered with every field that the page shows.
fn assert_answers_as_printed(page: &str, output: &str) {
    fn keys(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.keys().cloned());
                members.values().for_each(|value| keys(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }
    let mut printed = BTreeSet::new();
    for block in blocks(&read(page), "json") {
        let answer = serde_json::from_str(&block).unwrap_or_else(|error| panic!("{page}: {error}: {block}"));
        keys(&answer, &mut printed);
    }
    assert!(!printed.is_empty(), "{page} shows no answer");
    for key in printed {
        assert!(output.contains(&format!("\"{key}\":")), "{page} shows `{key}`, and no command has answered with it");
    }
}

#[tokio::test]
async fn the_commands_of_the_approvals_page_run() {
    let directory = tempfile::tempdir().unwrap();
    let output = run_page("docs/approvals.md", free_port(), directory.path()).await;
    for expected in [
        r#""status":"approval_required""#,
        r#""status":"parameters_required""#,
        "You are invited",
        "rejected; query `second` is",
        "the user rejected this call: no, better not",
    ] {
        assert!(output.contains(expected), "{expected}: {output}");
    }
    assert_eq!(output.matches("Done: {").count(), 2, "{output}");
    assert_answers_as_printed("docs/approvals.md", &output);
}

#[tokio::test]
async fn the_commands_of_the_teams_page_run() {
    let directory = tempfile::tempdir().unwrap();
    let printed = run_page("docs/teams.md", free_port(), directory.path()).await;
    for expected in [
        "Published. Article: The moon makes the tides.",
        r#""agentPath":["manager","researcher"]"#,
        r#""response":"Article: The moon makes the tides.""#,
        r#""response":"Article: high and low water, twice a day.""#,
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    assert_answers_as_printed("docs/teams.md", &printed);
}

#[test]
fn the_manifests_of_the_teams_page_can_be_used() {
    let directory = tempfile::tempdir().unwrap();
    let mut manifests = blocks(&read("docs/teams.md"), "yaml");
    manifests.push(MODEL.to_owned());
    for name in ["researcher", "writer"] {
        let head = "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Agent\n";
        manifests.push(format!("{head}metadata: {{name: {name}}}\nspec: {{prompt: Do it.}}\n"));
    }
    std::fs::write(directory.path().join("agents.yaml"), manifests.join("---\n")).unwrap();
    std::fs::write(directory.path().join("model.script.yaml"), "otherwise: [{say: x}]\n").unwrap();
    let builtins = bosun_adapters::runner::builtin::Builtins::new(std::sync::Arc::new(bosun_engine::SystemClock));
    let loaded = bosun_adapters::manifests::load(&[directory.path().to_owned()], &builtins).unwrap();
    assert_eq!((loaded.agents.len(), loaded.teams.len()), (3, 1));
}

#[tokio::test]
async fn the_commands_of_the_a2a_page_run() {
    let server = Server::start().await;
    let directory = tempfile::tempdir().unwrap();
    let output = run_page("docs/a2a.md", server.port(), directory.path()).await;
    assert!(output.contains("25% of 8,432 is 2,108\nTASK_STATE_COMPLETED\ncompleted\n"), "{output}");
    assert!(output.contains("statusUpdate") && output.contains("artifactUpdate"), "{output}");
    assert_eq!(output.matches("25% of 8,432 is 2,108\n").count(), 2, "the client of the command line: {output}");
}

#[tokio::test]
async fn the_commands_of_the_audit_page_run() {
    let directory = tempfile::tempdir().unwrap();
    let output = run_page("docs/audit.md", free_port(), directory.path()).await;
    assert_eq!(output.matches(" of 1 namespace, ").count(), 3, "{output}");
    assert!(output.contains("call.handed_out") && directory.path().join("audit.jsonl").exists(), "{output}");
}

#[tokio::test]
async fn the_commands_of_the_operations_page_run() {
    let directory = tempfile::tempdir().unwrap();
    let output = run_page("docs/operations.md", free_port(), directory.path()).await;
    for line in ["entries, ok: ./backup", "entries, ok\n"] {
        assert!(output.contains(line), "`{line}` is not in {output}");
    }
    assert!(directory.path().join("data.damaged").exists());
}

#[tokio::test]
async fn the_commands_of_the_page_on_n8n_in_docker_run() {
    let directory = tempfile::tempdir().unwrap();
    // Tests listen on loopback only.
    let page = read("docs/n8n-docker.md").replace(" --listen 0.0.0.0:8080", "");
    let output = run_shell(&script(&page, free_port()), directory.path()).await;
    assert!(output.status.success(), "{}\n{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains(r#""n8n""#), "{}", stdout(&output));
}

#[test]
fn the_manifests_of_the_readme_can_be_served() {
    let manifests = blocks(&read("README.md"), "yaml");
    assert_eq!(manifests.len(), 1);
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("agents.yaml"), &manifests[0]).unwrap();
    let builtins = bosun_adapters::runner::builtin::Builtins::new(std::sync::Arc::new(bosun_engine::SystemClock));
    let loaded = bosun_adapters::manifests::load(&[directory.path().to_owned()], &builtins).unwrap();
    assert_eq!((loaded.agents.len(), loaded.models.len()), (1, 1));
}

#[tokio::test]
async fn the_commands_of_the_models_page_run() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let page =
        read("docs/models.md").replace("bosun models serve", &format!("bosun models serve --listen 127.0.0.1:{port}"));
    let output =
        run_shell(&script(&page, port).replace("localhost:8090", &format!("127.0.0.1:{port}")), directory.path()).await;
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains(r#"{"type":"text","text":"Hello! How can I help?"}"#), "{}", stdout(&output));
}

#[tokio::test]
async fn the_commands_and_the_settings_of_the_nango_page_run() {
    let directory = tempfile::tempdir().unwrap();
    let (port, nango) = (free_port(), free_port());
    let page = read("docs/nango.md")
        .replace("bosun nango serve", &format!("bosun nango serve --listen 127.0.0.1:{nango}"))
        .replace("127.0.0.1:3003", &format!("127.0.0.1:{nango}"));
    let output = run_shell(&script(&page, port), directory.path()).await;
    assert!(output.status.success(), "{}\n{}", stdout(&output), stderr(&output));
    let shown = stdout(&output);
    assert!(shown.contains("Re: invoice 7") && !shown.contains("Lunch?"), "{shown}");
    assert!(shown.contains("thread-9"), "{shown}");
    // The settings as they are printed.
    let [settings] = &blocks(&page, "toml")[..] else { panic!("one block of settings") };
    std::fs::write(directory.path().join("bosun.toml"), settings).unwrap();
    let shown = run(bosun().arg("config").current_dir(directory.path())).await;
    assert!(stdout(&shown).contains(r#"connections = { "google-mail-ynxw" = "my-connection" }"#), "{}", stdout(&shown));
}

#[test]
fn the_manifests_and_the_script_of_the_models_page_can_be_used() {
    let page = read("docs/models.md");
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("models.yaml"), blocks(&page, "yaml").join("---\n")).unwrap();
    let builtins = bosun_adapters::runner::builtin::Builtins::new(std::sync::Arc::new(bosun_engine::SystemClock));
    let loaded = bosun_adapters::manifests::load(&[directory.path().to_owned()], &builtins);
    let names: Vec<_> = loaded.unwrap().models.into_iter().map(|model| model.name).collect();
    assert_eq!(names, ["openai", "local", "gemini", "azure", "claude"]);
    let script = blocks(&page, "yml").concat();
    bosun_adapters::model::scripted::Script::parse(Path::new("docs/models.md"), &script).unwrap();
}

#[test]
fn pages_link_to_pages_that_exist() {
    let others =
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "examples/README.md"].map(|page| workspace().join(page));
    let docs = std::fs::read_dir(workspace().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")).chain(others);
    for path in pages {
        let (text, page) = (std::fs::read_to_string(&path).unwrap(), path.display());
        let directory = path.parent().unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if !target.is_empty() && !target.contains("://") {
                assert!(directory.join(target).exists(), "{page} links to {target}");
            }
        }
    }
}

#[test]
fn blocks_are_distinguished_by_their_language() {
    let page = "a\n```sh\none\ntwo\n```\n```text\nno\n```\n```sh\nthree\n```\n";
    assert_eq!(blocks(page, "sh"), ["one\ntwo\n", "three\n"]);
    assert_eq!(blocks(page, "text"), ["no\n"]);
}
