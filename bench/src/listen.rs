//! How the helper processes of the bench serve: on a free port that they print, until their standard input ends.

use anyhow::Context;
use axum::Router;
use tokio::{io::AsyncReadExt, net::TcpListener};

pub(crate) async fn until_stdin_ends(router: Router) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let served = axum::serve(
        axum::serve::ListenerExt::tap_io(listener, |stream| {
            // Without it, a round trip would wait for a delayed acknowledgement.
            if let Err(error) = stream.set_nodelay(true) {
                eprintln!("{error}");
            }
        }),
        router,
    );
    let mut rest = Vec::new();
    tokio::select! {
        served = served => served.context("serving"),
        ended = async { tokio::io::stdin().read_to_end(&mut rest).await } => ended.map(|_| ()).context("standard input"),
    }
}
