//! YAML, as a stream of documents.
//!
//! Anchors are expanded within a budget, so a small file cannot take gigabytes; `no` and `on` are strings, as in YAML
//! 1.2.

use indexmap::IndexMap;
use serde_json::Value;
use serde_saphyr::{
    Options,
    granit_parser::{Event, Parser, ScalarStyle, Span},
};

use super::{
    MAX_SIZE, ReadError, Syntax,
    places::{Inside, Located},
};
use bosun_reading::SourcePlace;

/// The parser recurses, and at this depth it still fits the stack of a test's thread.
const MAX_DEPTH: usize = 96;

/// Maximum number of parser events that aliases may replay.
const MAX_REPLAYED: usize = 250_000;

fn options() -> Options {
    serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH + 1,
            max_events: 8_000_000,
            max_nodes: 4_000_000,
            max_documents: 10_000,
            max_total_scalar_bytes: MAX_SIZE,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED },
    }
}

/// The documents of a stream; empty ones are omitted.
pub(super) fn parse(text: &str) -> Result<Vec<Value>, ReadError> {
    serde_saphyr::from_multiple_with_options(text, options()).map_err(|error| {
        let place = error.location().map_or(SourcePlace::START, |location| {
            let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
            SourcePlace { line: count(location.line()), column: count(location.column()) }
        });
        let message = error.without_snippet().to_string();
        // The message repeats the position, which is reported separately.
        let message = match message.split(" at line ").next().unwrap_or_default() {
            text if text.starts_with("alias replay limit") => {
                format!("its aliases expand to more than {MAX_REPLAYED} values")
            }
            "recursion limit exceeded" => format!("nested more than {MAX_DEPTH} levels deep"),
            text => text.to_owned(),
        };
        ReadError::Syntax { syntax: Syntax::Yaml, place, message }
    })
}

/// The positions of the values of a text that [`parse`] has read, one for each document. The content of an alias is
/// located at the alias.
pub(super) fn locate(text: &str) -> Vec<Located> {
    let mut documents = Vec::new();
    let mut open: Vec<OpenNode> = Vec::new();
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        let located = match event {
            Event::SequenceStart(..) => {
                open.push(OpenNode { place: place(span), inside: Inside::Items(Vec::new()), key: None });
                continue;
            }
            Event::MappingStart(..) => {
                open.push(OpenNode { place: place(span), inside: Inside::Members(IndexMap::new()), key: None });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(closed) => Located { place: closed.place, inside: closed.inside },
                None => continue,
            },
            Event::Scalar(text, style, ..) => match open.last_mut() {
                Some(OpenNode { inside: Inside::Members(_), key: key @ None, .. }) => {
                    *key = Some(text.into_owned());
                    continue;
                }
                None if style == ScalarStyle::Plain && is_null(&text) => continue,
                _ => Located { place: place(span), inside: Inside::Nothing },
            },
            Event::Alias(_) => Located { place: place(span), inside: Inside::Nothing },
            _ => continue,
        };
        match open.last_mut() {
            None => documents.push(located),
            Some(OpenNode { inside: Inside::Items(items), .. }) => items.push(located),
            Some(OpenNode { inside: Inside::Members(members), key, .. }) => {
                // A list or an object as a key has no name that a path could use.
                if let Some(key) = key.take() {
                    members.insert(key, located);
                } else {
                    *key = Some(String::new());
                }
            }
            Some(OpenNode { inside: Inside::Nothing, .. }) => {}
        }
    }
    documents
}

/// An open list or object.
struct OpenNode {
    place: SourcePlace,
    inside: Inside,
    /// The key whose value comes next.
    key: Option<String>,
}

fn place(span: Span) -> SourcePlace {
    SourcePlace { line: span.start.line(), column: span.start.col() + 1 }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}
