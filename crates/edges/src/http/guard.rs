//! Who may talk to a server that listens on loopback and is open.
//!
//! The machine's own programs may; web pages may not, although they run on the same machine. A page
//! reaches loopback in two ways: under a name of its own that it lets resolve to 127.0.0.1 (then
//! `Host` gives it away), or straight across origins (then `Origin` does, which browsers send with
//! every request that could change anything). There is no CORS here, so pages cannot read answers
//! either.

use std::net::IpAddr;

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::error::{ApiError, Code};

pub(super) async fn same_machine(request: Request, next: Next) -> Response {
    match check(request.uri().authority(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn check(target: Option<&Authority>, headers: &HeaderMap) -> Result<(), ApiError> {
    let host =
        single(headers, header::HOST).and_then(|host| host.parse::<Authority>().ok()).filter(is_loopback).ok_or_else(
            || ApiError::new(Code::HostNotAllowed, "`Host` must name this machine: localhost or a loopback address"),
        )?;
    // The absolute form of a request target outranks `Host` (RFC 9112, 3.2.2).
    if target.is_some_and(|target| !is_loopback(target)) {
        return Err(ApiError::new(Code::HostNotAllowed, "the request is for another machine"));
    }
    if !headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    let same = single(headers, header::ORIGIN)
        .and_then(|origin| origin.strip_prefix("http://")?.parse::<Authority>().ok())
        .is_some_and(|origin| origin.as_str().eq_ignore_ascii_case(host.as_str()));
    if same {
        Ok(())
    } else {
        Err(ApiError::new(Code::OriginNotAllowed, "web pages of other origins may not use this server"))
    }
}

/// The value of a header that stands there exactly once.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let named = host.eq_ignore_ascii_case("localhost");
    !authority.as_str().contains('@') && (named || literal.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_headers(headers: &[(HeaderName, &str)], expect: Option<Code>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        let code = check(None, &map).err().map(|error| error.code);
        assert_eq!(code, expect, "{headers:?}");
    }

    #[test]
    fn a_host_must_be_loopback() {
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:8080"] {
            check_headers(&[(header::HOST, host)], None);
        }
        for host in [
            "",
            "example.com",
            "localhost.evil.example",
            "evil.example:8080",
            "localhost@evil.example",
            "user@localhost",
            "127.0.0.1.nip.io",
            "0.0.0.0",
            "10.0.0.1",
            "169.254.169.254",
            "[::ffff:10.0.0.1]",
            "localhost/x",
            "localhost:80:80",
            "2130706433",
            "0x7f.1",
            "localhost.",
        ] {
            check_headers(&[(header::HOST, host)], Some(Code::HostNotAllowed));
        }
        check_headers(&[], Some(Code::HostNotAllowed));
        check_headers(&[(header::HOST, "localhost"), (header::HOST, "localhost")], Some(Code::HostNotAllowed));
    }

    #[test]
    fn an_absolute_target_for_another_machine_is_refused() {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "localhost".parse().unwrap());
        assert!(check(Some(&Authority::from_static("localhost:1")), &headers).is_ok());
        let refused = check(Some(&Authority::from_static("evil.example")), &headers).unwrap_err();
        assert_eq!(refused.code, Code::HostNotAllowed);
    }

    #[test]
    fn an_origin_must_be_the_server_itself() {
        let host = (header::HOST, "localhost:8080");
        check_headers(&[host.clone(), (header::ORIGIN, "http://localhost:8080")], None);
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:3000",
            "https://localhost:8080",
            "http://evil.example",
            "http://localhost:8080/",
            "http://localhost:8080@evil.example",
            "file://",
        ] {
            check_headers(&[host.clone(), (header::ORIGIN, origin)], Some(Code::OriginNotAllowed));
        }
        let twice = (header::ORIGIN, "http://localhost:8080");
        check_headers(&[host, twice.clone(), twice], Some(Code::OriginNotAllowed));
    }
}
