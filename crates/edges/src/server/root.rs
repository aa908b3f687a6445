//! The answer at `/`: which server this is, and where to go from here.
//!
//! Browsers get a page, other clients the same as JSON. Nothing here belongs to a namespace or needs a key: how many
//! agents there are, for instance, is for callers who may list them.

use std::sync::LazyLock;

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};

use schemars::JsonSchema;
use serde::Serialize;

use super::{docs, health::Service};
use crate::http::answer::Json;

const HTML: &str = include_str!("root/page.html");

/// What to try first, on the command line.
const COMMANDS: &[&str] = &["bosun query --agent NAME 'QUESTION'", "bosun chat --agent NAME"];

/// The answer depends on this header, which caches must know.
const VARY: (HeaderName, HeaderValue) = (header::VARY, HeaderValue::from_static("accept"));

/// The answer at `/`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Root {
    /// As `/health` has it.
    service: &'static str,
    /// The program that serves it.
    server: &'static str,
    version: &'static str,
    /// Where to go from here.
    links: RootLinks,
    /// What to try first, on the command line.
    commands: &'static [&'static str],
}

#[derive(Debug, Serialize, JsonSchema)]
struct RootLinks {
    docs: &'static str,
    openapi: &'static str,
    health: &'static str,
    ready: &'static str,
    agents: &'static str,
}

impl Root {
    fn new(commands: &'static [&'static str]) -> Self {
        let Service { service, server, .. } = Service::new("healthy", None);
        let links = RootLinks {
            docs: "/docs",
            openapi: "/openapi.json",
            health: "/health",
            ready: "/ready",
            agents: "/v1/agents",
        };
        Self { service, server, version: env!("CARGO_PKG_VERSION"), links, commands }
    }
}

/// `GET /`
pub(super) async fn root(headers: HeaderMap) -> Response {
    static PAGE: LazyLock<Bytes> = LazyLock::new(|| {
        // Both are constants of this program, and neither has a character that HTML would interpret.
        let page = HTML.replace("{version}", env!("CARGO_PKG_VERSION")).replace("{commands}", &COMMANDS.join("\n"));
        page.into()
    });
    if prefers_html(&headers) {
        ([VARY], docs::serve("text/html; charset=utf-8", PAGE.clone())).into_response()
    } else {
        ([VARY], Json(Root::new(COMMANDS))).into_response()
    }
}

/// Whether a client names HTML, and gives JSON no more weight. `*/*` names neither: then it is JSON.
fn prefers_html(headers: &HeaderMap) -> bool {
    let ranges = || {
        let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(','))
    };
    let weight = |media_type: &str| {
        let named = ranges().find_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(media_type));
            is_named.then(|| parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, weight_of))
        });
        named.unwrap_or(0.0)
    };
    let html = weight("text/html");
    html > 0.0 && html >= weight("application/json")
}

/// A weight that cannot be read counts as none.
fn weight_of(text: &str) -> f32 {
    text.trim().parse().ok().filter(|weight| (0.0..=1.0).contains(weight)).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept: &[&str], expect: bool) {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(header::ACCEPT, value.parse().unwrap());
        }
        assert_eq!(prefers_html(&headers), expect, "{accept:?}");
    }

    #[test]
    fn browsers_get_html_and_other_clients_json() {
        check(&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], true);
        check(&["TEXT/HTML"], true);
        check(&["application/json", "text/html"], true);
        check(&[], false);
        check(&["*/*"], false);
        check(&["application/json"], false);
        check(&["application/json, text/html;q=0.5"], false);
        check(&["text/html;q=0"], false);
        check(&["text/html;q=nonsense"], false);
        check(&["text/html-like"], false);
    }

    /// The policy of `/docs` forbids scripts and styles within the page.
    #[test]
    fn the_page_keeps_the_policy_that_it_is_sent_with() {
        for forbidden in ["<script", "<style", " style=", " onclick=", "javascript:", "http://", "https://"] {
            assert!(!HTML.contains(forbidden), "{forbidden}");
        }
        for command in COMMANDS {
            assert!(!command.contains(['<', '>', '&']), "{command}");
        }
    }
}
