//! A server of its own for each case, and what it answers.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    scenarios::{self, Scenario},
    server::{Server, World},
    soon,
};

pub(super) struct Site {
    pub(super) server: Server,
    http: reqwest::Client,
    _world: World,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Answer {
    /// The code of an error; empty if it is none.
    pub(super) fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    fn faults(&self) -> Vec<&str> {
        let details = self.body["error"]["details"].as_array().into_iter().flatten();
        details.filter_map(|fault| fault["code"].as_str()).collect()
    }

    #[track_caller]
    pub(super) fn is_taken(&self) {
        assert_eq!(self.status, 200, "{:.2000}", self.body.to_string());
    }

    /// It was refused, with this code.
    #[track_caller]
    pub(super) fn is_refused(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.code()), (status, code), "{:.2000}", self.body.to_string());
    }

    /// It was refused, with this code among the faults.
    #[track_caller]
    pub(super) fn has_fault(&self, code: &str) {
        assert_eq!(self.status, 422, "{:.2000}", self.body.to_string());
        assert!(self.faults().contains(&code), "{:.2000}", self.body.to_string());
    }
}

impl Site {
    pub(super) async fn open() -> Self {
        let world = World::new();
        let server = world.start().await;
        // Another client of this process may have installed it before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { server, http, _world: world }
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Answer {
        let url = format!("{}{path}", self.server.base);
        let mut request = self.http.request(method, url).header("content-type", "application/json").body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = soon("an answer", request.send()).await.expect("an answer");
        let status = response.status().as_u16();
        let text = soon("all of it", response.bytes()).await.expect("all of it");
        Answer { status, body: serde_json::from_slice(&text).unwrap_or(Value::Null) }
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, &[], body.to_string()).await
    }

    /// Creates a query with these fields in addition to the usual ones.
    pub(super) async fn create(&self, fields: Value) -> Answer {
        let mut body = query();
        for (name, value) in fields.as_object().cloned().unwrap_or_default() {
            body[name] = value;
        }
        self.post("/v1/queries", &body).await
    }

    /// Creates a query that brings these tools.
    pub(super) async fn bring(&self, tools: Value) -> Answer {
        self.create(json!({ "externalTools": tools })).await
    }
}

/// A query without a name, to an agent that answers at once.
pub(super) fn query() -> Value {
    let mut query = scenarios::query("", Scenario::Text);
    let fields = query.as_object_mut().expect("an object");
    fields.remove("name");
    fields.remove("externalTools");
    query
}
