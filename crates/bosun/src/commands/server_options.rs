//! The options of commands that ask a running server.

use bosun_client::{Client, ClientError, Key};

/// The running server that is asked.
#[derive(Debug, clap::Args)]
pub(super) struct ServerOptions {
    /// URL of the server
    #[arg(long, value_name = "URL", env = "BOSUN_SERVER", default_value = "http://127.0.0.1:8080")]
    server: String,
    /// Key for the server: its secret, both halves as pk-…:sk-…, or a token
    #[arg(long, value_name = "KEY", env = "BOSUN_KEY", hide_env_values = true)]
    pub(super) key: Option<Key>,
    /// Namespace; default: the key's own
    #[arg(long)]
    namespace: Option<String>,
}

impl ServerOptions {
    pub(super) fn open(self) -> Result<Client, ClientError> {
        open_client(&self.server, self.namespace, self.key.as_ref())
    }
}

/// A client of the server that the options of a command name.
pub(super) fn open_client(server: &str, namespace: Option<String>, key: Option<&Key>) -> Result<Client, ClientError> {
    let mut client = Client::new(server)?;
    if let Some(key) = key {
        client = client.with_key(key)?;
    }
    Ok(match namespace {
        Some(namespace) => client.with_namespace(namespace),
        None => client,
    })
}
