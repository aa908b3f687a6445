//! Removal of secrets from what a server says, before it is shown, logged or read by a model.
//!
//! Only what manifests refer to as a secret counts: a literal such as `MODE=quiet` would garble every text with the word.

use std::sync::{PoisonError, RwLock};

use bosun_adapters::secret::Secret;
use bosun_core::text::visible;
use serde_json::Value;

/// The longest text of a server that is shown.
const LONGEST: usize = 2 * 1024;
/// How many secrets a session remembers; rotated ones are forgotten first.
const MOST_SECRETS: usize = 32;

/// The secrets that a session was given.
#[derive(Debug, Default)]
pub(crate) struct Redactor(RwLock<Vec<Secret>>);

impl Redactor {
    pub(crate) fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        Self(RwLock::new(secrets.into_iter().collect()))
    }

    /// Adds the secrets of a request.
    pub(crate) fn learn(&self, secrets: &[Secret]) {
        let is_known = |known: &[Secret]| secrets.iter().all(|secret| known.contains(secret));
        if is_known(&self.0.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets {
            if !known.contains(secret) {
                known.push(secret.clone());
            }
        }
        let surplus = known.len().saturating_sub(MOST_SECRETS);
        known.drain(..surplus);
    }

    fn redact(&self, text: String) -> String {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().fold(text, |text, secret| secret.redacted_from(&text))
    }

    /// The text of a server as it may be shown: bounded, printable, and without secrets.
    pub(crate) fn clean(&self, text: &str) -> String {
        self.clean_to(text, LONGEST)
    }

    /// The same, of another length.
    pub(crate) fn clean_to(&self, text: &str, longest: usize) -> String {
        let mut text = self.redact(visible(text));
        text.truncate(text.floor_char_boundary(longest));
        text
    }

    /// Removes secrets from every text of a value.
    pub(crate) fn scrub(&self, value: &mut Value) {
        if self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return;
        }
        match value {
            Value::String(text) => *text = self.redact(std::mem::take(text)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.scrub(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.scrub(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_bounded_and_has_no_secret() {
        let redactor = Redactor::new([Secret::new("hunter2hunter2".into())]);
        let text = format!("bad token hunter2hunter2\u{202e} {}", "x".repeat(9000));
        let clean = redactor.clean(&text);
        assert!(clean.starts_with("bad token [redacted] x") && clean.len() <= LONGEST, "{clean}");
    }

    #[test]
    fn a_result_has_no_secret_in_any_of_its_texts_and_rotated_ones_are_forgotten_first() {
        let redactor = Redactor::default();
        for number in 0..40 {
            redactor.learn(&[Secret::new(format!("secret-{number:04}"))]);
        }
        let mut value = json!({"env": ["TOKEN=secret-0039", {"a": "secret-0008"}], "old": "secret-0007", "n": 1});
        redactor.scrub(&mut value);
        assert_eq!(value, json!({"env": ["TOKEN=[redacted]", {"a": "[redacted]"}], "old": "secret-0007", "n": 1}));
    }
}
