//! The schemas of a request's tools, which are compiled before they are checked.

use std::sync::Arc;

use bosun_core::{ceiling::TOOLS, schema};
use bosun_engine::Engine;
use serde_json::Value;

/// The parameters of these definitions, if some are expensive to compile: they are then
/// [compiled](Engine::compile_ahead) off the runtime's workers, and the check finds them in the cache. In a long request
/// even small schemas are expensive: there may be a thousand.
pub(crate) fn expensive<'a>(
    engine: &Engine,
    definitions: impl Iterator<Item = &'a Value>,
    is_long: bool,
) -> Vec<Arc<Value>> {
    let parameters: Vec<&Value> = definitions
        .take(TOOLS)
        .filter_map(|entry| entry.get("function").filter(|inner| inner.is_object()).unwrap_or(entry).get("parameters"))
        .filter(|parameters| parameters.is_object())
        .collect();
    let is_heavy = |parameters: &&Value| (is_long || !schema::is_light(parameters)) && !engine.has_compiled(parameters);
    if !parameters.iter().any(is_heavy) {
        return Vec::new();
    }
    parameters.into_iter().map(|parameters| Arc::new(parameters.clone())).collect()
}
