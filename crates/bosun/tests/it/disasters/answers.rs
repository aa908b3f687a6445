//! What a person sends while the disk is full: a decision, values of parameters, and the answer to an agent's question.
//!
//! It is refused, the query waits as before, and nothing runs or is passed on. Once the disk has space, the same request is
//! accepted and takes effect once, whether the same process receives it or the next.

use std::fs;

use bosun_standin::a2a::{A2aPeer, PeerBehaviour};
use serde_json::{Value, json};

use crate::{
    program::workspace,
    recovery::runs,
    resources::{Answer, api},
    support::{
        disk::{Disk, WriteError},
        scenarios::{self, Scenario},
        server::{ProcessExit, Server, World},
        soon,
    },
};

/// What a query waits for, in its first wait.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Approval,
    Parameters,
    Answer,
}

impl Wait {
    fn query(self, name: &str) -> Value {
        let to = |agent: &str, input: &str| json!({"name": name, "input": input, "target": {"type": "agent", "name": agent}});
        match self {
            Self::Approval => scenarios::query(name, Scenario::Approval),
            Self::Parameters => to("postmaster", "Invite someone"),
            Self::Answer => to("peer-peer", "hello"),
        }
    }

    /// The status of the query, and the field that lists what it waits for.
    fn shown(self) -> (&'static str, &'static str) {
        match self {
            Self::Approval => ("approval_required", "approvals"),
            Self::Parameters | Self::Answer => ("parameters_required", "parameterRequests"),
        }
    }

    /// Sends what the query waits for.
    async fn send(self, server: &Server, name: &str, call: &Value) -> Answer {
        let (route, body) = match self {
            Self::Approval => ("approval", json!({"toolCallId": call, "decision": "approved"})),
            Self::Parameters => ("tool-result", json!({"toolCallId": call, "toolResult": {"to": "ada@example.com"}})),
            Self::Answer => ("tool-result", json!({"toolCallId": call, "toolResult": "Rome"})),
        };
        api(server, "POST", &format!("/v1/queries/{name}/{route}?wait=20s&view=rfc"), Some(&body)).await
    }

    /// The next status in which the query rests: the second wait of `Parameters` is for an approval.
    fn next(self) -> &'static str {
        match self {
            Self::Approval | Self::Answer => "completed",
            Self::Parameters => "approval_required",
        }
    }
}

async fn until(server: &Server, name: &str, status: &str) -> Value {
    let looking = async {
        loop {
            let found = api(server, "GET", &format!("/v1/queries/{name}?wait=20s&view=rfc"), None).await.body;
            if found["status"] == status {
                return found;
            }
        }
    };
    soon(&format!("status `{status}` of `{name}`"), looking).await
}

async fn is_ready(server: &Server) {
    let looking = async {
        while api(server, "GET", "/v1/a2a-servers/peer", None).await.body["ready"] != true {
            tokio::task::yield_now().await;
        }
    };
    soon("the card of the peer", looking).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_sends_while_the_disk_is_full_is_refused_and_takes_effect_once_when_it_is_sent_again() {
    let peer = A2aPeer::start(PeerBehaviour::Asks).await.unwrap();
    let mut world = World::new();
    let manifests = world.path("manifests");
    for file in ["agents.yaml", "model.script.yaml"] {
        fs::copy(workspace().join("examples/approvals").join(file), manifests.join(format!("approvals-{file}")))
            .unwrap();
    }
    let agents = fs::read_to_string(manifests.join("approvals-agents.yaml")).unwrap();
    let agents = agents.replace("model.script.yaml", "approvals-model.script.yaml");
    fs::write(manifests.join("approvals-agents.yaml"), agents).unwrap();
    let server = format!(
        "apiVersion: ark.mckinsey.com/v1prealpha1\nkind: A2AServer\nmetadata: {{name: peer}}\nspec:\n  address: {{value: \
         \"{}\"}}\n",
        peer.url()
    );
    fs::write(manifests.join("peer.yaml"), server).unwrap();
    let disk = Disk::under(&mut world);
    let mut server = world.start().await;
    for wait in [Wait::Approval, Wait::Parameters, Wait::Answer] {
        for is_killed in [false, true] {
            is_ready(&server).await;
            let name = format!("{wait:?}-{is_killed}").to_lowercase();
            let created = api(&server, "POST", "/v1/queries?wait=20s&view=rfc", Some(&wait.query(&name))).await;
            assert!(created.status < 300, "{name}: {}", created.text);
            let (status, field) = wait.shown();
            let call = until(&server, &name, status).await[field][0]["id"].clone();
            let effects = || (runs(&world, "ledger"), peer.messages().len());
            let (before, failed) = (effects(), disk.failures());
            disk.fail_writes(WriteError::NoSpace);
            let refused = wait.send(&server, &name, &call).await;
            assert_eq!((refused.status, &refused.body["error"]["code"]), (503, &json!("store_unavailable")), "{name}");
            assert!(disk.failures() > failed, "{name}: a write has failed");
            if is_killed {
                assert_eq!(server.kill().await, ProcessExit::Killed);
            }
            disk.repair();
            if is_killed {
                server = world.start().await;
                is_ready(&server).await;
            }
            let waiting = until(&server, &name, status).await;
            assert_eq!(waiting[field][0]["id"], call, "{name}: {waiting}");
            assert_eq!(effects(), before, "{name}: nothing has run, and nothing was passed on");
            let accepted = wait.send(&server, &name, &call).await;
            assert_eq!(accepted.status, 200, "{name}: {}", accepted.text);
            let next = until(&server, &name, wait.next()).await;
            let (ran, sent) = (before.0 + usize::from(matches!(wait, Wait::Approval)), before.1);
            let sent = sent + usize::from(matches!(wait, Wait::Answer));
            assert_eq!(effects(), (ran, sent), "{name}: {next}");
        }
    }
    assert_eq!(server.kill().await, ProcessExit::Killed);
}
