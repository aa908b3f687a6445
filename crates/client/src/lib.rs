//! A client of a Bosun server: asks agents, and runs the tools that it brings.
//!
//! [`Client::ask`] creates a query, follows it to its end, and runs the closures of [`ClientTools`] whenever the agent
//! calls one of them; calls of one turn run concurrently. It uses the public REST API and nothing else; [`A2aAgent::ask`]
//! does the same over A2A, with any agent that has the client-tools extension.
//!
//! ```no_run
//! use bosun_client::{Client, ClientTools};
//! use serde_json::json;
//!
//! # async fn ask() -> Result<(), bosun_client::ClientError> {
//! let client = Client::new("http://127.0.0.1:8080")?;
//! let parameters = json!({
//!     "type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]
//! });
//! let tools = ClientTools::new().with("calculator", "Calculates", parameters, |call| async move {
//!     match call.arguments["expression"].as_str() {
//!         Some("0.25 * 8432") => Ok("2108"),
//!         // The model reads the error, and can try something else.
//!         _ => Err("this calculator is very small"),
//!     }
//! });
//! let answer = client.ask("math-assistant", "What is 25% of 8,432?").tools(&tools).await?;
//! assert_eq!(answer.text, "25% of 8,432 is 2,108");
//! # Ok(())
//! # }
//! ```
//!
//! # What survives what
//!
//! The query belongs to the server, and every request of this client is idempotent: the client chooses the name of a
//! query, and a result that arrives twice is recorded once. So a broken connection is a reason to retry and never a
//! reason to guess.
//!
//! - **The connection breaks, or the server is killed and restarted.** The client backs off, reconnects, and continues
//!   after the last event that it has seen. Results are delivered until the server has acknowledged them.
//! - **The client is killed.** Another process asks again under the same [name](Question::named), or
//!   [resumes](Client::resume) the query: calls that already have their result are not run again. A call that was
//!   running when the client died is; its [id](OpenCall::id) is the same, and can be used as an idempotency key.
//! - **A closure fails or panics.** The model reads why; the query continues.
//!
//! Calls that wait for approval, and parameters that the model does not know, are decided by a [`Decider`], if the
//! question has one; otherwise they wait for another client.
//!
//! Dropping the future of a question leaves the query on the server; [`Client::cancel`] ends it.

mod a2a;
mod client;
mod connection;
mod decide;
mod error;
mod follow;
mod question;
mod retry;
mod stream;
mod timeline;
mod tools;
mod transport;

pub use a2a::A2aAgent;
pub use bosun_reading::sse::Event;
pub use client::{Client, Delivered};
pub use connection::Key;
pub use decide::{Decider, Decision};
pub use error::{ClientError, Refusal};
pub use follow::{Following, Seen};
pub use question::{FinalAnswer, Observer, Question, Undecided, Wanted};
pub use retry::{backoff, retrying};
pub use stream::EventStream;
pub use tools::{ClientTools, OpenCall};
