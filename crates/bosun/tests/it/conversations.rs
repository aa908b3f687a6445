//! Kill -9 while many queries add to the same conversations.
//!
//! The model is behind HTTP, in this process, and records every request, so what a model was shown is known across
//! every kill. The oracle then compares four things: the clients' answers, the journals, the stored conversations, and
//! the requests to the model.
//!
//! What this does not test: deletion. Conversations only grow here, so that every history that was ever shown can be
//! found again in what is stored.

mod oracle;
mod workload;

use bosun_engine::fault::POINTS;
use bosun_standin::{StandIn, StandInAnswers};
use serde_json::json;
use tokio::sync::watch;

use crate::support::{
    client::{Address, Client},
    killer::Killer,
    proof::{Proof, scale, seed},
    rng::Rng,
    server::{ProcessExit, World},
};

/// The number of queries in flight.
const CLIENTS: u64 = 20;

/// How much of a conversation a query is shown.
#[derive(Clone, Copy, Debug)]
enum Window {
    Messages(usize),
    Tokens(usize),
}

/// A conversation that several clients add to at once.
#[derive(Clone, Copy, Debug)]
struct SharedConversation {
    memory: &'static str,
    id: &'static str,
    window: Window,
    /// Its queries require to be the only open one.
    alone: bool,
}

/// The windows are those of [`manifests`], and small: most histories are cut.
const CONVERSATIONS: &[SharedConversation] = &[
    SharedConversation { memory: "few", id: "one", window: Window::Messages(7), alone: false },
    SharedConversation { memory: "few", id: "two", window: Window::Messages(7), alone: false },
    SharedConversation { memory: "small", id: "one", window: Window::Tokens(150), alone: false },
    SharedConversation { memory: "small", id: "two", window: Window::Tokens(150), alone: false },
    SharedConversation { memory: "few", id: "alone", window: Window::Messages(7), alone: true },
];

/// The fault points that this load passes: all commits on the path of a query but for those that no client here causes.
fn points() -> Vec<&'static str> {
    // Calls that may run twice are started in the append that ends their turn; only others have an append of their own.
    const ELSEWHERE: &[&str] = &[
        "call.start",
        "call.pending",
        "call.delegated",
        "child.",
        "settle.",
        "decide.",
        "expire.",
        "delete.",
        "resume.",
        "update.",
        "blob.",
        "store.remove",
        "upgrade.",
        "resource",
        "store.maintain",
        "claim.",
        "webhook",
        "extend.",
    ];
    POINTS.iter().copied().filter(|point| !ELSEWHERE.iter().any(|part| point.contains(part))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_has_every_answered_query_once_and_in_order_after_kill_9() {
    let (seed, kills) = (seed(), scale("BOSUN_CONVERSATION_KILLS", 34));
    let test = "conversations::a_conversation_has_every_answered_query_once_and_in_order_after_kill_9";
    let mut proof = Proof::begin(test, seed, &[("BOSUN_CONVERSATION_KILLS", kills)]);
    let rng = Rng::new(seed);
    let script = StandInAnswers::parse("script.yaml", SCRIPT).expect("a script");
    let model = StandIn::recording(script).await.expect("a port");
    let world = World::new();
    std::fs::write(world.path("manifests").join("workload.yaml"), manifests(&model.url())).expect("manifests");

    let (announce, address) = watch::channel(Address::default());
    let workload = workload::ConversationWorkload::new(Client::new(address), rng.branch(1));
    let clients = workload.begin(CLIENTS);
    let mut killer = Killer::new(&world, announce, workload.client(), rng.branch(2));
    let points = points();
    killer.run(kills, &points).await;
    let mut last = killer.start().await;
    let records = clients.end().await;
    assert_eq!(last.kill().await, ProcessExit::Killed);

    let (figures, violations) = oracle::check(&world, &records, &model.requests());
    proof.violations(violations);
    let (done, faults) = killer.result(kills, &points);
    proof.violations(faults);
    let figures = json!({
        "deaths": killer.deaths, "in_flight": CLIENTS, "starts": killer.starts, "conversations": CONVERSATIONS.len(),
        "queries": figures.queries, "completed": figures.completed, "model_requests": figures.requests,
        "histories": figures.histories, "histories_cut": figures.cut, "recoveries": figures.recoveries,
        "asked_for_queries_that_were_lost": figures.lost, "busy": workload.client().refusals(),
    });
    if proof.is_broken() {
        eprintln!("the files of this run are kept in {}", world.keep().display());
    }
    proof.finish(done, &figures);
}

/// One turn, calls inside and outside, and an API that refuses: only completed queries are remembered.
const SCRIPT: &str = "\
scenes:
  - when: 'inside '
    turns:
      - call:
          - {tool: calculator, arguments: {expression: '6 * 7'}}
      - say: \"{{ input }}: {{ result[0] }}\"
  - when: 'outside '
    turns:
      - say: Let me look.
        call:
          - {tool: lookup, arguments: {key: one}}
      - say: \"{{ input }}: {{ result[0] }}\"
  - when: 'refused '
    turns:
      - fail: {status: 400, message: Not that}
otherwise:
  - say: \"{{ input }}: well said\"
";

fn manifests(model: &str) -> String {
    format!(
        "\
apiVersion: ark.mckinsey.com/v1alpha1
kind: Model
metadata: {{name: remote}}
spec: {{provider: openai, model: {{value: some}}, config: {{openai: {{baseUrl: {{value: '{model}/v1'}}, apiKey: {{value: none}}}}}}}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Agent
metadata: {{name: talker}}
spec: {{prompt: Talk., modelRef: {{name: remote}}, tools: [{{type: builtin, name: calculator}}]}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Memory
metadata: {{name: few}}
spec: {{maxMessages: 7}}
---
apiVersion: ark.mckinsey.com/v1alpha1
kind: Memory
metadata: {{name: small}}
spec: {{maxTokens: 150}}
"
    )
}
