//! `toolSource` of a query: which tools the model is shown.
//!
//! The words are ARK's and n8n's; the engine knows what they mean, [`ToolSources`].

use bosun_core::tool::toolset::ToolSources;
use serde_json::{Value, json};

use crate::http::{error::clip, report::BodyFields};

const WORDS: &[(&str, ToolSources)] =
    &[("ark", ToolSources::Catalog), ("n8n", ToolSources::Client), ("hybrid", ToolSources::Both)];

pub(super) fn schema() -> Value {
    let words: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
    json!({"enum": words})
}

/// By default both kinds are shown: a client that sends tools wants them used.
pub(super) fn read(fields: &BodyFields<'_>) -> ToolSources {
    let Some(text) = fields.text("toolSource") else { return ToolSources::Both };
    let (sources, warning) = parse(&text);
    if let Some(warning) = warning {
        fields.report().note(warning);
    }
    sources
}

/// An unknown word means `ark`, with a warning for the client.
fn parse(text: &str) -> (ToolSources, Option<String>) {
    match WORDS.iter().find(|(word, _)| *word == text) {
        Some((_, sources)) => (*sources, None),
        None => {
            let warning =
                format!("unknown tool source `{}`, using `ark`; known are `ark`, `n8n` and `hybrid`", clip(text));
            (ToolSources::Catalog, Some(warning))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_its_sources() {
        for (word, sources) in WORDS {
            assert_eq!(parse(word), (*sources, None));
        }
    }

    #[test]
    fn should_fallback_to_ark_only_for_invalid_mode() {
        let warning = "unknown tool source `invalid`, using `ark`; known are `ark`, `n8n` and `hybrid`".to_owned();
        assert_eq!(parse("invalid"), (ToolSources::Catalog, Some(warning)));
    }
}
