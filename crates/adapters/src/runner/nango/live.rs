//! Compares tools with what is deployed at Nango: integrations, actions and their input, models of syncs and their fields.
//!
//! Schemas are compared as far as both sides have one. Nango validates no input, so a parameter that an action does not know is
//! ignored silently, and a missing one is reported by the provider at the earliest.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bosun_core::{
    Binding, Namespace, Tool,
    text::closest,
    tool::{Nango, routing::ToolRoute, wrapper},
};
use serde_json::Value;

use super::{
    NangoSettings,
    client::{NangoClient, NangoRequest},
};
use crate::{outbound::Pool, secret::Secrets};

/// How long one request may take, retries included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// What differs between a tool and what is deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveFault {
    /// The tool, or `None` if nothing could be compared.
    pub tool: Option<String>,
    pub code: &'static str,
    pub message: String,
}

/// The functions of one integration, each with its schema, if Nango has one.
#[derive(Debug, Default)]
struct Deployed {
    actions: BTreeMap<String, Option<Value>>,
    models: BTreeMap<String, Option<Value>>,
}

/// Compares `tools` with the Nango of these settings.
pub async fn check_live(
    settings: NangoSettings,
    secrets: Arc<Secrets>,
    pool: Arc<Pool>,
    tools: &[Tool],
) -> Vec<LiveFault> {
    let client = NangoClient::new(settings, secrets, pool);
    let deployed = match deployed(&client).await {
        Ok(deployed) => deployed,
        Err(message) => return vec![LiveFault { tool: None, code: "nango_unavailable", message }],
    };
    let fault = |tool: &Tool, (code, message)| LiveFault { tool: Some(tool.name.clone()), code, message };
    tools.iter().flat_map(|tool| compare(tool, &deployed).into_iter().map(move |found| fault(tool, found))).collect()
}

async fn deployed(client: &NangoClient) -> Result<BTreeMap<String, Deployed>, String> {
    let namespace = Namespace::default();
    let send = async |request: NangoRequest| {
        client
            .send(&namespace, &request, || REQUEST_TIMEOUT)
            .await
            .map(|answer| answer.body)
            .map_err(|error| error.to_string())
    };
    let mut deployed = BTreeMap::new();
    let integrations = send(NangoRequest::get(&["integrations"])).await?;
    for integration in integrations.get("data").and_then(Value::as_array).into_iter().flatten() {
        if let Some(key) = integration.get("unique_key").and_then(Value::as_str) {
            deployed.insert(key.to_owned(), Deployed::default());
        }
    }
    let scripts = send(NangoRequest::get(&["scripts", "config"]).with("format", "nango")).await?;
    for integration in scripts.as_array().into_iter().flatten() {
        let Some(key) = integration.get("providerConfigKey").and_then(Value::as_str) else { continue };
        let of = deployed.entry(key.to_owned()).or_default();
        let functions = |kind: &str| integration.get(kind).and_then(Value::as_array).into_iter().flatten();
        for action in functions("actions") {
            let Some(name) = action.get("name").and_then(Value::as_str) else { continue };
            let input = action.get("input").and_then(Value::as_str).and_then(|input| definition(action, input));
            of.actions.insert(name.to_owned(), input);
        }
        for sync in functions("syncs") {
            let models = sync.get("returns").and_then(Value::as_array).into_iter().flatten();
            of.models.extend(models.filter_map(Value::as_str).map(|model| (model.to_owned(), definition(sync, model))));
        }
    }
    Ok(deployed)
}

/// The schema of a model in the `json_schema` of a function.
fn definition(function: &Value, model: &str) -> Option<Value> {
    let schema = function.get("json_schema")?;
    ["definitions", "$defs"].into_iter().find_map(|place| schema.get(place)?.get(model)).cloned()
}

/// What differs: a code and a message each.
fn compare(tool: &Tool, deployed: &BTreeMap<String, Deployed>) -> Vec<(&'static str, String)> {
    let Binding::Nango(nango) = &tool.binding else { return Vec::new() };
    let provider = nango.provider();
    let Some(of) = deployed.get(provider) else {
        let guess = guess(provider, deployed.keys());
        return vec![("provider_not_deployed", format!("Nango has no integration `{provider}`{guess}"))];
    };
    let input = wrapper::inner_schema(&tool.parameters).unwrap_or(&tool.parameters);
    match nango {
        Nango::Action { action, .. } => match of.actions.get(action) {
            None => {
                let guess = guess(action, of.actions.keys());
                vec![("action_not_deployed", format!("`{provider}` has no action `{action}` at Nango{guess}"))]
            }
            Some(schema) => schema.iter().flat_map(|schema| compare_input(action, input, schema)).collect(),
        },
        Nango::Cache { .. } => {
            let Some(route) = ToolRoute::of(tool).ok().flatten() else { return Vec::new() };
            let missing: Vec<_> = route.models().iter().filter(|model| !of.models.contains_key(*model)).collect();
            if let Some(first) = missing.first() {
                let guess = guess(first, of.models.keys());
                let names = missing.iter().map(|model| format!("`{model}`")).collect::<Vec<_>>().join(", ");
                return vec![("model_not_synced", format!("no sync of `{provider}` writes {names} at Nango{guess}"))];
            }
            let known = route.models().iter().filter_map(|model| Some((model, of.models.get(model)?.as_ref()?)));
            known.flat_map(|(model, schema)| compare_filters(model, input, schema)).collect()
        }
    }
}

/// The properties of a schema; `None` if it does not list them.
fn properties(schema: &Value) -> Option<&serde_json::Map<String, Value>> {
    schema.get("properties")?.as_object().filter(|properties| !properties.is_empty())
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|known| known == name))
}

/// How the input of a tool differs from what its action takes.
fn compare_input(action: &str, ours: &Value, deployed: &Value) -> Vec<(&'static str, String)> {
    let Some(taken) = properties(deployed) else { return Vec::new() };
    let none = serde_json::Map::new();
    let sent = properties(ours).unwrap_or(&none);
    let mut differing = Vec::new();
    for (name, schema) in taken {
        match sent.get(name) {
            None if is_required(deployed, name) => {
                differing.push(format!("the action `{action}` requires `{name}`, which the tool does not have"));
            }
            None => {}
            Some(_) if is_required(deployed, name) && !is_required(ours, name) => {
                differing.push(format!("the action `{action}` requires `{name}`, which is optional in the tool"));
            }
            Some(own) => {
                if let (Some(own), Some(theirs)) = (kind(own), kind(schema))
                    && own != theirs
                {
                    differing.push(format!("`{name}` is `{own}` in the tool and `{theirs}` in the action `{action}`"));
                }
            }
        }
    }
    let names: Vec<_> = taken.keys().cloned().collect();
    for name in sent.keys().filter(|name| !taken.contains_key(*name)) {
        let guess = guess(name, names.iter());
        differing.push(format!("the action `{action}` takes no `{name}`, and Nango would pass it on{guess}"));
    }
    differing.into_iter().map(|message| ("action_input_differs", message)).collect()
}

/// The type of a schema with one; whole numbers are numbers.
fn kind(schema: &Value) -> Option<&str> {
    schema.get("type")?.as_str().map(|kind| if kind == "integer" { "number" } else { kind })
}

/// The filters of a tool that are not fields of the model that it reads.
fn compare_filters(model: &str, ours: &Value, deployed: &Value) -> Vec<(&'static str, String)> {
    let Some(fields) = properties(deployed) else { return Vec::new() };
    let filters = ours.get("properties").and_then(|inputs| properties(inputs.get("filters")?));
    let names: Vec<_> = fields.keys().cloned().collect();
    let unknown = filters.into_iter().flatten().map(|(name, _)| name).filter(|name| !fields.contains_key(*name));
    let message = |name: &String| {
        let guess = guess(name, names.iter());
        ("model_field_unknown", format!("the model `{model}` has no field `{name}` to filter by{guess}"))
    };
    unknown.map(message).collect()
}

fn guess<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    closest(name, known.map(String::as_str)).map(|known| format!("; did you mean `{known}`?")).unwrap_or_default()
}
