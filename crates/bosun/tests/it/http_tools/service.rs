//! An API on loopback that records requests.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, Uri},
    response::{IntoResponse, Response},
};
use tokio::{net::TcpListener, task::JoinSet};

/// A request as it was received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap_or("not ASCII"))
    }
}

type Answers = Arc<dyn Fn(&ReceivedRequest) -> Response + Send + Sync>;

#[derive(Clone)]
struct Shared {
    answers: Answers,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
}

pub(crate) struct Service {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    _serving: JoinSet<()>,
}

impl Service {
    pub(crate) async fn start<R: IntoResponse>(
        answers: impl Fn(&ReceivedRequest) -> R + Send + Sync + 'static,
    ) -> Self {
        async fn answer(
            State(shared): State<Shared>,
            method: Method,
            uri: Uri,
            headers: HeaderMap,
            body: Bytes,
        ) -> Response {
            let target = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
            let body = String::from_utf8_lossy(&body).into_owned();
            let received = ReceivedRequest { method, target, headers, body };
            shared.received.lock().unwrap().push(received.clone());
            (shared.answers)(&received)
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let received = Arc::<Mutex<Vec<ReceivedRequest>>>::default();
        let answers: Answers = Arc::new(move |received| answers(received).into_response());
        let router = Router::new().fallback(answer).with_state(Shared { answers, received: Arc::clone(&received) });
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.expect("a server") });
        Self { url, received, _serving: serving }
    }

    /// All requests so far.
    pub(crate) fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }
}
