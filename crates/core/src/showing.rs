//! Truncation of results for the model.
//!
//! Small results are shown whole. Of others the model sees the beginning, followed by a mark that says how much there
//! is and how to read on, if possible. The same result is always rendered identically within a query, so that prompt
//! caches hit.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use crate::{CallId, ContentHash, content::Content, outcome::Outcome};

/// Maximum size of one result as the model sees it; the rest is replaced by a mark.
pub const RESULT_SHOWN: usize = crate::ceiling::RESULT_SHOWN_BYTES;

/// How a model request renders results that are too long for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Showing {
    /// The model's name of the tool that reads large results page by page, if it has it.
    pub pager: Option<Arc<str>>,
    /// The first [`RESULT_SHOWN`] bytes of blobs, for a model that cannot page. One that can gets the few kilobytes
    /// that are stored in the journal.
    pub excerpts: BTreeMap<ContentHash, String>,
}

impl Showing {
    /// The text that the model reads as the result of `call`.
    #[must_use]
    pub fn show(&self, call: CallId, outcome: &Outcome) -> String {
        let mut text = match outcome {
            Outcome::Success { .. } => String::new(),
            Outcome::Failure { message, .. } => shorten_message(format!("Error: {message}")),
        };
        let Some(content) = outcome.content() else { return text };
        if !text.is_empty() {
            text.push('\n');
        }
        let room = RESULT_SHOWN.saturating_sub(text.len());
        match content {
            Content::Inline(value) => {
                let whole = crate::content::text_of(value);
                self.add(&mut text, call, &whole, whole.len() as u64, room);
            }
            Content::Large(large) => {
                let excerpt = self.excerpts.get(&large.hash).filter(|_| self.pager.is_none());
                self.add(&mut text, call, excerpt.unwrap_or(&large.head), large.size, room);
            }
        }
        text
    }

    /// Appends the beginning of content of `size` bytes, and a mark if it is truncated.
    fn add(&self, text: &mut String, call: CallId, beginning: &str, size: u64, room: usize) {
        let shown = &beginning[..beginning.floor_char_boundary(room)];
        text.push_str(shown);
        let bytes = shown.len();
        if bytes as u64 == size {
            return;
        }
        let told = match &self.pager {
            Some(pager) => write!(
                text,
                "\n[truncated: the first {bytes} of {size} bytes are shown; \
                 to read on, call {pager} with handle \"{call}\" and offset {bytes}]"
            ),
            None => {
                write!(text, "\n[truncated: the first {bytes} of {size} bytes are shown; the rest cannot be read]")
            }
        };
        // Writing to a string cannot fail.
        debug_assert!(told.is_ok());
    }
}

fn shorten_message(mut text: String) -> String {
    let size = text.len();
    if size > RESULT_SHOWN {
        text.truncate(text.floor_char_boundary(RESULT_SHOWN));
        text.push_str(&format!("\n[truncated: the first {} of {size} bytes are shown]", text.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{QueryUid, content::Large};

    fn call() -> CallId {
        CallId::derive(QueryUid::new(0, [0; 10]), 1, 0)
    }

    fn large(text: &str) -> Outcome {
        Outcome::Success { content: Content::Large(Large::of(&json!(text)).0) }
    }

    fn paging() -> Showing {
        Showing { pager: Some("read_result".into()), ..Showing::default() }
    }

    #[track_caller]
    fn check(showing: &Showing, outcome: &Outcome, expect: &str) {
        let shown = showing.show(call(), outcome);
        assert!(shown == expect, "{} … {}", &shown[..shown.len().min(80)], &shown[shown.len().saturating_sub(200)..]);
    }

    #[test]
    fn small_results_are_shown_whole() {
        let showing = Showing::default();
        check(&showing, &Outcome::success("2108"), "2108");
        check(&showing, &Outcome::success(json!({"a": 1})), r#"{"a":1}"#);
        check(&showing, &Outcome::success(""), "");
        check(&showing, &Outcome::failure("c", "no"), "Error: no");
        let with =
            |content: Value| Outcome::Failure { code: "c".into(), message: "no".into(), content: Some(content.into()) };
        check(&showing, &with(json!("more")), "Error: no\nmore");
        check(&paging(), &with(json!([1])), "Error: no\n[1]");
    }

    #[test]
    fn a_model_that_can_page_gets_the_head_and_the_handle() {
        let text = "x".repeat(300_000);
        let expect = format!(
            "{}\n[truncated: the first 4096 of 300000 bytes are shown; \
             to read on, call read_result with handle \"{}\" and offset 4096]",
            "x".repeat(4_096),
            call()
        );
        check(&paging(), &large(&text), &expect);
    }

    #[test]
    fn a_model_that_cannot_page_gets_what_fits() {
        let text = "é".repeat(200_000);
        let mark =
            |shown| format!("\n[truncated: the first {shown} of 400000 bytes are shown; the rest cannot be read]");
        let outcome = large(&text);
        let mut showing = Showing::default();
        check(&showing, &outcome, &format!("{}{}", "é".repeat(2_048), mark(4_096)));
        let hash = outcome.large().unwrap().hash;
        showing.excerpts.insert(hash, "é".repeat(RESULT_SHOWN / 2));
        check(&showing, &outcome, &format!("{}{}", "é".repeat(RESULT_SHOWN / 2), mark(RESULT_SHOWN)));
    }

    #[test]
    fn no_more_than_the_limit_is_shown_of_anything() {
        let long = "x".repeat(RESULT_SHOWN + 9);
        let expect = |rest: &str| format!("{}{rest}", "x".repeat(RESULT_SHOWN));
        check(
            &Showing::default(),
            &Outcome::success(long.as_str()),
            &expect("\n[truncated: the first 262144 of 262153 bytes are shown; the rest cannot be read]"),
        );
        let shown = paging().show(call(), &Outcome::success(long.as_str()));
        assert!(shown.ends_with(&format!("call read_result with handle \"{}\" and offset 262144]", call())));
        let failed = Outcome::Failure { code: "c".into(), message: long, content: Some(json!("more").into()) };
        let shown = Showing::default().show(call(), &failed);
        assert!(
            shown.contains("[truncated: the first 262144 of 262160 bytes are shown]\n\n[truncated: the first 0 of 4 ")
        );
    }
}
