//! Sends requests, on connections that are kept for the next one.
//!
//! A connection belongs to whoever sends on it until the whole answer is read; then it is free for the next request
//! to the same address. One that was closed, that broke off in the middle or that was free for long is not used
//! again. Nothing is sent twice: a request goes to another connection only if this one has not taken it.

use std::{
    collections::HashMap,
    error::Error,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, Uri,
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    http::uri::Authority,
};
use tokio::{task::JoinSet, time::Instant};

use super::connections::{BoxError, Connector};

/// How long a connection stays free.
const LONGEST_FREE: Duration = Duration::from_secs(90);

type Sender = SendRequest<Full<Bytes>>;

/// Why there is no answer to a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("there is no connection")]
    Connect(#[source] BoxError),
    #[error("the request broke off")]
    Broken(#[source] hyper::Error),
}

/// Connections that were made in one way.
#[derive(Debug)]
pub(super) struct Client {
    connector: Connector,
    free: Mutex<Free>,
    /// All connections; they end with the client.
    open: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Free {
    /// The one that was used last comes last.
    by_address: HashMap<Authority, Vec<(Sender, Instant)>>,
    swept: Instant,
}

/// A connection that an answer arrives on.
pub(super) struct Lent<'a> {
    client: &'a Client,
    address: Authority,
    sender: Sender,
}

impl Client {
    pub(super) fn new(connector: Connector) -> Self {
        let free = Free { by_address: HashMap::new(), swept: Instant::now() };
        Self { connector, free: Mutex::new(free), open: Mutex::default() }
    }

    /// Sends a request to the host of `to`. Its own target is the path alone, as it stands on the wire.
    pub(super) async fn send(
        &self,
        to: &Uri,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Lent<'_>), SendError> {
        let address = to.authority().cloned().ok_or_else(|| SendError::Connect("the address has no host".into()))?;
        loop {
            let known = self.take(&address);
            let is_new = known.is_none();
            let mut sender = match known {
                Some(sender) => sender,
                None => self.connect(to).await?,
            };
            match sender.ready().await {
                Ok(()) => {}
                Err(error) if is_new => return Err(SendError::Broken(error)),
                // It was closed while it was free.
                Err(_) => continue,
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, Lent { client: self, address, sender })),
                Err(mut error) => match error.take_message().filter(|_| !is_new) {
                    Some(unsent) => request = unsent,
                    None => return Err(SendError::Broken(error.into_error())),
                },
            }
        }
    }

    async fn connect(&self, to: &Uri) -> Result<Sender, SendError> {
        let stream = self.connector.connect(to.clone()).await.map_err(SendError::Connect)?;
        let (sender, connection) = http1::handshake(stream).await.map_err(SendError::Broken)?;
        let mut open = lock(&self.open);
        while open.try_join_next().is_some() {}
        open.spawn(async move {
            // Whoever waits for an answer on it is told by what sends.
            if let Err(error) = connection.await {
                tracing::debug!(error = &error as &dyn Error, "connection to a model API broke");
            }
        });
        Ok(sender)
    }

    /// The free connection that was used last, if there is one.
    fn take(&self, address: &Authority) -> Option<Sender> {
        let mut free = lock(&self.free);
        let connections = free.by_address.get_mut(address)?;
        while let Some((sender, since)) = connections.pop() {
            if is_usable(&sender, since) {
                return Some(sender);
            }
        }
        None
    }
}

impl Lent<'_> {
    /// The whole answer has been read: the connection is free for the next one.
    pub(super) fn give_back(self) {
        let Self { client, address, sender } = self;
        let now = Instant::now();
        let mut free = lock(&client.free);
        if now - free.swept > LONGEST_FREE {
            free.sweep(now);
        }
        free.by_address.entry(address).or_default().push((sender, now));
    }
}

impl Free {
    /// Lets go of what nobody came back for.
    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        self.by_address.retain(|_, connections| {
            connections.retain(|(sender, since)| is_usable(sender, *since));
            !connections.is_empty()
        });
    }
}

/// Nothing that holds these locks can panic half-way through a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_usable(sender: &Sender, since: Instant) -> bool {
    !sender.is_closed() && since.elapsed() < LONGEST_FREE
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use http_body_util::BodyExt as _;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };
    use url::Url;

    use super::*;
    use crate::{model::remote::Connections, secret::binding::Reach};

    const REQUEST: &str = "{\"ask\":1}";

    struct Api {
        to: Uri,
        connections: Arc<AtomicUsize>,
        _serving: JoinSet<()>,
    }

    impl Api {
        /// One that closes a connection after so many answers.
        async fn closing_after(answers: usize) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
            let connections = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&connections);
            let mut serving = JoinSet::new();
            serving.spawn(async move {
                let mut answering = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    count.fetch_add(1, Ordering::SeqCst);
                    answering.spawn(answer(stream, answers));
                }
            });
            Self { to, connections, _serving: serving }
        }

        #[track_caller]
        fn check_connections(&self, expect: usize) {
            assert_eq!(self.connections.load(Ordering::SeqCst), expect);
        }
    }

    async fn answer(mut stream: TcpStream, answers: usize) {
        for _ in 0..answers {
            let mut read = Vec::new();
            while !read.ends_with(REQUEST.as_bytes()) {
                if stream.read_buf(&mut read).await.unwrap() == 0 {
                    return;
                }
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
        }
    }

    async fn send<'a>(client: &'a Client, api: &Api) -> (Response<Incoming>, Lent<'a>) {
        client.send(&api.to, Request::post("/").body(REQUEST.into()).unwrap()).await.unwrap()
    }

    /// Sends a request and reads the whole answer.
    async fn ask(client: &Client, api: &Api) {
        let (response, lent) = send(client, api).await;
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "{}");
        lent.give_back();
    }

    fn client(connections: &Connections) -> &Client {
        connections.client(&Url::parse("http://127.0.0.1/").unwrap(), &Reach::File).unwrap()
    }

    #[tokio::test]
    async fn a_connection_is_used_again_when_its_answer_is_read() {
        let (connections, api) = (Connections::default(), Api::closing_after(10).await);
        let client = client(&connections);
        for _ in 0..3 {
            ask(client, &api).await;
        }
        api.check_connections(1);
        let both = [send(client, &api).await, send(client, &api).await];
        api.check_connections(2);
        // Nobody knows what of an answer is still to come.
        drop(both);
        ask(client, &api).await;
        api.check_connections(3);
    }

    #[tokio::test]
    async fn a_connection_that_was_closed_while_it_was_free_loses_no_request() {
        let (connections, api) = (Connections::default(), Api::closing_after(1).await);
        let client = client(&connections);
        for expect in 1..=3 {
            ask(client, &api).await;
            api.check_connections(expect);
            while lock(&client.free).by_address.values().flatten().any(|(sender, _)| !sender.is_closed()) {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_connection_that_was_free_for_long_is_let_go() {
        let connections = Connections::default();
        let (one, other) = (Api::closing_after(10).await, Api::closing_after(10).await);
        let client = client(&connections);
        ask(client, &one).await;
        ask(client, &other).await;
        tokio::time::pause();
        tokio::time::advance(LONGEST_FREE + Duration::from_secs(1)).await;
        tokio::time::resume();
        ask(client, &one).await;
        one.check_connections(2);
        assert_eq!(lock(&client.free).by_address.len(), 1, "nobody came back for the other");
    }
}
