//! Sanitising foreign text for our own messages.

/// At most `longest` characters of a text, without control characters. Truncation is marked.
#[must_use]
pub fn clip(text: &str, longest: usize) -> String {
    let mut clipped: String =
        text.chars().take(longest).map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    if text.chars().nth(longest).is_some() {
        clipped.push('…');
    }
    clipped
}

/// The text without characters that a reader cannot see: instructions to a model can be hidden in them.
#[must_use]
pub fn visible(text: &str) -> String {
    let is_hidden = |letter: char| {
        (letter.is_control() && !matches!(letter, '\n' | '\t'))
            || matches!(letter,
                '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    text.chars().filter(|letter| !is_hidden(*letter)).collect()
}

/// The known word that `word` was probably meant to be: at most two edits away, and less than half of its letters
/// wrong.
#[must_use]
pub fn closest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const FARTHEST: usize = 2;
    known
        .filter(|candidate| candidate.chars().count().abs_diff(word.chars().count()) <= FARTHEST)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= FARTHEST && distance * 2 < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The Damerau-Levenshtein distance: letters to insert, delete, replace or swap.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut this = vec![row];
        for column in 1..=right.len() {
            let replaced = last[column - 1] + usize::from(left[row - 1] != right[column - 1]);
            let mut best = replaced.min(last[column] + 1).min(this[column - 1] + 1);
            if row > 1 && column > 1 && left[row - 1] == right[column - 2] && left[row - 2] == right[column - 1] {
                best = best.min(before[column - 2] + 1);
            }
            this.push(best);
        }
        before = std::mem::replace(&mut last, this);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clipped_text_says_so() {
        assert_eq!(clip("abc", 3), "abc");
        assert_eq!(clip("äbcd", 3), "äbc…");
        assert_eq!(clip("a\u{1b}[0m", 9), "a?[0m");
    }

    #[test]
    fn the_closest_word_is_found() {
        let known = ["required", "type", "enum"];
        for (word, expect) in [
            ("requried", Some("required")),
            ("typ", Some("type")),
            ("colour", None),
            ("x", None),
            ("enums", Some("enum")),
        ] {
            assert_eq!(closest(word, known.into_iter()), expect, "{word}");
        }
    }
}
