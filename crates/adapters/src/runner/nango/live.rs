//! Compares tools with what is deployed at Nango: integrations, actions, and the models of syncs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bosun_core::{
    Binding, Namespace, Tool,
    text::closest,
    tool::{Nango, routing::ToolRoute},
};
use serde_json::Value;

use super::{
    NangoSettings,
    client::{NangoClient, NangoRequest},
};
use crate::{outbound::Pool, secret::Secrets};

/// How long one request may take, retries included.
const PATIENCE: Duration = Duration::from_secs(15);

/// What differs between a tool and what is deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveFault {
    /// The tool, or `None` if nothing could be compared.
    pub tool: Option<String>,
    pub code: &'static str,
    pub message: String,
}

/// The functions of one integration.
#[derive(Debug, Default)]
struct Deployed {
    actions: BTreeSet<String>,
    models: BTreeSet<String>,
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
    tools.iter().filter_map(|tool| compare(tool, &deployed)).collect()
}

async fn deployed(client: &NangoClient) -> Result<BTreeMap<String, Deployed>, String> {
    let namespace = Namespace::default();
    let send = async |request: NangoRequest| {
        client
            .send(&namespace, &request, || PATIENCE)
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
        of.actions.extend(functions("actions").filter_map(|action| action.get("name")?.as_str()).map(str::to_owned));
        let models = functions("syncs").filter_map(|sync| sync.get("returns")?.as_array()).flatten();
        of.models.extend(models.filter_map(Value::as_str).map(str::to_owned));
    }
    Ok(deployed)
}

fn compare(tool: &Tool, deployed: &BTreeMap<String, Deployed>) -> Option<LiveFault> {
    let Binding::Nango(nango) = &tool.binding else { return None };
    let fault = |code, message| Some(LiveFault { tool: Some(tool.name.clone()), code, message });
    let provider = nango.provider();
    let Some(of) = deployed.get(provider) else {
        let guess = guess(provider, deployed.keys());
        return fault("provider_not_deployed", format!("Nango has no integration `{provider}`{guess}"));
    };
    match nango {
        Nango::Action { action, .. } if !of.actions.contains(action) => {
            let guess = guess(action, of.actions.iter());
            fault("action_not_deployed", format!("`{provider}` has no action `{action}` at Nango{guess}"))
        }
        Nango::Action { .. } => None,
        Nango::Cache { .. } => {
            let route = ToolRoute::of(tool).ok().flatten()?;
            let missing: Vec<_> = route.models().iter().filter(|model| !of.models.contains(*model)).collect();
            let first = missing.first()?;
            let guess = guess(first, of.models.iter());
            let names = missing.iter().map(|model| format!("`{model}`")).collect::<Vec<_>>().join(", ");
            fault("model_not_synced", format!("no sync of `{provider}` writes {names} at Nango{guess}"))
        }
    }
}

fn guess<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    closest(name, known.map(String::as_str)).map(|known| format!("; did you mean `{known}`?")).unwrap_or_default()
}
