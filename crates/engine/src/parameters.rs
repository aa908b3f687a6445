//! The parameters of a query: values for the templates of its input and of its agent's prompt.
//!
//! A value is written in the query, or read from a config map of its namespace. It is resolved once, when the query is
//! accepted, and stored with the query: a later change of a config map applies to the next query. Secrets cannot be
//! values here: what is substituted is read by the model, and by all readers of the query.

use std::collections::BTreeMap;

use bosun_core::{Namespace, ceiling::PARAMETERS_BYTES, tool::ConfigRef};
use serde::Serialize;

use crate::{EngineError, Registry, resource::ResourceKind};

/// One value, or a reference to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum QueryParameter {
    Value(String),
    ConfigMap(ConfigRef),
}

/// All values; an optional reference that finds nothing yields an empty one.
///
/// # Errors
/// With every reference that cannot be resolved, or if the values together are too large.
pub(crate) fn resolve(
    registry: &Registry,
    namespace: &Namespace,
    asked: BTreeMap<String, QueryParameter>,
) -> Result<BTreeMap<String, String>, EngineError> {
    let mut unresolved = Vec::new();
    let mut values = BTreeMap::new();
    let mut bytes = 0;
    for (name, parameter) in asked {
        let value = match parameter {
            QueryParameter::Value(value) => Ok(value),
            QueryParameter::ConfigMap(reference) => look_up(registry, namespace, &reference),
        };
        match value {
            Ok(value) => {
                // A thousand references to one large config map are small in a request.
                bytes += value.len();
                if bytes > PARAMETERS_BYTES {
                    return Err(EngineError::ParametersTooLarge);
                }
                values.insert(name, value);
            }
            Err(missing) => unresolved.push(format!("`{name}` refers to {missing}")),
        }
    }
    if unresolved.is_empty() {
        return Ok(values);
    }
    Err(EngineError::UnresolvedParameters { namespace: namespace.clone(), unresolved })
}

/// The text that a reference points to, or what is missing.
fn look_up(registry: &Registry, namespace: &Namespace, reference: &ConfigRef) -> Result<String, String> {
    let ConfigRef { name, key, optional } = reference;
    let map = registry.resource(ResourceKind::ConfigMap, namespace, name);
    let text = map.as_ref().and_then(|map| map.manifest.description.spec.get("data")?.get(key)?.as_str());
    match text {
        Some(text) => Ok(text.to_owned()),
        None if *optional => Ok(String::new()),
        None if map.is_some() => Err(format!("key `{key}` of ConfigMap `{name}`")),
        None => Err(format!("ConfigMap `{name}`")),
    }
}
