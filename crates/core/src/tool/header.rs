//! Headers of requests to other servers that manifests or arguments cannot set.
//!
//! The one list for the HTTP runner, for the requests to models and MCP servers, and for the converters: what a
//! converter writes, the runner accepts. Names are compared in any case.

/// Headers of the connection, of the framing and of the encoding of a message.
const OF_CONNECTION: &[&str] = &[
    "host",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "http2-settings",
    "accept-encoding",
];
/// Headers that select the format of a message.
const OF_FORMAT: &[&str] = &["content-type", "accept"];
/// Headers that identify the caller, its origin or the format.
const NOT_FROM_ARGUMENTS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "cookie",
    "content-type",
    "origin",
    "referer",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "traceparent",
    "tracestate",
];

/// Whether the connection sets a header itself, so that no manifest can.
#[must_use]
pub fn is_of_connection(name: &str) -> bool {
    is_listed(name, OF_CONNECTION)
}

/// Whether a protocol with a format of its own sets a header itself, or the connection does.
#[must_use]
pub fn is_of_protocol(name: &str) -> bool {
    is_listed(name, OF_FORMAT) || is_of_connection(name)
}

/// Whether no argument of a model may become part of a header.
#[must_use]
pub fn is_closed_to_arguments(name: &str) -> bool {
    is_listed(name, NOT_FROM_ARGUMENTS) || is_of_connection(name)
}

fn is_listed(name: &str, list: &[&str]) -> bool {
    list.iter().any(|listed| listed.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_set_by_the_server_by_the_manifest_or_by_arguments() {
        for (name, of_connection, of_protocol, closed) in [
            ("Host", true, true, true),
            ("transfer-encoding", true, true, true),
            ("Accept-Encoding", true, true, true),
            ("Content-Type", false, true, true),
            ("Accept", false, true, false),
            ("Authorization", false, false, true),
            ("COOKIE", false, false, true),
            ("X-Request-Id", false, false, false),
        ] {
            let found = (is_of_connection(name), is_of_protocol(name), is_closed_to_arguments(name));
            assert_eq!(found, (of_connection, of_protocol, closed), "{name}");
        }
    }
}
