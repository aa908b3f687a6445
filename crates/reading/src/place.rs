//! Lines and columns of a text, as an editor counts them.
//!
//! A [`Locator`] indexes a text once, its lines and its characters, so that a lookup costs the same however long the line is: a
//! generated file is often one line of megabytes.

use bosun_core::fault::SourcePlace;

/// Turns byte offsets of one text into lines and columns.
#[derive(Clone, Debug)]
pub struct Locator<'text> {
    text: &'text str,
    line_starts: Vec<usize>,
    /// Characters that begin before each block of [`BLOCK`] bytes.
    characters: Vec<usize>,
}

/// Bytes that a lookup of a column scans at most.
const BLOCK: usize = 512;

impl<'text> Locator<'text> {
    #[must_use]
    pub fn new(text: &'text str) -> Self {
        let after_newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(after_newlines).collect();
        let mut counted = 0;
        let characters = text.as_bytes().chunks(BLOCK).map(|block| {
            let before = counted;
            counted += characters_in(block);
            before
        });
        let characters = characters.collect();
        Self { text, line_starts, characters }
    }

    /// Characters that begin before byte `offset`.
    fn characters_before(&self, offset: usize) -> usize {
        // The end of a text that fills its last block is in no block.
        let block = (offset / BLOCK).min(self.characters.len().saturating_sub(1));
        let before = self.characters.get(block).copied().unwrap_or(0);
        before + characters_in(self.text.as_bytes().get(block * BLOCK..offset).unwrap_or_default())
    }

    /// The place of the character that holds byte `offset`; the end of the text for anything beyond it.
    #[must_use]
    pub fn place(&self, offset: usize) -> SourcePlace {
        let offset = offset.min(self.text.len());
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = self.line_starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let characters = self.characters_before(offset) - self.characters_before(start);
        let inside_a_character = self.text.as_bytes().get(offset).is_some_and(|byte| is_continuation(*byte));
        SourcePlace { line, column: characters + usize::from(!inside_a_character) }
    }
}

fn characters_in(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| !is_continuation(**byte)).count()
}

/// Whether a byte of UTF-8 continues a character that began before it.
fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::{Locator, SourcePlace};

    #[track_caller]
    fn check(text: &str, offset: usize, line: usize, column: usize) {
        assert_eq!(Locator::new(text).place(offset), SourcePlace { line, column }, "{text:?} at {offset}");
    }

    #[test]
    fn the_first_character_is_line_one_column_one() {
        check("", 0, 1, 1);
        check("abc", 0, 1, 1);
    }

    #[test]
    fn a_newline_belongs_to_the_line_it_ends() {
        check("ab\ncd", 2, 1, 3);
        check("ab\ncd", 3, 2, 1);
        check("ab\r\ncd", 4, 2, 1);
        check("a\n\nb", 2, 2, 1);
        check("a\n\nb", 3, 3, 1);
    }

    #[test]
    fn columns_count_characters() {
        check("äöü = 1", 7, 1, 5);
        check("äöü = 1", 1, 1, 1);
        check("x\n😀y", 6, 2, 2);
        check("x\n😀y", 3, 2, 1);
    }

    /// Every offset of texts whose characters and lines cross the blocks of the index.
    #[test]
    fn places_are_those_that_counting_finds() {
        let unit = "aä\u{20ac}😀";
        for text in [unit.repeat(300), format!("{}\n", unit.repeat(90)).repeat(4), "x".repeat(super::BLOCK * 2)] {
            let locator = Locator::new(&text);
            for offset in 0..=text.len() {
                let at = (0..=offset).rev().find(|at| text.is_char_boundary(*at)).unwrap();
                let line = text[..at].rsplit('\n').next().unwrap();
                let expect =
                    SourcePlace { line: text[..at].matches('\n').count() + 1, column: line.chars().count() + 1 };
                assert_eq!(locator.place(offset), expect, "byte {offset}");
            }
        }
    }

    #[test]
    fn an_offset_beyond_the_end_is_the_end() {
        check("ab\nc", 99, 2, 2);
        check("ab\n", 3, 2, 1);
    }
}
