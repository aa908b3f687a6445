//! The `Authorization` header: `Bearer` with a key's secret or a token, or ARK's `Basic pk:sk`.

use axum::http::{HeaderMap, header};
use base64::{Engine as _, prelude::BASE64_STANDARD};

/// Longer than any key, and than any token that an identity provider sends.
const LONGEST: usize = 16 * 1024;

/// The credential of a request.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Credential {
    Bearer(String),
    /// A public key and its secret.
    Pair(String, String),
}

/// A secret must not find its way into a log through `{:?}`.
impl std::fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Credential(…)")
    }
}

/// The credential in the headers; `None` if there is none, more than one, or one that cannot be read.
pub(super) fn read(headers: &HeaderMap) -> Option<Credential> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, rest) = value.to_str().ok().filter(|text| text.len() <= LONGEST)?.split_once(' ')?;
    let rest = rest.trim_matches(' ');
    if scheme.eq_ignore_ascii_case("bearer") {
        return (!rest.is_empty()).then(|| Credential::Bearer(rest.to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(BASE64_STANDARD.decode(rest).ok()?).ok()?;
    let (public, secret) = pair.split_once(':')?;
    Some(Credential::Pair(public.to_owned(), secret.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[&str], expect: Option<Credential>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        assert!(read(&headers) == expect, "{values:?}");
    }

    fn bearer(token: &str) -> Option<Credential> {
        Some(Credential::Bearer(token.into()))
    }

    #[test]
    fn both_schemes_are_read_in_any_case() {
        check(&["Bearer abc"], bearer("abc"));
        check(&["bEARER   abc "], bearer("abc"));
        let pair = format!("basic {}", BASE64_STANDARD.encode("pk-ark-1:sk-ark-2:3"));
        check(&[&pair], Some(Credential::Pair("pk-ark-1".into(), "sk-ark-2:3".into())));
    }

    #[test]
    fn what_is_not_one_credential_is_none() {
        let not_text = BASE64_STANDARD.encode(b"pk:\xff");
        let without_colon = BASE64_STANDARD.encode("pk");
        let long = "x".repeat(LONGEST);
        for value in [
            "",
            "abc",
            "Bearer",
            "Bearer ",
            "Token abc",
            "Digest abc",
            "Basic ???",
            "Basic",
            &format!("Basic {not_text}"),
            &format!("Basic {without_colon}"),
            &format!("Bearer {long}"),
        ] {
            check(&[value], None);
        }
        check(&[], None);
        check(&["Bearer abc", "Bearer abc"], None);
    }
}
