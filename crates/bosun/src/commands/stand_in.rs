//! What the commands that serve a stand-in have in common: they read a file, listen, and say where.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    path::Path,
};

use anyhow::Context as _;
use tokio::net::TcpListener;

pub(super) fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))
}

pub(super) async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// Prints the address of a stand-in that answers from `file`.
pub(super) fn announce(url: &str, file: &Path) -> io::Result<()> {
    writeln!(io::stdout(), "listening on {url} with {}", file.display())
}
