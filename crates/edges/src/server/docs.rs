//! The page at `/docs`: the API, to read and to try, in a browser.
//!
//! It is three files of our own, shown from the document at `/openapi.json`. Nothing is loaded from
//! anywhere else, and the content security policy says so: the page works on a machine without a network.

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};

const HTML: &str = include_str!("docs/page.html");
const CSS: &str = include_str!("docs/page.css");
const JS: &str = include_str!("docs/page.js");

/// Only this server's own files and answers; the page may not be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `GET /docs`
pub(super) async fn page() -> Response {
    serve("text/html; charset=utf-8", HTML)
}

/// `GET /docs/page.css`
pub(super) async fn style() -> Response {
    serve("text/css; charset=utf-8", CSS)
}

/// `GET /docs/page.js`
pub(super) async fn script() -> Response {
    serve("text/javascript; charset=utf-8", JS)
}

/// A file of this server's own for a browser, with the policy that it is shown under.
pub(super) fn serve(media_type: &'static str, content: impl IntoResponse) -> Response {
    let header = |name: HeaderName, value: &'static str| (name, HeaderValue::from_static(value));
    let headers = [
        header(header::CONTENT_TYPE, media_type),
        header(header::CONTENT_SECURITY_POLICY, POLICY),
        header(header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        header(header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, content).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_loaded_from_anywhere_else() {
        for (name, text) in [("html", HTML), ("css", CSS), ("js", JS)] {
            for foreign in ["http://", "https://", "//cdn", "@import", "url(", "import(", "import "] {
                assert!(!text.contains(foreign), "{name} has `{foreign}`");
            }
        }
        for own in ["/docs/page.css", "/docs/page.js"] {
            assert!(HTML.contains(own), "{own}");
        }
    }

    /// The policy forbids scripts and styles within the page, so there must be none.
    #[test]
    fn the_page_keeps_its_own_policy() {
        for forbidden in ["<style", " style=", " onclick=", "javascript:"] {
            assert!(!HTML.contains(forbidden), "{forbidden}");
        }
        assert_eq!(HTML.matches("<script").count(), 1);
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"] {
            assert!(!JS.contains(forbidden), "{forbidden}");
        }
    }
}
