//! A model API that answers what it was told to, over a real connection.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::Response,
};
use futures_util::{StreamExt, stream};
use tokio::{sync::Notify, task::JoinSet};

use super::fixtures;
use crate::model::scripted::{Script, wire};

/// One answer.
#[derive(Clone, Debug)]
pub(super) struct Canned {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    pub(super) end: End,
}

/// What comes after the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Clean,
    /// The connection is cut.
    Cut,
    /// Nothing, for ever.
    Silence,
}

impl Canned {
    pub(super) fn sse(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type", "text/event-stream".into())],
            body: body.into(),
            end: End::Clean,
        }
    }

    pub(super) fn stream(name: &str) -> Self {
        Self::sse(std::fs::read(fixtures().join("streams").join(name).with_extension("sse")).unwrap())
    }

    pub(super) fn json(status: u16, body: &str) -> Self {
        Self { status, headers: vec![("content-type", "application/json".into())], body: body.into(), end: End::Clean }
    }

    pub(super) fn error(status: u16, message: &str) -> Self {
        Self::json(status, &serde_json::json!({"error": {"message": message}}).to_string())
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn then(self, end: End) -> Self {
        Self { end, ..self }
    }
}

/// What was asked.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: axum::http::HeaderMap,
    pub(super) body: String,
}

impl Recorded {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

#[derive(Clone)]
enum Part {
    Canned(Arc<Mutex<VecDeque<Canned>>>),
    Script(Arc<Script>),
}

pub(super) struct Server {
    pub(super) url: String,
    requests: Arc<Requests>,
    /// Ends with the server.
    _tasks: JoinSet<()>,
}

impl Server {
    /// Gives these answers, one after the other.
    pub(super) async fn start(answers: Vec<Canned>) -> Self {
        Self::serve(Part::Canned(Arc::new(Mutex::new(answers.into())))).await
    }

    /// Plays a script.
    pub(super) async fn playing(script: Arc<Script>) -> Self {
        Self::serve(Part::Script(script)).await
    }

    async fn serve(part: Part) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Requests>::default();
        let router = Router::new().fallback(answer).with_state((part, Arc::clone(&requests)));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, requests, _tasks: tasks }
    }

    pub(super) fn requests(&self) -> Vec<Recorded> {
        self.requests.recorded.lock().unwrap().clone()
    }

    /// Waits for the next request.
    pub(super) async fn asked(&self) {
        self.requests.arrived.notified().await;
    }
}

#[derive(Default)]
struct Requests {
    recorded: Mutex<Vec<Recorded>>,
    arrived: Notify,
}

type Shared = (Part, Arc<Requests>);

async fn answer(State((part, requests)): State<Shared>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    requests.recorded.lock().unwrap().push(Recorded {
        method: head.method.to_string(),
        path: head.uri.path_and_query().unwrap().to_string(),
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    });
    requests.arrived.notify_one();
    let canned = match part {
        Part::Canned(answers) => answers.lock().unwrap().pop_front().expect("one request too many"),
        Part::Script(script) => {
            let answer = wire::answer(&script, &body);
            let parts = answer.parts.into_iter().map(|part| Ok::<_, Infallible>(Bytes::from(part.bytes)));
            let body = Body::from_stream(stream::iter(parts));
            return Response::builder()
                .status(answer.status)
                .header(CONTENT_TYPE, answer.content_type)
                .body(body)
                .unwrap();
        }
    };
    let mut response = Response::builder().status(StatusCode::from_u16(canned.status).unwrap());
    for (name, value) in canned.headers {
        response = response.header(name, value);
    }
    let sent = stream::iter([Ok(Bytes::from(canned.body))]);
    let body = match canned.end {
        End::Clean => Body::from_stream(sent),
        End::Cut => {
            let cut = stream::once(async {
                // What was sent leaves first.
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut"))
            });
            Body::from_stream(sent.chain(cut))
        }
        End::Silence => Body::from_stream(sent.chain(stream::pending())),
    };
    response.body(body).unwrap()
}
