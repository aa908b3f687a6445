//! The body of a request: one JSON object, written member by member.
//!
//! Members keep the order in which they are written, since prompt caches compare prefixes; a member that is already JSON
//! is copied byte for byte.

use serde::Serialize;
use serde_json::Value;

/// A body that is being written.
pub(crate) struct RequestBody(String);

impl RequestBody {
    /// A body that begins with the name of its model, as every one does.
    pub(crate) fn of(model: &str) -> Result<Self, serde_json::Error> {
        Ok(Self(format!("{{\"model\":{}", serde_json::to_string(model)?)))
    }

    /// Adds a member that is already JSON.
    pub(crate) fn json(&mut self, name: &str, json: &str) {
        self.0.push_str(",\"");
        self.0.push_str(name);
        self.0.push_str("\":");
        self.0.push_str(json);
    }

    pub(crate) fn value(&mut self, name: &str, value: &impl Serialize) -> Result<(), serde_json::Error> {
        self.json(name, &serde_json::to_string(value)?);
        Ok(())
    }

    /// The options of the query, then the properties of the manifest that the query does not override.
    pub(crate) fn settings(
        &mut self,
        asked: &[(&'static str, Value)],
        properties: &[(&str, Value)],
    ) -> Result<(), serde_json::Error> {
        let is_asked = |name: &str| asked.iter().any(|(asked, _)| *asked == name);
        let further = properties.iter().filter(|(name, _)| !is_asked(name));
        asked.iter().chain(further).try_for_each(|(name, value)| self.value(name, value))
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}
