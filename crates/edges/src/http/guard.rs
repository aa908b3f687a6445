//! Checks of `Host` and `Origin`: the defence against DNS rebinding and cross-site requests.
//!
//! The machine's own programs may use a server that is open; web pages may not, although they run on the
//! same machine. A page reaches loopback in two ways: under a name of its own that it lets resolve to
//! 127.0.0.1 (then `Host` gives it away), or straight across origins (then `Origin` does, which browsers
//! send with every request that could change anything). A server with keys may be addressed by any
//! address, which no page can make its own, and by the names that its operator lists. There is no CORS
//! here, so pages of other origins cannot read answers either.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, header, uri::Authority};

use super::error::{ApiError, Code};

/// The names by which a request may address the server.
#[derive(Debug)]
pub(crate) struct Hosts {
    listed: Vec<String>,
    /// Callers must authenticate, so any IP address is accepted as the host.
    guarded: bool,
}

impl Hosts {
    pub(crate) fn new(listed: &[String], guarded: bool) -> Self {
        Self { listed: listed.into(), guarded }
    }

    fn include(&self, authority: &Authority) -> bool {
        let host = authority.host();
        let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let named = |name: &str| host.eq_ignore_ascii_case(name);
        let known = match literal.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || self.guarded || self.listed.iter().any(|name| name == literal),
            Err(_) => named("localhost") || self.listed.iter().any(|name| named(name)),
        };
        known && !authority.as_str().contains('@')
    }

    /// Whether the request is for this server, and not sent by a page of another origin.
    pub(super) fn check(&self, target: Option<&Authority>, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = single(headers, header::HOST).and_then(|host| host.parse::<Authority>().ok());
        let host = host.filter(|host| self.include(host)).ok_or_else(|| {
            let message = "`Host` must name this server: localhost, its address, or a name of `--allow-host`";
            ApiError::new(Code::HostNotAllowed, message)
        })?;
        // The absolute form of a request target outranks `Host` (RFC 9112, 3.2.2).
        if target.is_some_and(|target| !self.include(target)) {
            return Err(ApiError::new(Code::HostNotAllowed, "the request is for another machine"));
        }
        if !headers.contains_key(header::ORIGIN) {
            return Ok(());
        }
        let is_itself = |origin: &str| {
            // A proxy that terminates TLS forwards requests without it.
            let rest =
                origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://").filter(|_| self.guarded));
            rest.and_then(|rest| rest.parse::<Authority>().ok())
                .is_some_and(|origin| origin.as_str().eq_ignore_ascii_case(host.as_str()))
        };
        if single(headers, header::ORIGIN).is_some_and(is_itself) {
            Ok(())
        } else {
            Err(ApiError::new(Code::OriginNotAllowed, "web pages of other origins may not use this server"))
        }
    }
}

/// The value of a header that is given exactly once.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: HeaderName = header::HOST;
    const ORIGIN: HeaderName = header::ORIGIN;

    fn open() -> Hosts {
        Hosts::new(&[], false)
    }

    fn guarded() -> Hosts {
        Hosts::new(&["bosun.example.org".into()], true)
    }

    #[track_caller]
    fn check(hosts: &Hosts, headers: &[(HeaderName, &str)], expect: Option<Code>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        let code = hosts.check(None, &map).err().map(|error| error.code);
        assert_eq!(code, expect, "{headers:?} on {hosts:?}");
    }

    #[test]
    fn every_spelling_of_a_host_is_accepted_or_refused() {
        const REFUSED: Option<Code> = Some(Code::HostNotAllowed);
        // The host, the verdict of an open server, and that of a server with keys and a name.
        for (host, by_open, by_guarded) in [
            ("localhost", None, None),
            ("LOCALHOST:8080", None, None),
            ("127.0.0.1", None, None),
            ("127.9.9.9:1", None, None),
            ("[::1]", None, None),
            ("[::1]:8080", None, None),
            ("[0:0:0:0:0:0:0:1]", None, None),
            ("0.0.0.0", REFUSED, None),
            ("10.0.0.1", REFUSED, None),
            ("192.168.1.5:8080", REFUSED, None),
            ("169.254.169.254", REFUSED, None),
            ("[fe80::1]", REFUSED, None),
            ("[::]", REFUSED, None),
            ("[::ffff:10.0.0.1]", REFUSED, None),
            ("[::ffff:127.0.0.1]", REFUSED, None),
            ("bosun.example.org", REFUSED, None),
            ("BOSUN.example.ORG:443", REFUSED, None),
            ("", REFUSED, REFUSED),
            (":8080", REFUSED, REFUSED),
            ("example.com", REFUSED, REFUSED),
            ("example.org", REFUSED, REFUSED),
            ("evil.bosun.example.org", REFUSED, REFUSED),
            ("bosun.example.org.evil.example", REFUSED, REFUSED),
            ("bosun.example.org.", REFUSED, REFUSED),
            ("localhost.evil.example", REFUSED, REFUSED),
            ("evil.example:8080", REFUSED, REFUSED),
            ("localhost@evil.example", REFUSED, REFUSED),
            ("user@localhost", REFUSED, REFUSED),
            ("user:password@127.0.0.1", REFUSED, REFUSED),
            ("127.0.0.1.nip.io", REFUSED, REFUSED),
            ("localhost/x", REFUSED, REFUSED),
            ("localhost?x", REFUSED, REFUSED),
            ("localhost:80:80", REFUSED, REFUSED),
            ("localhost, evil.example", REFUSED, REFUSED),
            ("localhost evil.example", REFUSED, REFUSED),
            ("2130706433", REFUSED, REFUSED),
            ("0x7f.1", REFUSED, REFUSED),
            ("0177.0.0.1", REFUSED, REFUSED),
            ("127.1", REFUSED, REFUSED),
            ("localhost.", REFUSED, REFUSED),
            ("localhost%00", REFUSED, REFUSED),
            ("::1", REFUSED, REFUSED),
            ("[::1", REFUSED, REFUSED),
            ("http://localhost", REFUSED, REFUSED),
            ("*", REFUSED, REFUSED),
        ] {
            check(&open(), &[(HOST, host)], by_open);
            check(&guarded(), &[(HOST, host)], by_guarded);
        }
        check(&open(), &[], REFUSED);
        check(&open(), &[(HOST, "localhost"), (HOST, "localhost")], REFUSED);
        check(&guarded(), &[(HOST, "bosun.example.org"), (HOST, "bosun.example.org")], REFUSED);
        check(&Hosts::new(&["10.0.0.1".into()], false), &[(HOST, "10.0.0.1:80")], None);
    }

    #[test]
    fn an_absolute_target_for_another_machine_is_refused() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "localhost".parse().unwrap());
        assert!(open().check(Some(&Authority::from_static("localhost:1")), &headers).is_ok());
        let refused = open().check(Some(&Authority::from_static("evil.example")), &headers).unwrap_err();
        assert_eq!(refused.code, Code::HostNotAllowed);
    }

    #[test]
    fn an_origin_must_be_the_server_itself() {
        let (host, name) = ((HOST, "localhost:8080"), (HOST, "bosun.example.org"));
        check(&open(), &[host.clone(), (ORIGIN, "http://localhost:8080")], None);
        check(&guarded(), &[name.clone(), (ORIGIN, "https://bosun.example.org")], None);
        check(&guarded(), &[name.clone(), (ORIGIN, "http://BOSUN.example.org")], None);
        for origin in [
            "null",
            "",
            "*",
            "localhost:8080",
            "http://localhost",
            "http://localhost:3000",
            "https://localhost:8080",
            "http://127.0.0.1:8080",
            "http://evil.example",
            "http://localhost:8080/",
            "http://localhost:8080@evil.example",
            "http://evil.example#http://localhost:8080",
            "http://localhost:8080, http://evil.example",
            "file://",
            "chrome-extension://abcdef",
        ] {
            check(&open(), &[host.clone(), (ORIGIN, origin)], Some(Code::OriginNotAllowed));
        }
        for origin in
            ["https://evil.example", "https://bosun.example.org:8443", "https://bosun.example.org.evil.example"]
        {
            check(&guarded(), &[name.clone(), (ORIGIN, origin)], Some(Code::OriginNotAllowed));
        }
        let twice = (ORIGIN, "http://localhost:8080");
        check(&open(), &[host, twice.clone(), twice], Some(Code::OriginNotAllowed));
    }
}
