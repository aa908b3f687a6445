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
}
