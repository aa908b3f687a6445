//! Foreign text inside our own sentences.

/// At most `longest` characters of a text, with nothing that a terminal would obey. What is cut off
/// is marked.
pub(crate) fn clip(text: &str, longest: usize) -> String {
    let mut clipped: String =
        text.chars().take(longest).map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    if text.chars().nth(longest).is_some() {
        clipped.push('…');
    }
    clipped
}
