//! The lines of a secret's `allowed-hosts`.
//!
//! | a line | what it means |
//! |---|---|
//! | `api.example.com` | https to that host, on any port |
//! | `api.example.com:8443` | https to that host, on that port |
//! | `http://api.example.com:8000` | this and nothing else; without a port, the usual one of the scheme |
//! | `*.example.com`, in any of these | every name under it, and not the name itself |
//!
//! A host of this machine needs no https, since nothing leaves the machine. An invalid line invalidates the whole list:
//! skipping it could send a secret, or refuse it, against what the operator wrote.

use url::Url;

use crate::address::{self, HostAndPort};

/// The destinations that one line allows.
#[derive(Debug, PartialEq, Eq)]
struct HostLine {
    scheme: Option<&'static str>,
    /// Without a leading `*.`.
    host: String,
    names_under_it: bool,
    port: Option<u16>,
}

/// The number of an invalid line, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadLine(pub(super) usize);

/// Whether a request to `url` may carry a secret with this list.
///
/// # Errors
/// If a line of it is invalid.
pub(super) fn admit(list: &str, url: &Url) -> Result<bool, BadLine> {
    let lines = list.split([',', '\n']).map(str::trim).enumerate().filter(|(_, text)| !text.is_empty());
    let mut admitted = false;
    for (index, text) in lines {
        let line = HostLine::parse(text).ok_or(BadLine(index + 1))?;
        admitted |= line.admits(url);
    }
    Ok(admitted)
}

impl HostLine {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => {
                let known = ["http", "https"].into_iter().find(|known| scheme.eq_ignore_ascii_case(known))?;
                (Some(known), rest.strip_suffix('/').unwrap_or(rest))
            }
            None => (None, text),
        };
        let (names_under_it, rest) = rest.strip_prefix("*.").map_or((false, rest), |domain| (true, domain));
        let HostAndPort { host, port } = HostAndPort::parse(rest).filter(|entry| !entry.host.contains('*'))?;
        let usual = scheme.map(|scheme| if scheme == "https" { 443 } else { 80 });
        Some(Self { scheme, host, names_under_it, port: port.or(usual) })
    }

    fn admits(&self, url: &Url) -> bool {
        let is_scheme = match self.scheme {
            Some(scheme) => url.scheme() == scheme,
            None => url.scheme() == "https" || address::is_loopback(url),
        };
        let is_port = self.port.is_none() || self.port == url.port_or_known_default();
        let host = address::host(url);
        let is_host = if self.names_under_it {
            let before = host.strip_suffix(self.host.as_str()).and_then(|before| before.strip_suffix('.'));
            before.is_some_and(|before| !before.is_empty()) && address::literal(url).is_none()
        } else {
            host == self.host
        };
        is_scheme && is_port && is_host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, url: &str, expect: Result<bool, BadLine>) {
        assert_eq!(admit(list, &Url::parse(url).unwrap()), expect, "`{list}` for {url}");
    }

    #[test]
    fn a_line_restricts_scheme_host_and_port_as_far_as_it_names_them() {
        for (line, admitted, refused) in [
            (
                "api.example.com",
                &["https://api.example.com/v1", "https://API.example.com:8443", "https://api.example.com./"][..],
                &["http://api.example.com/", "http://api.example.com:443/", "https://example.com/"][..],
            ),
            (
                "api.example.com:8443",
                &["https://api.example.com:8443/v1"],
                &["https://api.example.com/", "http://api.example.com:8443/", "https://api.example.com:844/"],
            ),
            ("api.example.com:443", &["https://api.example.com/"], &["https://api.example.com:8443/"]),
            (
                "https://api.example.com",
                &["https://api.example.com/v1", "https://api.example.com:443/v1"],
                &["https://api.example.com:8443/", "http://api.example.com/", "http://api.example.com:443/"],
            ),
            ("HTTPS://API.Example.com/", &["https://api.example.com/v1"], &["http://api.example.com/"]),
            (
                "http://models.internal:8000",
                &["http://models.internal:8000/v1"],
                &["https://models.internal:8000/", "http://models.internal/", "http://models.internal:80000x/"],
            ),
            ("http://models.internal", &["http://models.internal/"], &["http://models.internal:8000/"]),
            (
                "*.example.com",
                &["https://a.example.com/", "https://b.a.example.com:8443/", "https://a.example.com./"],
                &[
                    "https://example.com/",
                    "https://.example.com/",
                    "https://evilexample.com/",
                    "https://a.example.com.evil.example/",
                    "http://a.example.com/",
                ],
            ),
            (
                "https://*.example.com:8443",
                &["https://a.example.com:8443/"],
                &["https://a.example.com/", "https://example.com:8443/"],
            ),
            // On this machine nothing can be intercepted.
            (
                "localhost",
                &["http://localhost:11434/v1", "https://localhost/", "http://LOCALHOST./"],
                &["http://127.0.0.1:11434/", "http://localhost.example/", "http://a.localhost/"],
            ),
            ("127.0.0.1:9", &["http://127.0.0.1:9/", "http://2130706433:9/"], &["http://127.0.0.1/"]),
            ("::1", &["http://[::1]:9/", "https://[0:0::1]/"], &["http://[::2]/"]),
            ("[::1]:9", &["http://[::1]:9/"], &["http://[::1]:8/"]),
            ("https://localhost", &["https://localhost/"], &["http://localhost/"]),
            ("10.0.0.5", &["https://10.0.0.5:8443/"], &["http://10.0.0.5/"]),
            ("*.0.0.1", &[], &["http://127.0.0.1/", "https://127.0.0.1/"]),
            (
                "bücher.example",
                &["https://xn--bcher-kva.example/", "https://BÜCHER.example/"],
                &["https://bucher.example/"],
            ),
            ("a.example, b.example", &["https://a.example/", "https://b.example/"], &["https://c.example/"]),
            ("a.example\r\n\n  b.example\n", &["https://b.example/"], &["https://c.example/"]),
            ("", &[], &["https://a.example/", "http://localhost/"]),
        ] {
            for url in admitted {
                check(line, url, Ok(true));
            }
            // A text that is not a URL is not a destination.
            for url in refused.iter().filter(|url| Url::parse(url).is_ok()) {
                check(line, url, Ok(false));
            }
        }
    }

    #[test]
    fn an_invalid_line_invalidates_the_list() {
        for line in [
            "https://api.example.com/v1",
            "api.example.com/v1",
            "ftp://api.example.com",
            "https://",
            "://a",
            "a.example:99999",
            "a.example:",
            "a b.example",
            "user@a.example",
            "a.*.example",
            "*",
            "*.",
            "a.example?x",
            "# a note",
        ] {
            check(line, "https://a.example/", Err(BadLine(1)));
            check(&format!("a.example\n{line}"), "https://a.example/", Err(BadLine(2)));
        }
    }
}
