//! Rendering of results for the model.
//!
//! Small results are shown whole. Of others the model sees the beginning, followed by a mark that says how much there
//! is and how to read on, if possible. Content blocks are shown as text, and their images next to it. The same result
//! is always rendered identically within a query, so that prompt caches hit.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use crate::{
    CallId, ContentHash,
    ceiling::{IMAGES_SHOWN, IMAGES_SHOWN_BYTES},
    content::{Blocks, Content, HEAD_BYTES, Images, Large},
    outcome::Outcome,
};

/// Maximum size of one result as the model sees it; the rest is replaced by a mark.
pub const RESULT_SHOWN: usize = crate::ceiling::RESULT_SHOWN_BYTES;

/// How a model request renders results that are too long for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultRenderer {
    /// The model's name of the tool that reads large results page by page, if it has it.
    pub pager: Option<Arc<str>>,
    /// The first [`RESULT_SHOWN`] bytes of blobs, for a model that cannot page. One that can gets the few kilobytes
    /// that are stored in the journal.
    pub excerpts: BTreeMap<ContentHash, String>,
    /// The content blocks of blobs. Those that are missing are only mentioned.
    pub blocks: BTreeMap<ContentHash, RenderedBlocks>,
    /// The results of calls that no runner of this server ran, as the agent's filters made them; the journal has them as
    /// they were delivered.
    pub filtered: BTreeMap<CallId, Outcome>,
}

/// Content blocks as a model gets them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedBlocks {
    /// At most the first [`RESULT_SHOWN`] bytes.
    pub text: String,
    /// Of the whole text.
    pub size: u64,
    pub images: Images,
}

impl From<&Blocks> for RenderedBlocks {
    fn from(blocks: &Blocks) -> Self {
        let mut text = blocks.text();
        let size = text.len() as u64;
        text.truncate(text.floor_char_boundary(RESULT_SHOWN));
        Self { text, size, images: shown_images(blocks) }
    }
}

/// The images that fit in one request, counted from the newest result to the oldest. A result whose images do not fit ends
/// the count: no older one has any.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageBudget {
    count: usize,
    bytes: usize,
}

impl ImageBudget {
    /// Counts the images of the next older result, and drops them if they do not fit.
    pub fn spend(&mut self, images: &mut Images) {
        self.count += images.len();
        self.bytes += images.iter().map(|image| image.data.len()).sum::<usize>();
        if self.count > IMAGES_SHOWN || self.bytes > IMAGES_SHOWN_BYTES {
            *images = Images::default();
        }
    }
}

fn shown_images(blocks: &Blocks) -> Images {
    blocks.images().take(IMAGES_SHOWN).collect()
}

impl ResultRenderer {
    /// What the model gets as the outcome of `call`.
    #[must_use]
    pub fn outcome<'a>(&'a self, call: CallId, recorded: &'a Outcome) -> &'a Outcome {
        self.filtered.get(&call).unwrap_or(recorded)
    }

    /// The text that the model reads as the result of `call`.
    #[must_use]
    pub fn render(&self, call: CallId, outcome: &Outcome) -> String {
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
            Content::Blocks(blocks) => {
                let whole = blocks.text();
                self.add_blocks(&mut text, call, &whole, whole.len() as u64, room);
            }
            Content::Large(large) if large.media_type.is_blocks() => match self.blocks.get(&large.hash) {
                Some(shown) => self.add_blocks(&mut text, call, &shown.text, shown.size, room),
                None => text.push_str(&self.mention(call, large)),
            },
            Content::Large(large) => {
                let excerpt = self.excerpts.get(&large.hash).filter(|_| self.pager.is_none());
                self.add(&mut text, call, excerpt.unwrap_or(&large.head), large.size, room);
            }
        }
        text
    }

    /// The images that the model gets with the result.
    #[must_use]
    pub fn images(&self, outcome: &Outcome) -> Images {
        match outcome.content() {
            Some(Content::Blocks(blocks)) => shown_images(blocks),
            Some(Content::Large(large)) => {
                self.blocks.get(&large.hash).map(|shown| Arc::clone(&shown.images)).unwrap_or_default()
            }
            Some(Content::Inline(_)) | None => Images::default(),
        }
    }

    /// Appends the beginning of the text of content blocks. Pages are pages of their JSON, so a model that can page begins
    /// with the first one.
    fn add_blocks(&self, text: &mut String, call: CallId, beginning: &str, size: u64, room: usize) {
        let is_whole = size <= room as u64;
        let room = if self.pager.is_some() && !is_whole { room.min(HEAD_BYTES) } else { room };
        let shown = &beginning[..beginning.floor_char_boundary(room)];
        text.push_str(shown);
        if !is_whole {
            let rest = self.rest_of_blocks(call, "the rest cannot be read");
            text.push_str(&format!("\n[truncated: the first {} of {size} bytes are shown; {rest}]", shown.len()));
        }
    }

    /// The mark of content blocks that are not in memory.
    fn mention(&self, call: CallId, large: &Large) -> String {
        let Large { size, media_type, .. } = large;
        format!("[result: {media_type}, {size} bytes; {}]", self.rest_of_blocks(call, "it cannot be shown"))
    }

    fn rest_of_blocks(&self, call: CallId, otherwise: &str) -> String {
        match &self.pager {
            Some(pager) => format!("to read all of it as JSON, call {pager} with handle \"{call}\" and offset 0"),
            None => otherwise.to_owned(),
        }
    }

    /// Appends the beginning of content of `size` bytes, and a mark if it is truncated.
    fn add(&self, text: &mut String, call: CallId, beginning: &str, size: u64, room: usize) {
        let shown = &beginning[..beginning.floor_char_boundary(room)];
        text.push_str(shown);
        let bytes = shown.len();
        if bytes as u64 == size {
            return;
        }
        let written = match &self.pager {
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
        debug_assert!(written.is_ok());
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

    fn paging() -> ResultRenderer {
        ResultRenderer { pager: Some("read_result".into()), ..ResultRenderer::default() }
    }

    #[track_caller]
    fn check(renderer: &ResultRenderer, outcome: &Outcome, expect: &str) {
        let shown = renderer.render(call(), outcome);
        assert!(shown == expect, "{} … {}", &shown[..shown.len().min(80)], &shown[shown.len().saturating_sub(200)..]);
    }

    #[test]
    fn small_results_are_shown_whole() {
        let renderer = ResultRenderer::default();
        check(&renderer, &Outcome::success("2108"), "2108");
        check(&renderer, &Outcome::success(json!({"a": 1})), r#"{"a":1}"#);
        check(&renderer, &Outcome::success(""), "");
        check(&renderer, &Outcome::failure("c", "no"), "Error: no");
        let with =
            |content: Value| Outcome::Failure { code: "c".into(), message: "no".into(), content: Some(content.into()) };
        check(&renderer, &with(json!("more")), "Error: no\nmore");
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
        let mut renderer = ResultRenderer::default();
        check(&renderer, &outcome, &format!("{}{}", "é".repeat(2_048), mark(4_096)));
        let hash = outcome.large().unwrap().hash;
        renderer.excerpts.insert(hash, "é".repeat(RESULT_SHOWN / 2));
        check(&renderer, &outcome, &format!("{}{}", "é".repeat(RESULT_SHOWN / 2), mark(RESULT_SHOWN)));
    }

    #[test]
    fn no_more_than_the_limit_is_shown_of_anything() {
        let long = "x".repeat(RESULT_SHOWN + 9);
        let expect = |rest: &str| format!("{}{rest}", "x".repeat(RESULT_SHOWN));
        check(
            &ResultRenderer::default(),
            &Outcome::success(long.as_str()),
            &expect("\n[truncated: the first 262144 of 262153 bytes are shown; the rest cannot be read]"),
        );
        let shown = paging().render(call(), &Outcome::success(long.as_str()));
        assert!(shown.ends_with(&format!("call read_result with handle \"{}\" and offset 262144]", call())));
        let failed = Outcome::Failure { code: "c".into(), message: long, content: Some(json!("more").into()) };
        let shown = ResultRenderer::default().render(call(), &failed);
        assert!(
            shown.contains("[truncated: the first 262144 of 262160 bytes are shown]\n\n[truncated: the first 0 of 4 ")
        );
    }

    fn text_of_blocks(text: &str) -> Content {
        let image = json!({"type": "image", "data": "iVBORw0KGgoA", "mimeType": "image/png"});
        Content::Blocks(Blocks::new(vec![json!({"type": "text", "text": text}), image], None))
    }

    #[test]
    fn content_blocks_are_shown_as_text_and_images() {
        let outcome = Outcome::Success { content: text_of_blocks("a map") };
        for renderer in [ResultRenderer::default(), paging()] {
            check(&renderer, &outcome, "a map\n[image: image/png, 9 bytes]");
            assert_eq!(renderer.images(&outcome).len(), 1);
        }
        let failed = Outcome::Failure { code: "c".into(), message: "no".into(), content: Some(text_of_blocks("map")) };
        check(&ResultRenderer::default(), &failed, "Error: no\nmap\n[image: image/png, 9 bytes]");
    }

    #[test]
    fn content_blocks_in_a_blob_are_shown_once_they_are_loaded() {
        let content = text_of_blocks("a map");
        let Content::Blocks(blocks) = &content else { panic!() };
        let large = content.as_blob().unwrap().0;
        let (hash, outcome) = (large.hash, Outcome::Success { content: Content::Large(large) });
        let mark = "[result: application/vnd.bosun.blocks+json, 106 bytes; it cannot be shown]";
        check(&ResultRenderer::default(), &outcome, mark);
        let mark = format!(
            "[result: application/vnd.bosun.blocks+json, 106 bytes; \
             to read all of it as JSON, call read_result with handle \"{}\" and offset 0]",
            call()
        );
        check(&paging(), &outcome, &mark);
        assert_eq!(ResultRenderer::default().images(&outcome), Images::default());
        for mut renderer in [ResultRenderer::default(), paging()] {
            renderer.blocks.insert(hash, blocks.into());
            check(&renderer, &outcome, "a map\n[image: image/png, 9 bytes]");
            assert_eq!(renderer.images(&outcome).len(), 1);
        }
    }

    #[test]
    fn long_texts_of_content_blocks_are_truncated() {
        let outcome = Outcome::Success { content: text_of_blocks(&"x".repeat(RESULT_SHOWN)) };
        let mark = |shown: usize, rest: &str| {
            format!("{}\n[truncated: the first {shown} of 262172 bytes are shown; {rest}]", "x".repeat(shown))
        };
        check(&ResultRenderer::default(), &outcome, &mark(RESULT_SHOWN, "the rest cannot be read"));
        let rest = format!("to read all of it as JSON, call read_result with handle \"{}\" and offset 0", call());
        check(&paging(), &outcome, &mark(HEAD_BYTES, &rest));
        let content = outcome.content().unwrap();
        let Content::Blocks(blocks) = content else { panic!() };
        let shown = RenderedBlocks::from(blocks);
        assert_eq!((shown.text.len(), shown.size), (RESULT_SHOWN, 262_172));
    }
}
