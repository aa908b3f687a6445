//! Approvals and missing parameters, against the real process: what waits, who decides, and what survives a kill.

use std::process::Stdio;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::ChildStderr,
};

use crate::{
    agent_tools::agent,
    program::{Server, bosun, run, run_with_input, stderr, stdout, workspace},
    support::{
        client::{Answer, Client, http},
        soon,
    },
};

async fn send(client: &Client, method: Method, path: &str, body: Option<&Value>) -> Answer {
    client.ask(&method, path, body).await.expect("an answer")
}

async fn ask(client: &Client, name: &str, agent: &str, input: &str) -> Value {
    let body = json!({"name": name, "input": input, "target": {"type": "agent", "name": agent}});
    send(client, Method::POST, "?wait=20s&view=rfc", Some(&body)).await.body
}

async fn decide(client: &Client, name: &str, decision: &Value) -> Answer {
    send(client, Method::POST, &format!("/{name}/approval?view=rfc"), Some(decision)).await
}

/// The manifests of an agent whose tool has this `spec`, and annotations of the agent.
fn writer(tool: &str, annotations: &str) -> tempfile::TempDir {
    let others = format!(
        "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {{name: write}}
spec: {{type: builtin, builtin: {{name: noop}}, description: Writes{tool}}}
"
    );
    let script = "
scenes:
  - when: go
    turns:
      - call: [{tool: write, arguments: {message: hello}}]
      - say: '{{ result.write }}'
";
    let directory = agent("[{type: custom, name: write}]", &others, script);
    let path = directory.path().join("agents.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let named = format!("metadata: {{name: tester, annotations: {{{annotations}}}}}");
    std::fs::write(&path, text.replace("metadata: {name: tester}", &named)).unwrap();
    directory
}

#[tokio::test]
async fn the_most_specific_policy_decides_whether_a_call_waits() {
    let destructive = ", annotations: {destructiveHint: true}";
    for (tool, annotations, options, waits) in [
        ("", "", &[][..], false),
        (", annotations: {readOnlyHint: false}", "", &[], false),
        (", annotations: {destructiveHint: false}", "", &[], false),
        (destructive, "", &[], true),
        (destructive, "", &["--confirm", "never"], false),
        ("", "", &["--confirm", "always"], true),
        ("", "bosun.dev/confirm: always", &[], true),
        (destructive, "bosun.dev/confirm: never", &[], false),
        ("", "bosun.dev/confirm: never", &["--confirm", "always"], false),
        (", approval: {required: true}", "bosun.dev/confirm: never", &[], true),
        (", approval: {required: false}, annotations: {destructiveHint: true}", "", &["--confirm", "always"], false),
    ] {
        let manifests = writer(tool, annotations);
        let server = Server::start_in(manifests.path(), options).await;
        let asked = ask(&Client::of(&server.base), "q", "tester", "go").await;
        let expected = if waits { "awaiting_approval" } else { "completed" };
        assert_eq!(asked["state"], expected, "{tool} {annotations} {options:?}: {asked}");
    }
}

/// What the operator wants approved, a client cannot run without approval by storing an agent of its own.
#[tokio::test]
async fn an_agent_that_a_client_stores_waives_no_approval() {
    let manifests = writer(", annotations: {destructiveHint: true}", "");
    let server = Server::start_with(manifests.path()).await;
    let store = async |name: &str, annotations: Value, approval: Value| {
        let tool = json!({"type": "custom", "name": "write"});
        let tool =
            if approval.is_null() { tool } else { json!({"type": "custom", "name": "write", "approval": approval}) };
        let body = json!({
            "metadata": {"name": name, "annotations": annotations}, "spec": {"prompt": "Write.", "tools": [tool]},
        });
        let answer = http().post(format!("{}/v1/agents", server.base)).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    for (annotations, approval) in [
        (json!({"bosun.dev/confirm": "never"}), Value::Null),
        (json!({"bosun.dev/confirm": "auto"}), Value::Null),
        (json!({}), json!({"required": false})),
    ] {
        let (status, text) = store("waiver", annotations.clone(), approval.clone()).await;
        assert_eq!(status, 422, "{annotations} {approval}: {text}");
        assert!(text.contains(r#""code":"approval_required""#), "{annotations} {approval}: {text}");
    }
    for (name, annotations, approval) in [
        ("plain", json!({}), Value::Null),
        ("careful", json!({"bosun.dev/confirm": "always"}), json!({"required": true, "timeout": "1h"})),
    ] {
        let (status, text) = store(name, annotations, approval).await;
        assert_eq!(status, 200, "{name}: {text}");
        let asked = ask(&Client::of(&server.base), name, name, "go").await;
        assert_eq!(asked["state"], "awaiting_approval", "{name}: {asked}");
    }
}

#[tokio::test]
async fn an_approval_survives_a_kill_and_is_used_once() {
    let mut server = Server::start_with(&workspace().join("examples/approvals")).await;
    let asked = ask(&Client::of(&server.base), "q", "postmaster", "Invite Ada").await;
    let approval = &asked["approvals"][0];
    assert_eq!(approval["arguments"], json!({"to": "ada@example.com", "subject": "Invitation"}), "{asked}");
    server.kill_and_restart().await;
    let client = Client::of(&server.base);
    let other = json!({"toolCallId": approval["id"], "decision": "approved", "hash": "0".repeat(64)});
    assert_eq!(decide(&client, "q", &other).await.code(), "arguments_changed");
    let good = json!({"toolCallId": approval["id"], "decision": "approved", "hash": approval["hash"]});
    let answer = decide(&client, "q", &good).await;
    assert_eq!((answer.status, answer.replayed, answer.state()), (200, false, "completed"), "{answer:?}");
    server.kill_and_restart().await;
    let client = Client::of(&server.base);
    let again = decide(&client, "q", &good).await;
    assert_eq!((again.status, again.replayed), (200, true), "{again:?}");
    let changed = json!({"toolCallId": approval["id"], "decision": "rejected"});
    assert_eq!(decide(&client, "q", &changed).await.code(), "already_decided");
    let history = &again.body["toolExecutionHistory"];
    assert_eq!(history.as_array().unwrap().len(), 1, "{again:?}");
    let audit = reqwest::get(format!("{}/v1/audit?query=q", server.base)).await.unwrap().text().await.unwrap();
    for action in ["approval.required", "approval.approved", "approval.refused"] {
        assert!(audit.contains(action), "{action}: {audit}");
    }
}

#[tokio::test]
async fn what_is_not_a_decision_decides_nothing() {
    let server = Server::start_with(&workspace().join("examples/approvals")).await;
    let client = Client::of(&server.base);
    let asked = ask(&client, "q", "postmaster", "Invite Ada").await;
    let id = &asked["approvals"][0]["id"];
    for (body, code) in [
        (json!({}), "invalid_decision"),
        (json!({"decision": "yes"}), "invalid_decision"),
        (json!({"decision": "approved", "text": "go on"}), "invalid_decision"),
        (json!({"decision": "approved", "hash": "abc"}), "invalid_decision"),
        (json!({"decision": "approved", "arguments": []}), "invalid_decision"),
        (json!({"decision": "rejected", "arguments": {}}), "invalid_decision"),
        (json!({"decision": "rejected", "reason": "x".repeat(17_000)}), "invalid_decision"),
        (json!({"decision": "approved", "toolCallId": "call_1"}), "call_not_found"),
        (json!({"decision": "approved", "arguments": {"to": 7, "subject": "x"}}), "invalid_tool_arguments"),
        (json!({"decision": "approved", "arguments": {"to": "eve@example.com"}}), "invalid_tool_arguments"),
    ] {
        let refused = decide(&client, "q", &body).await;
        assert_eq!(refused.code(), code, "{body}: {refused:?}");
    }
    let forged = json!({"toolCallId": id, "toolResult": "sent"});
    let refused = send(&client, Method::POST, "/q/tool-result", Some(&forged)).await;
    assert_eq!(refused.code(), "call_not_found", "a result is not an approval");
    let open = send(&client, Method::GET, "/q?view=rfc", None).await;
    assert_eq!(open.state(), "awaiting_approval", "{open:?}");
    let decided = decide(&client, "q", &json!({"text": "yes please"})).await;
    assert_eq!(decided.state(), "completed", "{decided:?}");
    let response = decided.body["response"].as_str().unwrap();
    assert!(response.contains("the user rejected this call: yes please"), "text is never consent: {response}");
}

#[tokio::test]
async fn the_inbox_and_arks_form_find_a_call_by_its_id() {
    let server = Server::start_with(&workspace().join("examples/approvals")).await;
    let client = Client::of(&server.base);
    for name in ["first", "second"] {
        ask(&client, name, "postmaster", "Invite Ada").await;
    }
    let http = http();
    let inbox = async || -> Value {
        let text = http.get(format!("{}/v1/approvals", server.base)).send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let open = inbox().await;
    assert_eq!(open["total"], 2, "{open}");
    let (query, id) = (open["items"][1]["query"].as_str().unwrap(), open["items"][1]["id"].as_str().unwrap());
    assert_eq!(query, "first", "the newest query comes first");
    let task = |id: &str| format!("{}/v1/a2a-tasks/{id}/approval", server.base);
    let decide = async |id: &str| {
        let body = json!({"decision": "approved"}).to_string();
        let answer = http.post(task(id)).header("content-type", "application/json").body(body).send().await.unwrap();
        (answer.status().as_u16(), serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap())
    };
    let (status, decided) = decide(id).await;
    let expected = json!({"name": "first", "namespace": "default", "taskId": id, "decision": "approved"});
    assert_eq!((status, &decided), (200, &expected));
    let (status, refused) = decide(id).await;
    assert_eq!(status, 409, "{refused}");
    assert_eq!(refused["detail"], format!("A2ATask '{id}' is not awaiting approval"));
    assert_eq!(decide("nothing").await.0, 404);
    assert_eq!(inbox().await["total"], 1);
}

#[tokio::test]
async fn missing_parameters_are_asked_for_validated_and_given_to_the_model() {
    let mut server = Server::start_with(&workspace().join("examples/approvals")).await;
    let asked = ask(&Client::of(&server.base), "q", "postmaster", "Invite someone").await;
    let request = &asked["parameterRequests"][0];
    assert_eq!((&asked["status"], &request["tool"]), (&json!("parameters_required"), &json!("send-email")), "{asked}");
    let parameter = json!({"path": "to", "type": "string", "description": "The recipient", "prompt": "To whom?"});
    assert_eq!(request["parameters"], json!([parameter]), "{asked}");
    server.kill_and_restart().await;
    let client = Client::of(&server.base);
    let give = async |values: Value| {
        let body = json!({"toolCallId": request["id"], "toolResult": values});
        send(&client, Method::POST, "/q/tool-result?view=rfc", Some(&body)).await
    };
    for values in [json!({}), json!({"to": 7}), json!({"to": "ada", "bcc": "eve"}), json!("ada")] {
        let refused = give(values.clone()).await;
        assert_eq!((refused.status, refused.code()), (422, "invalid_tool_result"), "{values}: {refused:?}");
    }
    let answer = give(json!({"to": "ada@example.com"})).await;
    assert_eq!((answer.status, answer.state()), (200, "awaiting_approval"), "{answer:?}");
}

#[tokio::test]
async fn a_call_without_its_parameters_tells_the_model_which() {
    let script = "
scenes:
  - when: go
    turns:
      - call: [{tool: send-email, arguments: {subject: hello}}]
      - say: done
";
    let tool = std::fs::read_to_string(workspace().join("examples/approvals/agents.yaml")).unwrap();
    let tool = tool.split("---").nth(1).unwrap();
    let manifests = agent("[{type: custom, name: send-email}]", &format!("---{tool}"), script);
    let server = Server::start_with(manifests.path()).await;
    let ended = ask(&Client::of(&server.base), "q", "tester", "go").await;
    let error = &ended["toolExecutionHistory"][0]["error"];
    assert_eq!(error["code"], "missing_parameters", "{ended}");
    assert_eq!(error["message"], "Missing required parameter: to", "{ended}");
}

/// The list says of each parameter what its schema says, so that the model can ask for it.
#[tokio::test]
async fn the_model_reads_the_missing_parameters_of_a_wrapped_tool_as_data() {
    let tool = "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: invite}
spec:
  type: builtin
  builtin: {name: noop}
  description: Invites
  inputSchema:
    type: object
    properties:
      input:
        type: object
        properties:
          to: {type: string, description: The recipient, prompt: To whom?}
          urgency: {type: string, enum: [low, high], hint: How soon it must arrive}
          subject: {type: string}
        required: [to, urgency]
    required: [input]
";
    let script = "
scenes:
  - when: go
    turns:
      - call: [{tool: invite, arguments: {input: {subject: hello}}}]
      - say: '{{ result.invite }}'
";
    let manifests = agent("[{type: custom, name: invite}]", tool, script);
    let server = Server::start_with(manifests.path()).await;
    let ended = ask(&Client::of(&server.base), "q", "tester", "go").await;
    let read = ended["response"].as_str().unwrap();
    let (message, content) = read.split_once('\n').unwrap();
    assert!(message.starts_with("Error: Missing required parameter: "), "{read}");
    let expect = json!({"missing": [
        {"path": "input.to", "type": "string", "description": "The recipient", "prompt": "To whom?"},
        {"path": "input.urgency", "type": "string", "enum": ["low", "high"], "hint": "How soon it must arrive"},
    ]});
    assert_eq!(serde_json::from_str::<Value>(content).unwrap(), expect, "{ended}");
}

/// `bosun query` of the example agent, with this as its standard input.
async fn asking(server: &Server, name: &str, question: &str, input: &str) -> tokio::process::Child {
    let mut command = bosun();
    command.args(["query", "--agent", "postmaster", question, "--name", name, "--server", &server.base]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).await.expect("the command reads");
    child
}

/// What a command writes to standard error, up to a line with this text.
async fn lines_until(lines: &mut Lines<BufReader<ChildStderr>>, text: &str) -> String {
    let mut shown = String::new();
    let reading = async {
        while let Some(line) = lines.next_line().await.expect("text") {
            shown.push_str(&line);
            shown.push('\n');
            if line.contains(text) {
                return;
            }
        }
        panic!("`{text}` is not in:\n{shown}");
    };
    soon(text, reading).await;
    shown
}

fn error_lines(child: &mut tokio::process::Child) -> Lines<BufReader<ChildStderr>> {
    BufReader::new(child.stderr.take().expect("a pipe")).lines()
}

/// The arguments of the command that a line shows behind this text.
fn shown_command(shown: &str, before: &str) -> Vec<String> {
    let line = shown.lines().find_map(|line| line.split_once(before)).expect("the line").1;
    line.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn at_the_end_of_its_input_a_command_says_what_it_waits_for_and_how_to_decide() {
    let server = Server::start_with(&workspace().join("examples/approvals")).await;
    let mut waiting = asking(&server, "q", "Invite Ada", "").await;
    let mut lines = error_lines(&mut waiting);
    let shown = lines_until(&mut lines, "this client waits for it").await;
    assert!(shown.contains("send-email waits for approval, and there is no more input"), "{shown}");
    assert!(shown.contains("reject it:  bosun approvals reject q call_"), "{shown}");
    // The command that is shown works as it is.
    let mut approving = bosun();
    approving.args(shown_command(&shown, "approve it: bosun "));
    let approved = run(&mut approving).await;
    assert_eq!(approved.status.code(), Some(0), "{}", stderr(&approved));
    lines_until(&mut lines, "completed").await;
    let output = soon("the end of the query", waiting.wait_with_output()).await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(!output.stdout.is_empty(), "the answer");
}

#[tokio::test]
async fn at_the_end_of_its_input_a_command_says_which_values_are_missing_and_how_to_send_them() {
    let server = Server::start_with(&workspace().join("examples/approvals")).await;
    let mut waiting = asking(&server, "q", "Invite someone", "").await;
    let mut lines = error_lines(&mut waiting);
    let shown = lines_until(&mut lines, "this client waits for it").await;
    assert!(shown.contains("request_missing_parameters waits for values, and there is no more input"), "{shown}");
    let line = shown.lines().find(|line| line.contains("send them: curl ")).expect("a command");
    let (url, body) = line.split_once("curl '").unwrap().1.split_once("' -d '").expect("a body");
    let mut body: Value = serde_json::from_str(body.trim_end_matches('\'')).expect("JSON");
    assert_eq!(body["toolResult"], json!({"to": "…"}), "{shown}");
    body["toolResult"] = json!({"to": "ada@example.com"});
    let answer = http().post(url).json(&body).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    let shown = lines_until(&mut lines, "this client waits for it").await;
    assert!(shown.contains("send-email waits for approval"), "and then for the approval of the call: {shown}");
}

#[tokio::test]
async fn a_command_asks_again_for_values_that_are_not_valid() {
    let script = "
scenes:
  - when: go
    turns:
      - call:
          - tool: request_missing_parameters
            arguments: {intended_tool_name: repeat, missing_params: [times], clarification_question: How often?}
      - say: '{{ result[0] }}'
";
    let tool = "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: repeat}
spec:
  type: builtin
  builtin: {name: noop}
  description: Repeats
  inputSchema: {type: object, properties: {times: {type: integer}}, required: [times]}
";
    let tools = "[{type: custom, name: repeat}, {type: builtin, name: request_missing_parameters}]";
    let manifests = agent(tools, tool, script);
    let server = Server::start_with(manifests.path()).await;
    let mut command = bosun();
    command.args(["query", "--agent", "tester", "go", "--server", &server.base]);
    let output = run_with_input(&mut command, "often\n3\n").await;
    let shown = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert_eq!(shown.matches("How often?").count(), 2, "{shown}");
    assert!(shown.contains("was not accepted"), "{shown}");
    assert!(stdout(&output).contains('3'), "{}", stdout(&output));
}

/// What a person reads on the screen, in the stream and in the query is the same.
#[tokio::test]
async fn the_event_has_what_the_query_shows() {
    let server = Server::start_with(&workspace().join("examples/approvals")).await;
    let asked = ask(&Client::of(&server.base), "q", "postmaster", "Invite Ada").await;
    let approval = asked["approvals"][0].as_object().unwrap();
    for field in ["id", "name", "arguments", "preview", "hash", "deadline"] {
        assert!(approval.contains_key(field), "{field}: {asked}");
    }
    // The stream ends with the query.
    let events = http().get(format!("{}/v1/queries/q/events", server.base)).send().await.unwrap();
    decide(&Client::of(&server.base), "q", &json!({"decision": "rejected"})).await;
    let events = soon("the end of the stream", events.text()).await.unwrap();
    let data = events.split("event: approval_required\n").nth(1).and_then(|rest| rest.split("data: ").nth(1)).unwrap();
    let event: Value = serde_json::from_str(data.lines().next().unwrap()).unwrap();
    for (field, value) in approval {
        assert_eq!(&event[field], value, "{field}: {event}");
    }
}

#[tokio::test]
async fn the_commands_list_approve_and_reject() {
    let server = Server::start_with(&workspace().join("examples/approvals")).await;
    let client = Client::of(&server.base);
    let command = async |arguments: &[&str]| {
        let output = run(bosun().arg("approvals").args(arguments).args(["--server", &server.base])).await;
        (output.status.code(), stdout(&output), stderr(&output))
    };
    assert_eq!(command(&["list"]).await.1, "no call waits for approval\n");
    let first = ask(&client, "first", "postmaster", "Invite Ada").await;
    ask(&client, "second", "postmaster", "Invite Ada").await;
    let id = first["approvals"][0]["id"].as_str().unwrap();
    let (code, listed, _) = command(&["list"]).await;
    assert_eq!(code, Some(0));
    assert!(listed.contains(&format!("first {id} until ")), "{listed}");
    assert!(listed.contains(r#"send-email {"to":"ada@example.com","subject":"Invitation"}"#), "{listed}");
    let (code, _, error) = command(&["approve", "first", id, "--arguments", "{to: eve}"]).await;
    assert!(code == Some(2) && error.contains("`--arguments` is not valid JSON"), "{code:?} {error}");
    let (code, _, error) = command(&["approve", "first", id, "--arguments", r#"{"to": 7}"#]).await;
    assert!(code == Some(1) && error.contains("invalid_tool_arguments"), "{code:?} {error}");
    let edited = r#"{"to": "eve@example.com", "subject": "Invitation"}"#;
    let (code, said, error) = command(&["approve", "first", id, "--arguments", edited]).await;
    assert!(code == Some(0) && said.starts_with("approved; query `first` is "), "{said} {error}");
    let ended = send(&client, Method::GET, "/first?wait=20s&view=rfc", None).await;
    assert!(ended.body["response"].as_str().unwrap().contains("eve@example.com"), "{ended:?}");
    let (code, _, error) = command(&["reject", "first", id]).await;
    assert!(code == Some(1) && error.contains("was approved already"), "{code:?} {error}");
    let (code, said, error) = command(&["reject", "second", "--reason", "not this week"]).await;
    assert!(code == Some(0) && said.starts_with("rejected; query `second` is "), "{said} {error}");
    let ended = send(&client, Method::GET, "/second?wait=20s&view=rfc", None).await;
    assert!(ended.body["response"].as_str().unwrap().contains("rejected this call: not this week"), "{ended:?}");
    assert_eq!(command(&["list"]).await.1, "no call waits for approval\n");
}

/// The arguments are shown before the question, and only `y` and `yes` approve.
#[tokio::test]
async fn a_command_shows_the_arguments_and_takes_nothing_but_yes_for_an_approval() {
    let server = Server::start_with(&workspace().join("examples/approvals")).await;
    for (answer, is_approved) in
        [("y", true), ("YES", true), ("", false), ("n", false), ("ok", false), ("yes, but later", false)]
    {
        let mut command = bosun();
        command.args(["query", "--agent", "postmaster", "Invite Ada", "--server", &server.base]);
        let output = run_with_input(&mut command, &format!("{answer}\n")).await;
        let (said, shown) = (stdout(&output), stderr(&output));
        assert!(shown.contains("ada@example.com") && shown.contains("[y/N]"), "{answer:?}: {shown}");
        assert_eq!(said.contains(r#"Done: {"to":"ada@example.com""#), is_approved, "{answer:?}: {said} {shown}");
        assert_eq!(said.contains("the user rejected this call"), !is_approved, "{answer:?}: {said}");
    }
}

/// A person edits what the model wrote, not what the agent sets.
#[tokio::test]
async fn an_edit_changes_nothing_that_the_agent_sets() {
    let tool = "---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: send}
spec:
  type: builtin
  builtin: {name: noop}
  description: Sends
  approval: {required: true}
  inputSchema:
    type: object
    properties: {to: {type: string}, sender: {type: string}}
    required: [to, sender]
";
    let entry = "[{type: custom, name: send_as_us, partial: {name: send, parameters: [{name: sender, value: us}]}}]";
    let script = "
scenes:
  - when: go
    turns:
      - call: [{tool: send_as_us, arguments: {to: ada}}]
      - say: '{{ result.send_as_us }}'
";
    let manifests = agent(entry, tool, script);
    let server = Server::start_with(manifests.path()).await;
    let client = Client::of(&server.base);
    let asked = ask(&client, "q", "tester", "go").await;
    assert_eq!(asked["approvals"][0]["arguments"], json!({"to": "ada", "sender": "us"}), "{asked}");
    let edit = json!({"decision": "approved", "arguments": {"to": "eve", "sender": "someone else"}});
    let decided = decide(&client, "q", &edit).await;
    // The line after it tells the model of the edit.
    let result = decided.body["response"].as_str().and_then(|response| response.lines().next());
    let ran: Value = serde_json::from_str(result.unwrap()).unwrap();
    assert_eq!(ran, json!({"to": "eve", "sender": "us"}), "{decided:?}");
}
