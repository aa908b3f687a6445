//! What a client and this server agree on: the protocol version, and the extensions that are active.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::{
    error::{A2aError, ErrorKind},
    tools::CLIENT_TOOLS,
};
use crate::http::error::clip;

pub(super) const VERSION: HeaderName = HeaderName::from_static("a2a-version");
pub(super) const EXTENSIONS: HeaderName = HeaderName::from_static("a2a-extensions");
/// The same in the SDKs of 0.3.
const OLD_EXTENSIONS: HeaderName = HeaderName::from_static("x-a2a-extensions");

/// A generation of the protocol, which is all that is negotiated: patch versions are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    V03,
    V1,
}

/// The version that a request names in its header or its query string; `None` if it names none.
pub(super) fn generation(headers: &HeaderMap, uri: &Uri) -> Result<Option<Generation>, A2aError> {
    let in_query = || {
        let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        query
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("a2a-version"))
            .map(|(_, value)| value.into_owned())
    };
    let named =
        headers.get(VERSION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).or_else(in_query);
    match named.as_deref().map(str::trim) {
        None | Some("") => Ok(None),
        Some("0.3") => Ok(Some(Generation::V03)),
        Some("1.0") => Ok(Some(Generation::V1)),
        Some(other) => {
            let message = format!("A2A version `{}` is not supported; this server supports 1.0 and 0.3", clip(other));
            Err(A2aError::new(ErrorKind::VersionNotSupported, message))
        }
    }
}

/// Whether the request activates the client-tools extension. Unknown extensions are ignored, as the protocol requires.
pub(super) fn activates_client_tools(headers: &HeaderMap) -> bool {
    let values = headers.get_all(EXTENSIONS).iter().chain(headers.get_all(OLD_EXTENSIONS));
    let mut named = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    named.any(|uri| uri.trim() == CLIENT_TOOLS)
}

/// The value of `A2A-Extensions` in an answer: what is active.
pub(super) fn activated() -> HeaderValue {
    HeaderValue::from_static(CLIENT_TOOLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: Option<&str>, uri: &str, expect: Result<Option<Generation>, ErrorKind>) {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert(VERSION, value.parse().unwrap());
        }
        let read = generation(&headers, &uri.parse().unwrap()).map_err(|error| error.kind());
        assert_eq!(read, expect, "{header:?} {uri}");
    }

    #[test]
    fn a_version_is_major_and_minor_and_comes_from_the_header_or_the_query() {
        check(None, "/a2a", Ok(None));
        check(Some(""), "/a2a", Ok(None));
        check(Some("1.0"), "/a2a", Ok(Some(Generation::V1)));
        check(Some(" 0.3 "), "/a2a", Ok(Some(Generation::V03)));
        check(None, "/a2a?A2A-Version=1.0", Ok(Some(Generation::V1)));
        check(Some("0.3"), "/a2a?A2A-Version=1.0", Ok(Some(Generation::V03)));
        for unsupported in ["1", "1.0.1", "0.2", "2.0", "one", "99.0"] {
            check(Some(unsupported), "/a2a", Err(ErrorKind::VersionNotSupported));
        }
    }

    #[test]
    fn an_extension_is_activated_by_either_header_among_others() {
        for (name, value, expect) in [
            (EXTENSIONS, CLIENT_TOOLS.to_owned(), true),
            (EXTENSIONS, format!("https://other.example/x, {CLIENT_TOOLS}"), true),
            (OLD_EXTENSIONS, CLIENT_TOOLS.to_owned(), true),
            (EXTENSIONS, CLIENT_TOOLS.replace("v1", "v2"), false),
            (EXTENSIONS, String::new(), false),
        ] {
            let headers = HeaderMap::from_iter([(name, value.parse().unwrap())]);
            assert_eq!(activates_client_tools(&headers), expect, "{value}");
        }
    }
}
