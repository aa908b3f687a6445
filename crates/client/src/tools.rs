//! The tools that a client brings: definitions for the model, and closures that run the calls.

use std::{collections::BTreeMap, fmt, future::Future, panic::AssertUnwindSafe, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};

use crate::ClientError;

/// A call that waits for its result.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenCall {
    /// The same for every attempt to run the call: an idempotency key for its effects.
    pub id: String,
    pub name: String,
    /// They match the parameters of the tool.
    pub arguments: Value,
    /// When the server stops waiting, as RFC 3339.
    pub deadline: Option<String>,
}

impl OpenCall {
    /// Reads the data of an event `tool_call`.
    pub(crate) fn read(data: &Value) -> Result<Self, ClientError> {
        let text = |field: &str| data[field].as_str().map(str::to_owned);
        let (Some(id), Some(name)) = (text("id"), text("name")) else {
            return Err(ClientError::Unreadable(format!("a call has no `id` or `name`: {data}")));
        };
        Ok(Self { id, name, arguments: data["arguments"].clone(), deadline: text("deadline") })
    }
}

type RunTool = Arc<dyn Fn(OpenCall) -> BoxFuture<'static, Result<Value, String>> + Send + Sync>;

/// A list of tools, in the order in which the model sees them.
#[derive(Clone, Default)]
pub struct ClientTools {
    definitions: Vec<Value>,
    runs: BTreeMap<String, RunTool>,
}

impl ClientTools {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool. `parameters` is a JSON Schema of an object. The result of `run` is text or JSON; of an error the
    /// model reads the message.
    #[must_use]
    pub fn with<F, T, E>(
        mut self,
        name: &str,
        description: &str,
        parameters: Value,
        run: impl Fn(OpenCall) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Into<Value> + 'static,
        E: fmt::Display + 'static,
    {
        let definition = json!({ "name": name, "description": description, "parameters": parameters });
        self.insert(name.to_owned(), definition, run);
        self
    }

    /// Adds a tool with a definition that may have further fields of the API, such as `annotations` and `timeout`.
    ///
    /// # Errors
    /// If the definition has no `name`. The server checks the rest.
    pub fn define<F, T, E>(
        &mut self,
        definition: Value,
        run: impl Fn(OpenCall) -> F + Send + Sync + 'static,
    ) -> Result<(), ClientError>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Into<Value> + 'static,
        E: fmt::Display + 'static,
    {
        match definition["name"].as_str().map(str::to_owned) {
            Some(name) => {
                self.insert(name, definition, run);
                Ok(())
            }
            None => Err(ClientError::UnnamedTool(definition)),
        }
    }

    fn insert<F, T, E>(&mut self, name: String, definition: Value, run: impl Fn(OpenCall) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Into<Value> + 'static,
        E: fmt::Display + 'static,
    {
        let run = move |call: OpenCall| {
            let running = run(call);
            async move { running.await.map(Into::into).map_err(|error| error.to_string()) }.boxed()
        };
        self.definitions.push(definition);
        self.runs.insert(name, Arc::new(run));
    }

    /// As the server gets them.
    #[must_use]
    pub fn definitions(&self) -> &[Value] {
        &self.definitions
    }

    /// Whether this client runs the tool.
    pub(crate) fn has(&self, tool: &str) -> bool {
        self.runs.contains_key(tool)
    }

    /// Runs a call. A panic is a failure of the tool: the model reads that, and the query continues.
    pub(crate) async fn run(&self, call: OpenCall) -> Result<Value, String> {
        let Some(run) = self.runs.get(&call.name) else {
            return Err(format!("this client has no tool `{}`", call.name));
        };
        // The closure itself may panic, too, before there is a future.
        let running = AssertUnwindSafe(async { run(call).await });
        running.catch_unwind().await.unwrap_or_else(|_| Err("the tool panicked".to_owned()))
    }
}

impl fmt::Debug for ClientTools {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ClientTools").field(&self.runs.keys().collect::<Vec<_>>()).finish()
    }
}
