//! What a model is shown, and what everyone else is.
//!
//! A model sees aliases and the schemas as their authors wrote them; everyone else sees the real names. None of that
//! changes for a query while it runs, whatever becomes of its tools or of the server.

use std::fs;

use bosun_standin::{StandIn, StandInAnswers};
use serde_json::{Value, json};

use crate::{
    resources::{Answer, api, send},
    support::server::{ProcessExit, Server, World},
};

/// A model behind the stand-in, which records what it is shown.
const MODEL: &str = "
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {name: default}
spec: {provider: openai, model: {value: m}, config: {openai: {baseUrl: {value: 'URL/v1'}, apiKey: {value: none}}}}
";

/// Names that no model API takes.
const DOTTED: &str = "
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {name: clerk}
spec:
  prompt: Be brief.
  tools: [{type: custom, name: crm.note, approval: {required: true}}, {type: external, name: crm.fetch}]
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: crm.note}
spec: {type: builtin, builtin: {name: noop}, description: Writes a note}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {name: crm.fetch}
spec: {type: external, description: Fetches a record}
";

/// The model says something and asks for all three tools at once. It knows them by their aliases only.
const DOTTED_SCRIPT: &str = "
otherwise:
  - say: I look into the files.
    call:
      - {tool: crm_lookup, arguments: {key: one}}
      - {tool: crm_note, arguments: {message: two}}
      - {tool: crm_fetch, arguments: {}}
  - say: All is done.
";
const BESIDE: &str = "I look into the files.";

/// Two calls, one after the other, with arguments that only the first definition of the tool allows.
const SEEKER_SCRIPT: &str = "
otherwise:
  - call: [{tool: lookup, arguments: {key: one}}]
  - call: [{tool: lookup, arguments: {key: two}}]
  - say: '{{ result[0] }}|{{ result[1] }}'
";

struct ShownWorld {
    world: World,
    model: StandIn,
}

impl ShownWorld {
    async fn new(manifests: &str, script: &str) -> Self {
        let script = StandInAnswers::parse("script.yaml", script).unwrap();
        let (world, model) = (World::new(), StandIn::recording(script).await.unwrap());
        fs::remove_dir_all(world.path("manifests")).unwrap();
        fs::create_dir(world.path("manifests")).unwrap();
        let world = Self { world, model };
        world.write("model.yaml", &MODEL.replace("URL", &world.model.url()));
        world.write("others.yaml", manifests);
        world
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.world.path("manifests").join(file), text).unwrap();
    }

    async fn restart(&self, mut server: Server) -> Server {
        assert_eq!(server.kill().await, ProcessExit::Killed);
        self.world.start().await
    }

    /// The requests that the model has got so far.
    fn requests(&self) -> Vec<Value> {
        self.model.requests().iter().map(|request| serde_json::from_str(&request.body).unwrap()).collect()
    }
}

async fn ask(server: &Server, body: &Value) -> Value {
    api(server, "POST", "/v1/queries?wait=20s&view=rfc", Some(body)).await.ok()
}

/// An agent with these tools, as a client stores it.
async fn store_seeker(server: &Server, tools: Value) {
    let agent = json!({"name": "seeker", "prompt": "Seek.", "tools": tools});
    api(server, "POST", "/v1/agents", Some(&agent)).await.ok();
}

fn asks_seeker(name: &str) -> Value {
    json!({"name": name, "input": "go", "target": {"type": "agent", "name": "seeker"}})
}

fn lookup() -> Value {
    json!([{"type": "external", "name": "lookup"}])
}

async fn deliver(server: &Server, query: &str, call: &Value, result: &str) -> Value {
    let body = json!({"toolCallId": call["id"], "toolResult": result});
    api(server, "POST", &format!("/v1/queries/{query}/tool-result?wait=20s&view=rfc"), Some(&body)).await.ok()
}

/// A query of the agent `clerk`, whose client has a tool, too.
fn clerks() -> Value {
    let parameters = json!({"type": "object", "properties": {"key": {"type": "string"}}});
    json!({
        "name": "q", "input": "go", "target": {"type": "agent", "name": "clerk"}, "toolSource": "hybrid",
        "externalTools": [{"name": "crm.lookup", "description": "Looks a record up", "parameters": parameters}],
    })
}

/// Approves what waits for it, and delivers the rest.
async fn serve(server: &Server, waiting: &Value) -> Value {
    let decision = json!({"decision": "approved", "toolCallId": waiting["approvals"][0]["id"]});
    api(server, "POST", "/v1/queries/q/approval?wait=0", Some(&decision)).await.ok();
    let mut last = Value::Null;
    for call in waiting["toolCalls"].as_array().unwrap() {
        last = deliver(server, "q", call, "found").await;
    }
    assert_eq!(last["state"], "completed", "{last}");
    last
}

async fn rpc(server: &Server, version: &str, method: &str, params: Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    send(server, "POST", "/a2a/agents/default/clerk", Some(&body), &[("a2a-version", version)]).await.unwrap()
}

const LOOKUP: &str = "crm.lookup";
const NOTE: &str = "crm.note";
const FETCH: &str = "crm.fetch";

#[track_caller]
fn check_names(view: &str, answer: &Answer, names: &[&str]) {
    assert!(answer.status < 300 && answer.body.get("error").is_none(), "{view}: {}", answer.text);
    for name in names {
        assert!(answer.text.contains(name), "{view} does not name `{name}`: {}", answer.text);
    }
    for name in [LOOKUP, NOTE, FETCH] {
        assert!(!answer.text.contains(&name.replace('.', "_")), "{view} shows an alias: {}", answer.text);
    }
}

#[tokio::test]
async fn every_view_shows_real_names_and_no_alias() {
    let world = ShownWorld::new(DOTTED, DOTTED_SCRIPT).await;
    let server = world.world.start().await;
    let waiting = ask(&server, &clerks()).await;
    for name in [LOOKUP, NOTE, FETCH] {
        let shown = world.requests()[0]["tools"].to_string();
        assert!(!shown.contains(name) && shown.contains(&name.replace('.', "_")), "the model sees an alias: {shown}");
    }
    let names =
        |list: &str| -> Vec<_> { waiting[list].as_array().unwrap().iter().map(|one| one["name"].clone()).collect() };
    assert_eq!((names("toolCalls"), names("approvals")), (vec![json!(LOOKUP), json!(FETCH)], vec![json!(NOTE)]));
    let all = [LOOKUP, NOTE, FETCH];
    for (path, names) in [
        ("/v1/queries/q?view=rfc", &all[..]),
        ("/v1/queries/q?view=ark", &all),
        ("/v1/approvals", &[NOTE]),
        ("/v1/events", &all),
        ("/v1/tool-calls?tools=crm.fetch&lease=60s", &[FETCH]),
    ] {
        check_names(path, &api(&server, "GET", path, None).await, names);
    }
    for (version, method) in [("1.0", "GetTask"), ("0.3", "tasks/get")] {
        check_names(version, &rpc(&server, version, method, json!({"id": "q"})).await, &all);
    }
    serve(&server, &waiting).await;
    for path in [
        "/v1/queries/q?view=rfc",
        "/v1/queries/q?view=ark",
        "/v1/queries/q/events",
        "/v1/events",
        "/v1/audit?query=q",
        "/v1/tools/usage",
    ] {
        check_names(path, &api(&server, "GET", path, None).await, &all);
    }
    for (version, method) in [("1.0", "GetTask"), ("0.3", "tasks/get")] {
        let params = json!({"id": "q", "historyLength": 50});
        let names = [LOOKUP, FETCH];
        check_names(&format!("the history in {version}"), &rpc(&server, version, method, params).await, &names);
    }
}

#[tokio::test]
async fn text_beside_calls_outlives_the_server() {
    let world = ShownWorld::new(DOTTED, DOTTED_SCRIPT).await;
    let server = world.world.start().await;
    let waiting = ask(&server, &clerks()).await;
    let server = world.restart(server).await;
    serve(&server, &waiting).await;
    let requests = world.requests();
    let asked = requests.last().unwrap()["messages"].as_array().unwrap().clone();
    let answer = asked.iter().find(|message| message["role"] == "assistant").unwrap();
    assert_eq!((&answer["content"], answer["tool_calls"].as_array().map(Vec::len)), (&json!(BESIDE), Some(3)));
    let server = world.restart(server).await;
    for path in ["/v1/queries/q?view=ark", "/v1/queries/q/events"] {
        let shown = api(&server, "GET", path, None).await.text;
        assert!(shown.contains(BESIDE), "{path}: {shown}");
    }
}

/// How a definition changes.
#[derive(Clone, Copy, Debug)]
enum DefinitionChange {
    Reload,
    Put,
}

/// A tool with one required parameter.
fn tool(parameter: &str, description: &str) -> Value {
    let schema = json!({"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]});
    json!({"type": "external", "description": description, "inputSchema": schema})
}

#[tokio::test]
async fn a_changed_definition_reaches_no_running_query() {
    use DefinitionChange::{Put, Reload};
    for (change, dies) in [(Reload, false), (Reload, true), (Put, false), (Put, true)] {
        let world = ShownWorld::new("", SEEKER_SCRIPT).await;
        let in_file = |definition: &Value| {
            let (version, metadata) = ("ark.mckinsey.com/v1alpha1", json!({"name": "lookup"}));
            let tool = json!({"apiVersion": version, "kind": "Tool", "metadata": metadata, "spec": definition});
            world.write("lookup.yaml", &tool.to_string());
        };
        let (old, new) = (tool("key", "Looks here"), tool("place", "Looks there"));
        if matches!(change, Reload) {
            in_file(&old);
        }
        let mut server = world.world.start().await;
        if matches!(change, Put) {
            let stored = json!({"name": "lookup", "spec": old});
            api(&server, "POST", "/v1/tools", Some(&stored)).await.ok();
        }
        store_seeker(&server, lookup()).await;
        let first = ask(&server, &asks_seeker("before")).await;
        assert_eq!(first["toolCall"]["arguments"], json!({"key": "one"}), "{change:?}: {first}");

        match change {
            Reload => {
                in_file(&new);
                api(&server, "POST", "/v1/reload", None).await.ok();
            }
            Put => {
                api(&server, "PUT", "/v1/tools/lookup", Some(&json!({ "spec": new }))).await.ok();
            }
        }
        if dies {
            server = world.restart(server).await;
        }
        let second = deliver(&server, "before", &first["toolCall"], "here").await;
        assert_eq!(second["toolCall"]["arguments"], json!({"key": "two"}), "{change:?}, {dies}: {second}");
        let done = deliver(&server, "before", &second["toolCall"], "and here").await;
        assert_eq!(done["response"], "here|and here", "{change:?}, {dies}: {done}");
        let shown: Vec<_> = world.requests().iter().map(|request| request["tools"].to_string()).collect();
        assert!(shown[0].contains("Looks here"), "{}", shown[0]);
        assert_eq!(shown, [&*shown[0]; 3], "{change:?}, {dies}");

        let after = ask(&server, &asks_seeker("after")).await;
        assert_eq!(after["state"], "completed", "its calls lack `place`: {after}");
        let shown = world.requests()[3]["tools"].to_string();
        assert!(shown.contains("Looks there") && shown.contains("place") && !shown.contains("key"), "{shown}");
    }
}

/// Its members in no order, unknown keywords, numbers that a careless reader changes, and a name that sounds secret.
const SCHEMA: &str = r#"{"type":"object","x-unit":{"zeta":1,"alpha":[null,true,""]},"required":["z"],"properties":{"z":{"multipleOf":1.0,"type":"number","maximum":9007199254740993,"minimum":-9223372036854775808},"password":{"type":"string","description":"Grüße","default":"x"},"a":{"x-hint":"read me","enum":[1.0,18446744073709551615,"1.0"]}},"additionalProperties":false}"#;

const SCHEMA_SCRIPT: &str = "
otherwise:
  - call: [{tool: lookup, arguments: {z: 1}}]
  - say: Thanks.
";

/// A query with a tool of the client, or with a stored tool and agent, which are shown, too.
#[tokio::test]
async fn a_schema_is_shown_as_it_was_sent() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    assert_eq!(schema.to_string(), SCHEMA, "the test itself keeps it");
    // As a manifest's fields, and as an entry of a `tool-config.json`.
    let forms =
        [json!({"type": "external", "inputSchema": schema}), json!({"category": "Files", "parameters": schema})];
    for form in [None].into_iter().chain(forms.map(Some)) {
        let world = ShownWorld::new("", SCHEMA_SCRIPT).await;
        let mut server = world.world.start().await;
        let mut query = asks_seeker("q");
        if let Some(form) = &form {
            let mut tool = json!({"name": "lookup", "description": "Looks"});
            tool.as_object_mut().unwrap().extend(form.as_object().unwrap().clone());
            let created = api(&server, "POST", "/v1/tools", Some(&tool)).await;
            assert!(created.status < 300 && created.text.contains(SCHEMA), "{}", created.text);
            store_seeker(&server, lookup()).await;
        } else {
            store_seeker(&server, json!([])).await;
            query["externalTools"] = json!([{"name": "lookup", "description": "Looks", "parameters": schema}]);
        }
        let waiting = ask(&server, &query).await;
        server = world.restart(server).await;
        let done = deliver(&server, "q", &waiting["toolCall"], "found").await;
        assert_eq!(done["response"], "Thanks.", "{form:?}: {done}");
        let sent = world.model.requests();
        assert_eq!(sent.len(), 2);
        for request in &sent {
            assert!(request.body.contains(SCHEMA), "{form:?}: {}", request.body);
        }
        if form.is_some() {
            for path in ["/v1/tools/lookup", "/v1/resources/apis/ark.mckinsey.com/v1alpha1/tools/lookup"] {
                let shown = api(&server, "GET", path, None).await;
                assert!(shown.text.contains(SCHEMA), "{form:?}, {path}: {}", shown.text);
            }
        }
    }
}
