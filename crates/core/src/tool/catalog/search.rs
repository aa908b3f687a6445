//! Text search over tools: BM25 on names, descriptions and parameter names.
//!
//! The index is built once, by the first search of a catalogue. A word of the name counts more than one of the
//! description. Ties keep the catalogue's order, so the results of a search are deterministic.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, HashMap},
};

use serde_json::Value;

use crate::tool::Tool;

/// The weight of one occurrence, by field.
const NAME: u16 = 4;
const PARAMETER: u16 = 2;
const DESCRIPTION: u16 = 1;
/// BM25's usual constants: saturation of repeats, and the weight of length.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// Levels of parameters whose names are indexed: those of the wrapper and one more.
const PARAMETER_LEVELS: usize = 3;

/// A tool that a search found.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    pub tool: &'a Tool,
    /// Higher is better; comparable within one search only.
    pub score: f32,
}

/// The inverted index: which words occur in which tools.
#[derive(Debug, Default)]
pub(super) struct Index {
    words: HashMap<String, u32>,
    /// By word: the tools that contain it, and its weight there.
    postings: Vec<Vec<(u32, u16)>>,
    /// By tool: BM25's length norm.
    norms: Vec<f32>,
}

impl Index {
    pub(super) fn of<'t>(tools: impl ExactSizeIterator<Item = &'t Tool>) -> Self {
        let mut index = Self::default();
        let mut lengths = Vec::with_capacity(tools.len());
        let mut counted: Vec<(u32, u16)> = Vec::new();
        for (position, tool) in (0_u32..).zip(tools) {
            counted.clear();
            index.count(&tool.name, NAME, &mut counted);
            if let Some(display_name) = &tool.display_name {
                index.count(display_name, NAME, &mut counted);
            }
            index.count(&tool.description, DESCRIPTION, &mut counted);
            index.count_parameters(&tool.parameters, &mut counted, PARAMETER_LEVELS);
            counted.sort_unstable();
            lengths.push(counted.iter().map(|(_, count)| f32::from(*count)).sum::<f32>());
            for group in counted.chunk_by(|left, right| left.0 == right.0) {
                let count = group.iter().fold(0_u16, |sum, (_, count)| sum.saturating_add(*count));
                index.postings[group[0].0 as usize].push((position, count));
            }
        }
        let average = lengths.iter().sum::<f32>() / (lengths.len().max(1) as f32);
        index.norms = lengths.iter().map(|length| K1 * (1.0 - B + B * length / average.max(1.0))).collect();
        index
    }

    fn count(&mut self, text: &str, weight: u16, counted: &mut Vec<(u32, u16)>) {
        for_each_word(text, |word| {
            let id = match self.words.get(word) {
                Some(&id) => id,
                None => {
                    let id = u32::try_from(self.postings.len()).unwrap_or(u32::MAX);
                    self.words.insert(word.to_owned(), id);
                    self.postings.push(Vec::new());
                    id
                }
            };
            counted.push((id, weight));
        });
    }

    fn count_parameters(&mut self, schema: &Value, counted: &mut Vec<(u32, u16)>, levels: usize) {
        let Some(Value::Object(properties)) = schema.get("properties") else { return };
        for (name, property) in properties {
            self.count(name, PARAMETER, counted);
            if levels > 1 {
                self.count_parameters(property, counted, levels - 1);
            }
        }
    }

    /// The best `limit` tools for which `keep` is true, best first.
    pub(super) fn search(&self, text: &str, limit: usize, keep: impl Fn(usize) -> bool) -> Vec<(usize, f32)> {
        let mut asked: Vec<u32> = Vec::new();
        for_each_word(text, |word| {
            if let Some(&id) = self.words.get(word)
                && !asked.contains(&id)
            {
                asked.push(id);
            }
        });
        let mut scores = vec![0.0_f32; self.norms.len()];
        let mut touched: Vec<u32> = Vec::new();
        for id in asked {
            let postings = &self.postings[id as usize];
            let (all, with) = (self.norms.len() as f32, postings.len() as f32);
            let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for &(position, count) in postings {
                let score = &mut scores[position as usize];
                if *score == 0.0 {
                    touched.push(position);
                }
                let count = f32::from(count);
                *score += rarity * count * (K1 + 1.0) / (count + self.norms[position as usize]);
            }
        }
        // The best so far in a heap with the worst on top: most tools are skipped with one comparison.
        let mut best: BinaryHeap<Reverse<Ranked>> = BinaryHeap::with_capacity(limit.min(touched.len()) + 1);
        for position in touched {
            let ranked = Ranked { score: scores[position as usize], position: position as usize };
            let full = best.len() >= limit;
            if full && best.peek().is_none_or(|Reverse(worst)| ranked <= *worst) || !keep(ranked.position) {
                continue;
            }
            best.push(Reverse(ranked));
            if full {
                best.pop();
            }
        }
        best.into_sorted_vec().into_iter().map(|Reverse(ranked)| (ranked.position, ranked.score)).collect()
    }
}

/// Greater is better: a higher score, or an equal one and earlier in the catalogue.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    score: f32,
    position: usize,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.position.cmp(&self.position))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

/// The words of a text, lower-case, with `camelCase` and `snake_case` split and the plural removed.
fn for_each_word(text: &str, mut visit: impl FnMut(&str)) {
    let mut word = String::new();
    let mut end_word = |word: &mut String| {
        if !word.is_empty() {
            visit(stem(word));
            word.clear();
        }
    };
    let mut after_lower = false;
    for letter in text.chars() {
        if !letter.is_alphanumeric() {
            end_word(&mut word);
            after_lower = false;
            continue;
        }
        if after_lower && letter.is_uppercase() {
            end_word(&mut word);
        }
        after_lower = letter.is_lowercase();
        if letter.is_ascii() {
            word.push(letter.to_ascii_lowercase());
        } else {
            word.extend(letter.to_lowercase());
        }
    }
    end_word(&mut word);
}

/// Removes the plural: `email` and `emails` are the same word.
fn stem(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(singular) if word.len() > 3 && !singular.ends_with('s') => singular,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let mut words = Vec::new();
        for_each_word(text, |word| words.push(word.to_owned()));
        assert_eq!(words, expect);
    }

    #[test]
    fn words_are_split() {
        check("fetch_emails", &["fetch", "email"]);
        check("fetchEmails HTTPServer", &["fetch", "email", "httpserver"]);
        check("Größe (cm), straße", &["größe", "cm", "straße"]);
        check("address classes is", &["address", "classe", "is"]);
        check("検索 tool2", &["検索", "tool2"]);
        check("", &[]);
    }
}
