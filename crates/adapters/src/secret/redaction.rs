//! Redaction of texts that come back from another server.

use std::fmt;

use bosun_core::audit::redact_keys;

use super::Secret;

/// Shorter values are not secrets; redacting them would garble ordinary words.
const SHORTEST: usize = 4;
/// The longest message, in characters.
const LONGEST: usize = 500;

/// The secrets of one request, which nothing may repeat, whatever the other server answers.
#[derive(Default)]
pub(crate) struct Redaction(Vec<Secret>);

impl fmt::Debug for Redaction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Redaction(..)")
    }
}

impl Redaction {
    pub(crate) fn add(&mut self, secret: &Secret) {
        if secret.expose().len() >= SHORTEST {
            self.0.push(secret.clone());
        }
    }

    /// `text` with every secret redacted, in every encoding.
    pub(crate) fn redact(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| secret.redacted_from(&text))
    }

    /// Whether one of the secrets is in these bytes, which cannot be redacted.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        self.0.iter().any(|secret| text.contains(secret.expose()))
    }

    /// `message` with every secret redacted, also where only its first or last letters are shown, and then truncated.
    pub(crate) fn clean(&self, message: &str) -> String {
        let mut clean: String = message.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        for secret in &self.0 {
            clean = secret.ends_redacted_from(&secret.redacted_from(&clean));
        }
        let clean = redact_keys(&clean).into_owned();
        match clean.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &clean[..end]),
            None => clean,
        }
    }
}
