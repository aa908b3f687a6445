//! Many tenants whose tools call one slow API at once.

use axum::{
    Router,
    http::Uri,
    routing::{any, get},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use crate::{
    resources::api,
    support::{
        server::{Server, World},
        soon,
    },
};

const TENANTS: usize = 40;

/// An API whose one path answers all requests once it is released, and whose other path answers at once.
struct SlowApi {
    url: String,
    arrived: watch::Sender<usize>,
    released: watch::Sender<bool>,
    _serving: JoinSet<()>,
}

impl SlowApi {
    async fn start() -> Self {
        let (arrived, released) = (watch::Sender::new(0), watch::Sender::new(false));
        let (arrivals, release) = (arrived.clone(), released.clone());
        let slow = async move |uri: Uri| {
            arrivals.send_modify(|count| *count += 1);
            release.subscribe().wait_for(|is_released| *is_released).await.unwrap();
            format!("slow for {}", uri.query().unwrap_or_default())
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/slow", any(slow)).route("/fast", get(async || "fast"));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, arrived, released, _serving: serving }
    }
}

async fn call(server: &Server, namespace: &str, tool: &str) -> Value {
    let body = json!({"input": "{}", "target": {"type": "tool", "name": tool}});
    let path = format!("/v1/namespaces/{namespace}/queries?wait=60s&view=rfc");
    api(server, "POST", &path, Some(&body)).await.body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_that_store_tools_of_one_slow_api_do_not_wait_for_each_other() {
    let slow_api = SlowApi::start().await;
    let url = &slow_api.url;
    let address = url.trim_start_matches("http://").to_owned();
    let world = World::new().with(&["--allow-private", &address]);
    let server = world.start().await;
    let tenants: Vec<_> = (0..TENANTS).map(|number| format!("tenant-{number}")).collect();
    let store = async |tenant: &String| {
        for (name, path) in [("slow", "slow"), ("fast", "fast")] {
            let http = json!({"url": format!("{url}/{path}?{tenant}")});
            let tool = json!({"name": name, "namespace": tenant, "spec": {"type": "http", "http": http}});
            let path = format!("/v1/namespaces/{tenant}/tools");
            let answer = api(&server, "POST", &path, Some(&tool)).await;
            assert!(answer.status < 300, "{}", answer.text);
        }
    };
    futures_util::future::join_all(tenants.iter().map(store)).await;
    let memory = server.memory();
    let before = memory();
    let slow = futures_util::future::join_all(tenants.iter().map(|tenant| call(&server, tenant, "slow")));
    let fast = async {
        // While every tenant waits for the slow API, another call of it is answered.
        slow_api.arrived.subscribe().wait_for(|count| *count == TENANTS).await.unwrap();
        let answer = call(&server, "tenant-0", "fast").await;
        slow_api.released.send_replace(true);
        answer
    };
    let (slow, fast) = soon("all answers", async { tokio::join!(slow, fast) }).await;
    for (tenant, answer) in tenants.iter().zip(&slow) {
        assert_eq!(answer["response"], format!("slow for {tenant}"), "each gets its own answer: {answer}");
    }
    assert_eq!(fast["response"], "fast", "{fast}");
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "memory grew by {grown} bytes");
}
