//! HTTP/1.1 as far as a load generator needs it: one request after another on one connection.
//!
//! A full client would cost as much as the server that is measured. This one writes the bytes of a request and reads a
//! head and a body of known length.

use anyhow::{Context, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    authority: String,
    /// Lines of the head that every request has.
    headers: &'static str,
    /// Buffers, reused for every request.
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(authority: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(authority).await.with_context(|| format!("connecting to {authority}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, authority: authority.to_owned(), headers: "", request: Vec::new(), answer: Vec::new() })
    }

    /// The same connection with further lines in the head of every request.
    pub(crate) fn with_headers(self, headers: &'static str) -> Self {
        Self { headers, ..self }
    }

    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<&str> {
        self.exchange("GET", path, "").await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> anyhow::Result<&str> {
        self.exchange("POST", path, body).await
    }

    /// The body of a 200; anything else is an error.
    async fn exchange(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<&str> {
        self.request.clear();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{}\r\n",
            self.authority,
            body.len(),
            self.headers,
        );
        self.request.extend_from_slice(head.as_bytes());
        self.request.extend_from_slice(body.as_bytes());
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        let body_start = loop {
            if let Some(end) = find(&self.answer, b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more().await?;
        };
        let head = std::str::from_utf8(&self.answer[..body_start])?;
        let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let length = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .context("the answer has no length")?
            .1
            .parse::<usize>()?;
        while self.answer.len() < body_start + length {
            self.read_more().await?;
        }
        let body = std::str::from_utf8(&self.answer[body_start..])?;
        ensure!(status == "200", "{method} {path} was answered with {status}: {body}");
        Ok(body)
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        self.answer.reserve(8 * 1024);
        if self.stream.read_buf(&mut self.answer).await? == 0 {
            bail!("the server closed the connection");
        }
        Ok(())
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
