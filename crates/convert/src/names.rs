//! Names that are valid for resources and secrets in Kubernetes, and therefore in ARK.

/// A DNS-1123 name derived from a text: `HTTP_Request` → `http-request`. `fallback` if nothing is left.
pub(crate) fn slug(text: &str, fallback: &str) -> String {
    const LONGEST: usize = 63;
    let mut slug = String::new();
    let mut was_lowercase = false;
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() {
            if letter.is_ascii_uppercase() && was_lowercase {
                slug.push('-');
            }
            slug.push(letter.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        was_lowercase = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if slug.len() >= LONGEST {
            break;
        }
    }
    slug.truncate(LONGEST);
    let slug = slug.trim_matches('-');
    if slug.is_empty() { fallback.to_owned() } else { slug.to_owned() }
}

/// Whether a header or a parameter of this name carries a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['_', '-'], "");
    const WHOLE: [&str; 4] = ["authorization", "proxyauthorization", "cookie", "key"];
    const PART: [&str; 7] = ["apikey", "token", "secret", "password", "authkey", "accesskey", "signature"];
    WHOLE.contains(&name.as_str()) || PART.iter().any(|part| name.contains(part))
}

/// A text, percent-encoded for a URL's path or query.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_a_dns_name() {
        for (text, expect) in [
            ("HTTP_Request", "http-request"),
            ("getPetById", "get-pet-by-id"),
            ("  Weather API (v2)! ", "weather-api-v2"),
            ("äöü", "x"),
            ("--a--", "a"),
        ] {
            assert_eq!(slug(text, "x"), expect);
        }
        assert_eq!(slug(&"a".repeat(99), "x").len(), 63);
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for name in ["Authorization", "X-API-Key", "access_token", "Cookie", "key", "client_secret"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["Accept", "keyword", "Content-Type", "q", "monkey"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
