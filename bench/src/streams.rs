//! Streams of server-sent events: the cost of an idle one, and the latency of one query's events to many.
//!
//! Thousands of readers follow one query, and as many follow a bare broadcast of axum. Then both take turns: the query
//! is changed so that it has one event; a line of the same size is published; and the time until every reader has it is
//! measured. The readers are processes of their own, and share the machine with the servers.

use std::{
    cell::RefCell,
    process::Stdio,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout},
    task::LocalSet,
};

use crate::{
    cycle::median,
    http::Connection,
    options::Options,
    process::{RELAYS, Running, World, own},
    report::{Figure, Goal, Report},
};

/// Of an idle stream, beyond a bare one.
const GOAL_MORE_BYTES: f64 = 4.0 * 1024.0;
/// Of the rate of a bare broadcast.
const GOAL_RATE: f64 = 0.6;
/// Readers in one process.
const READERS: usize = 2_500;
/// The events that a new reader of the waiting query gets at once: `agent_thinking` and its call.
const FIRST: usize = 2;
const TOOL: &str = r#"{"input":"relay","target":{"type":"agent","name":"math-assistant"},"toolSource":"n8n","externalTools":[{"name":"relay","description":"Asks the client for the next line","parameters":{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}}]}"#;
/// How long a server is idle before its memory is measured.
const REST: Duration = Duration::from_secs(2);

pub(crate) async fn measure(world: &World, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let streams = allow_files(options.streams)?;
    let bare = Running::start(own("broadcast")?).await.context("the broadcast")?;
    let most = RELAYS.to_string();
    let server = world.serve_with(&world.data("streams"), &["--max-tool-calls", &most]).await?;
    let mut query = Query::create(&server.authority).await?;

    let (bare_bytes, mut bare_readers) = open(&bare, "/events", streams, 0).await.context("bare streams")?;
    let (bytes, mut readers) = open(&server, &query.events(), streams, FIRST).await.context("streams")?;
    report.figure(&Figure {
        what: &format!("memory of an idle stream, {streams} open"),
        value: bytes,
        unit: "bytes",
        floor: Some(bare_bytes),
        goal: Goal::AboveFloorAtMost(GOAL_MORE_BYTES),
        n: streams,
        note: "floor: bare axum".into(),
        ..Figure::default()
    });

    let line = query.line_of_one_event().await?;
    let (mut rates, mut bare_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=options.rounds.min(RELAYS) {
        let bare_rate = streams as f64 / timed(&mut bare_readers, round, publish(&bare.authority, &line)).await?;
        let rate = streams as f64 / timed(&mut readers, FIRST + 1 + round, query.go_on()).await?;
        ratios.push(rate / bare_rate);
        rates.push(rate);
        bare_rates.push(bare_rate);
    }
    let n = ratios.len();
    report.figure(&Figure {
        what: &format!("events a second of one query to {streams} streams"),
        value: median(&mut rates),
        floor: Some(median(&mut bare_rates)),
        ratio: Some(median(&mut ratios)),
        goal: Goal::RatioAtLeast(GOAL_RATE),
        n,
        note: format!("{:.2} to {:.2}; floor: a bare broadcast", ratios[0], ratios[n - 1]),
        details: json!({"rates": rates, "bare_rates": bare_rates, "ratios": ratios}),
        ..Figure::default()
    });
    for reader in readers.into_iter().chain(bare_readers) {
        reader.stop().await?;
    }
    bare.stop().await?;
    server.stop().await?;
    Ok(())
}

/// Raises the limit of open files as far as possible, for this process and its children, and returns how many streams
/// fit under it.
fn allow_files(wanted: usize) -> anyhow::Result<usize> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).context("the limit of open files")?;
    // A server has a few other files.
    let most = limit.current.map_or(usize::MAX, |files| files as usize).saturating_sub(200);
    if most < wanted {
        eprintln!("this machine allows {most} streams instead of {wanted}: see `ulimit -Hn`");
    }
    Ok(wanted.min(most))
}

/// Opens `count` streams and waits until each has its first events. Returns the memory of one in the server.
async fn open(server: &Running, path: &str, count: usize, first: usize) -> anyhow::Result<(f64, Vec<Readers>)> {
    // The first connections make a server grow independently of their number.
    Readers::start(&server.authority, path, 100, first).await?.stop().await?;
    tokio::time::sleep(REST).await;
    let before = server.resident()?;
    let mut readers = Vec::new();
    let mut left = count;
    while left > 0 {
        let some = left.min(READERS);
        readers.push(Readers::start(&server.authority, path, some, first).await?);
        left -= some;
    }
    tokio::time::sleep(REST).await;
    let bytes = server.resident()?.saturating_sub(before) * 1024;
    Ok((bytes as f64 / count as f64, readers))
}

/// The time from `post` until every reader has `events` events.
async fn timed(
    readers: &mut [Readers],
    events: usize,
    post: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<f64> {
    for reader in &mut *readers {
        reader.expect(events).await?;
    }
    let begun = Instant::now();
    post.await?;
    for reader in readers {
        reader.reached(events).await?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// On a connection of its own, like the posts to the server.
async fn publish(authority: &str, line: &str) -> anyhow::Result<()> {
    Connection::open(authority).await?.post("/publish", line).await.map(|_| ())
}

/// A query that calls its client repeatedly.
struct Query {
    authority: String,
    name: String,
    posts: usize,
}

impl Query {
    async fn create(authority: &str) -> anyhow::Result<Self> {
        let mut connection = Connection::open(authority).await?;
        let paused = connection.post("/v1/namespaces/default/queries?wait=20s", TOOL).await?;
        let (_, rest) = paused.split_once("\"name\":\"").with_context(|| format!("no name in {paused}"))?;
        let name = rest.split('"').next().unwrap_or_default().to_owned();
        Ok(Self { authority: authority.to_owned(), name, posts: 0 })
    }

    fn events(&self) -> String {
        format!("/v1/namespaces/default/queries/{}/events", self.name)
    }

    /// Causes one event: a result is received and the query held, or the query is resumed to its next call.
    async fn go_on(&mut self) -> anyhow::Result<()> {
        self.posts += 1;
        let (what, body) = if self.posts % 2 == 1 {
            let result = format!("line {}", self.posts);
            ("tool-result", json!({"toolName": "relay", "toolResult": result, "continueExecution": false}))
        } else {
            ("continue", json!({}))
        };
        let path = format!("/v1/namespaces/default/queries/{}/{what}?wait=0", self.name);
        // A server closes idle connections, and rounds may be far apart.
        Connection::open(&self.authority).await?.post(&path, &body.to_string()).await.map(|_| ())
    }

    /// Causes one event, and reads its data from the stream.
    async fn line_of_one_event(&mut self) -> anyhow::Result<String> {
        self.go_on().await?;
        let mut stream = TcpStream::connect(&self.authority).await?;
        stream.write_all(request(&self.authority, &self.events()).as_bytes()).await?;
        let mut text = Vec::new();
        loop {
            ensure!(stream.read_buf(&mut text).await? > 0, "the stream ended");
            let read = String::from_utf8_lossy(&text);
            let mut data = read.split_inclusive('\n').filter_map(|line| line.strip_prefix("data: "));
            if let Some(line) = data.nth(FIRST).filter(|line| line.ends_with('\n')) {
                return Ok(line.trim_end().to_owned());
            }
        }
    }
}

/// A process with many readers of one stream.
struct Readers {
    child: Child,
    commands: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Readers {
    /// Starts it, and waits until each reader has `first` events.
    async fn start(authority: &str, path: &str, count: usize, first: usize) -> anyhow::Result<Self> {
        let mut child = own("readers")?
            .args([authority, path, &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let commands = child.stdin.take().context("a pipe")?;
        let lines = BufReader::new(child.stdout.take().context("a pipe")?).lines();
        let mut readers = Self { child, commands, lines };
        readers.line("open").await?;
        readers.expect(first).await?;
        readers.reached(first).await?;
        Ok(readers)
    }

    /// Asks to be notified when each reader has `events` events.
    async fn expect(&mut self, events: usize) -> anyhow::Result<()> {
        Ok(self.commands.write_all(format!("{events}\n").as_bytes()).await?)
    }

    async fn reached(&mut self, events: usize) -> anyhow::Result<()> {
        self.line(&events.to_string()).await
    }

    async fn line(&mut self, expected: &str) -> anyhow::Result<()> {
        let line = tokio::time::timeout(Duration::from_secs(120), self.lines.next_line()).await;
        match line.with_context(|| format!("the readers do not get to `{expected}`"))?? {
            Some(line) if line == expected => Ok(()),
            other => bail!("the readers said {other:?} instead of `{expected}`"),
        }
    }

    async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.commands);
        self.child.wait().await?;
        Ok(())
    }
}

/// The progress of the readers of one process.
#[derive(Default)]
struct Seen {
    events: Vec<usize>,
    /// How many events each reader should have, and how many readers lack some.
    wanted: Option<usize>,
    missing: usize,
}

impl Seen {
    fn expect(&mut self, events: usize) {
        self.wanted = Some(events);
        self.missing = self.events.iter().filter(|seen| **seen < events).count();
        self.tell_if_done();
    }

    fn count(&mut self, reader: usize, events: usize) {
        let before = self.events[reader];
        self.events[reader] += events;
        if let Some(wanted) = self.wanted
            && before < wanted
            && before + events >= wanted
        {
            self.missing -= 1;
            self.tell_if_done();
        }
    }

    fn tell_if_done(&mut self) {
        if self.missing == 0
            && let Some(wanted) = self.wanted.take()
        {
            println!("{wanted}");
        }
    }
}

/// The process: `count` readers of one stream. Each line of the input is a number of events; the same line is printed
/// when every reader has that many since it began.
pub(crate) async fn read_many(authority: &str, path: &str, count: usize) -> anyhow::Result<()> {
    let seen = Rc::new(RefCell::new(Seen { events: vec![0; count], ..Seen::default() }));
    let readers = LocalSet::new();
    readers
        .run_until(async {
            for reader in 0..count {
                let mut stream = TcpStream::connect(authority).await?;
                stream.write_all(request(authority, path).as_bytes()).await?;
                let seen = Rc::clone(&seen);
                tokio::task::spawn_local(async move {
                    if let Err(error) = read(stream, |events| seen.borrow_mut().count(reader, events)).await {
                        eprintln!("a reader broke: {error:#}");
                    }
                });
            }
            println!("open");
            let mut lines = BufReader::new(tokio::io::stdin()).lines();
            while let Some(line) = lines.next_line().await? {
                seen.borrow_mut().expect(line.parse()?);
            }
            Ok(())
        })
        .await
}

fn request(authority: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\naccept: text/event-stream\r\n\r\n")
}

/// Counts the lines that begin with `data`: neither a header nor a chunk size does.
async fn read(mut stream: TcpStream, mut count: impl FnMut(usize)) -> anyhow::Result<()> {
    const MARK: &[u8] = b"data";
    let mut buffer = [0; 2048];
    // How many letters of the prefix this line has matched; `None` once it is another line.
    let mut matched = Some(0);
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        let mut events = 0;
        for byte in &buffer[..length] {
            matched = match matched {
                _ if *byte == b'\n' => Some(0),
                Some(letters) if letters < MARK.len() && *byte == MARK[letters] => {
                    events += usize::from(letters + 1 == MARK.len());
                    Some(letters + 1)
                }
                _ => None,
            };
        }
        if events > 0 {
            count(events);
        }
    }
}
