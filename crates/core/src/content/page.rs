//! Pages of a text that is too long to be shown whole.
//!
//! Offsets and limits count bytes, since sizes do, but a page never ends or begins in the middle of a character. A
//! reader that continues where the last page ended gets the whole text, each byte once.

use std::ops::Range;

/// Maximum length of a UTF-8 character.
const LONGEST_CHARACTER: u64 = 4;

/// The bytes that have to be read for one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentWindow {
    size: u64,
    offset: u64,
    limit: u64,
    bytes: Range<u64>,
}

/// A page of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentPage {
    pub start: u64,
    pub text: String,
    /// Of the whole text.
    pub size: u64,
}

impl ContentPage {
    /// Where the next page begins; the size of the text if there is none.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + self.text.len() as u64
    }
}

impl ContentWindow {
    /// For a page of at most `limit` bytes around `offset`, in a text of `size` bytes.
    #[must_use]
    pub fn new(size: u64, offset: u64, limit: u64) -> Self {
        let offset = offset.min(size);
        let limit = limit.max(1);
        // Back to where the character at `offset` may begin, and one byte past the page, which shows whether a
        // character ends there.
        let end = offset.saturating_add(limit.max(LONGEST_CHARACTER)).saturating_add(1).min(size);
        Self { size, offset, limit, bytes: offset.saturating_sub(LONGEST_CHARACTER - 1)..end }
    }

    /// The range to read.
    #[must_use]
    pub fn bytes(&self) -> Range<u64> {
        self.bytes.clone()
    }

    /// The page, from the bytes that were read. It begins with the character at the offset and has at least that one,
    /// however small the limit; past the end of the text it is empty.
    #[must_use]
    pub fn cut(&self, bytes: &[u8]) -> ContentPage {
        let is_border = |index: usize| bytes.get(index).is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000);
        let place = |offset: u64| usize::try_from(offset - self.bytes.start).unwrap_or(usize::MAX).min(bytes.len());
        let mut start = place(self.offset);
        while start > 0 && !is_border(start) {
            start -= 1;
        }
        let from = self.bytes.start + start as u64;
        let mut end = place(from.saturating_add(self.limit).min(self.bytes.end));
        while end > start && !is_border(end) {
            end -= 1;
        }
        if end == start {
            end = (start + 1..=bytes.len()).find(|index| is_border(*index)).unwrap_or(bytes.len());
        }
        ContentPage { start: from, text: String::from_utf8_lossy(&bytes[start..end]).into_owned(), size: self.size }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn page(text: &str, offset: u64, limit: u64) -> ContentPage {
        let window = ContentWindow::new(text.len() as u64, offset, limit);
        let bytes = window.bytes();
        window.cut(&text.as_bytes()[bytes.start as usize..bytes.end as usize])
    }

    #[track_caller]
    fn check(text: &str, offset: u64, limit: u64, start: u64, expect: &str) {
        let page = page(text, offset, limit);
        assert_eq!((page.start, page.text.as_str()), (start, expect));
    }

    #[test]
    fn pages_are_cut_between_characters() {
        check("abcdef", 0, 4, 0, "abcd");
        check("abcdef", 4, 4, 4, "ef");
        check("aé", 0, 2, 0, "a");
        check("aé", 1, 2, 1, "é");
        // In the middle of a character, the page begins with it.
        check("aéb", 2, 3, 1, "éb");
        check("😀😀", 3, 4, 0, "😀");
        check("😀😀", 7, 100, 4, "😀");
    }

    #[test]
    fn a_page_has_at_least_one_character() {
        check("abc", 1, 0, 1, "b");
        check("😀b", 0, 1, 0, "😀");
        check("b😀", 1, 3, 1, "😀");
    }

    #[test]
    fn a_page_past_the_end_is_empty() {
        check("", 0, 10, 0, "");
        check("abc", 3, 10, 3, "");
        check("abc", u64::MAX, u64::MAX, 3, "");
        check("aé", 3, 1, 3, "");
    }

    proptest! {
        #[test]
        fn concatenated_pages_are_the_text(text in any::<String>(), limit in 0_u64..9) {
            let (mut whole, mut offset) = (String::new(), 0);
            while offset < text.len() as u64 {
                let page = page(&text, offset, limit);
                prop_assert_eq!(page.start, offset);
                prop_assert!(!page.text.is_empty());
                prop_assert!(page.text.len() as u64 <= limit.max(LONGEST_CHARACTER));
                whole.push_str(&page.text);
                offset = page.end();
            }
            prop_assert_eq!(whole, text);
        }

        #[test]
        fn a_page_from_anywhere_is_a_piece_of_the_text(text in any::<String>(), offset in 0_u64..64, limit in 0_u64..64) {
            let page = page(&text, offset, limit);
            let inside = offset.min(text.len() as u64);
            prop_assert!(page.start <= inside && inside - page.start < LONGEST_CHARACTER);
            prop_assert_eq!(&text[page.start as usize..page.end() as usize], page.text);
        }
    }
}
