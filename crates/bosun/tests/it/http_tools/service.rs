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

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Arrived {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap_or("not ASCII"))
    }
}

type Answers = Arc<dyn Fn(&Arrived) -> Response + Send + Sync>;

#[derive(Clone)]
struct Shared {
    answers: Answers,
    arrived: Arc<Mutex<Vec<Arrived>>>,
}

pub(crate) struct Service {
    pub(crate) url: String,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    _serving: JoinSet<()>,
}

impl Service {
    pub(crate) async fn start<R: IntoResponse>(answers: impl Fn(&Arrived) -> R + Send + Sync + 'static) -> Self {
        async fn answer(
            State(shared): State<Shared>,
            method: Method,
            uri: Uri,
            headers: HeaderMap,
            body: Bytes,
        ) -> Response {
            let target = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
            let body = String::from_utf8_lossy(&body).into_owned();
            let arrived = Arrived { method, target, headers, body };
            shared.arrived.lock().unwrap().push(arrived.clone());
            (shared.answers)(&arrived)
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let arrived = Arc::<Mutex<Vec<Arrived>>>::default();
        let answers: Answers = Arc::new(move |arrived| answers(arrived).into_response());
        let router = Router::new().fallback(answer).with_state(Shared { answers, arrived: Arc::clone(&arrived) });
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.expect("a server") });
        Self { url, arrived, _serving: serving }
    }

    /// Everything that arrived so far.
    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().unwrap().clone()
    }
}
