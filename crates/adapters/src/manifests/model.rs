//! Models: who answers, and with which settings.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    ModelManifest, Provider,
    document::{Located, Metadata},
    files, value,
};
use crate::{
    model::{
        openai::{self, OWN_HEADERS, OWN_PROPERTIES},
        scripted::Script,
    },
    secret::Source,
    yaml::{Data, Fields, Node, Text},
};

const PROVIDERS: &str = "this version serves the providers `openai` and `scripted`";

pub(super) fn read(
    metadata: &Metadata,
    fields: &Fields<'_>,
    scripts: &mut HashMap<PathBuf, Option<Arc<Script>>>,
) -> Option<Located<ModelManifest>> {
    let spec = fields.required_fields("spec", "a model has at least a `provider` and a `config`")?;
    let provider = provider(&spec);
    let config = spec.required_fields("config", "the settings of the provider");
    let provider = match (provider?.value, config) {
        (_, None) => None,
        ("openai", Some(config)) => {
            let read = openai(&spec, &config).map(|config| Provider::OpenAi(Box::new(config)));
            config.unserved(&["azure", "bedrock", "anthropic", "scripted"], "the provider is `openai`; leave it out");
            config.finish();
            read
        }
        (_, Some(config)) => {
            // The name at an API means nothing to a script, but every other Model has one.
            value::optional(&spec, "model");
            let settings = config.required_fields("scripted", "write `scripted: {file: …}`");
            let script = settings.and_then(|settings| scripted(&settings, scripts));
            config.unserved(&["openai", "azure", "bedrock", "anthropic"], "the provider is `scripted`; leave it out");
            config.finish();
            script.map(Provider::Scripted)
        }
    };
    spec.unserved(&["pollInterval"], "models are not probed; leave it out");
    spec.finish();
    let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
    Some(metadata.located(fields, ModelManifest { namespace, name, provider: provider? }))
}

/// `provider` with `type: completions`, or the older form that has the provider in `type`.
fn provider<'n>(spec: &Fields<'n>) -> Option<Text<'n>> {
    let kind = spec.text("type");
    let provider = spec.text("provider");
    let (provider, kind) = match (provider, kind) {
        (Some(provider), kind) => (provider, kind.filter(|kind| kind.value != "completions")),
        (None, Some(kind)) if kind.value != "completions" => (kind, None),
        (None, _) => {
            spec.require("provider", PROVIDERS);
            return None;
        }
    };
    if let Some(kind) = kind.filter(|kind| kind.value != provider.value) {
        let message = format!("models of type `{}` are not served by this version", kind.value);
        spec.fault(kind.place, "unsupported_kind", message, "write `type: completions`, or leave it out");
    }
    if !matches!(provider.value, "openai" | "scripted") {
        let message = format!("model provider `{}` is not served by this version", provider.value);
        spec.fault(provider.place, "unsupported_kind", message, PROVIDERS);
        return None;
    }
    Some(provider)
}

fn openai(spec: &Fields<'_>, config: &Fields<'_>) -> Option<openai::Config> {
    let model = value::required(spec, "model");
    if let Some(place) = model.as_ref().filter(|model| model.literal() == Some("")).map(|model| model.place) {
        spec.fault(place, "bad_value", "the model has an empty name", "write the name that the API gives it");
    }
    let settings = config.required_fields("openai", "write `openai: {baseUrl: …, apiKey: …}`")?;
    let base_url = value::required(&settings, "baseUrl");
    if let Some(value) = &base_url
        && let Some(Err(problem)) = value.literal().map(openai::endpoint)
    {
        let hint = "for instance https://api.openai.com/v1; `/chat/completions` is added to it";
        settings.fault(value.place, "bad_value", format!("`baseUrl` {problem}"), hint);
    }
    // Servers next door have no keys.
    let api_key = value::optional(&settings, "apiKey").map(|value| value.source);
    let headers = headers(&settings);
    let (properties, stream) = properties(&settings);
    settings.finish();
    Some(openai::Config { model: model?.source, base_url: base_url?.source, api_key, headers, properties, stream })
}

fn headers(settings: &Fields<'_>) -> Vec<(String, Source)> {
    let mut headers: Vec<(String, Source)> = Vec::new();
    for node in settings.list("headers") {
        let Some(fields) = settings.inner(node, "headers") else { continue };
        let (name, value) = (fields.required_text("name", "the name of the header"), value::required(&fields, "value"));
        fields.finish();
        let Some(name) = name else { continue };
        let lower = name.value.to_ascii_lowercase();
        let problem = if reqwest::header::HeaderName::try_from(&lower).is_err() {
            "is not the name of a header"
        } else if OWN_HEADERS.contains(&lower.as_str()) {
            "is a header that belongs to the connection"
        } else if headers.iter().any(|(earlier, _)| *earlier == lower) {
            "is set twice"
        } else {
            headers.extend(value.map(|value| (lower, value.source)));
            continue;
        };
        settings.fault(name.place, "bad_value", format!("`{}` {problem}", name.value), "");
    }
    headers
}

/// Further parameters of a request, and whether to stream, which stands among them.
fn properties(settings: &Fields<'_>) -> (Vec<(String, Source)>, bool) {
    let (mut properties, mut stream) = (Vec::new(), true);
    let Some(node) = settings.get("properties") else { return (properties, stream) };
    let Data::Map(members) = &node.data else {
        // Says that it must be a mapping.
        settings.fields("properties");
        return (properties, stream);
    };
    for member in members {
        let name = member.name.as_str();
        let Some(value) = value::of(settings, &member.value, &format!("properties.{name}")) else { continue };
        if name == "stream" {
            match value.literal() {
                Some("true") => {}
                Some("false") => stream = false,
                _ => settings.fault(value.place, "bad_value", "`stream` is `\"true\"` or `\"false\"`", ""),
            }
        } else if OWN_PROPERTIES.contains(&name) {
            let message = format!("`{name}` cannot be set as a property");
            settings.fault(member.place, "bad_value", message, "every query has its own");
        } else {
            properties.push((name.to_owned(), value.source));
        }
    }
    (properties, stream)
}

fn scripted(settings: &Fields<'_>, scripts: &mut HashMap<PathBuf, Option<Arc<Script>>>) -> Option<Arc<Script>> {
    let file = settings.required_text("file", "the path of a script, from the directory of this manifest");
    settings.finish();
    let file = file?;
    if settings.reading().is_of_client() {
        let hint = "only a manifest in a file may name a script, since clients must not read files of the server";
        settings.fault(file.place, "unsupported_field", "a stored model cannot play a script", hint);
        return None;
    }
    let path = beside(settings.reading().file(), file.value);
    if let Some(known) = scripts.get(&path) {
        return known.clone();
    }
    let script = match files::read(&path) {
        Err(fault) => {
            let message = format!("script `{}` {}", file.value, fault.message);
            settings.fault(file.place, "bad_value", message, "the path begins at the directory of this manifest");
            None
        }
        Ok(text) => match Script::parse(&path, &text) {
            Ok(script) => Some(Arc::new(script)),
            Err(faults) => {
                faults.into_iter().for_each(|fault| settings.reading().add(fault));
                None
            }
        },
    };
    scripts.insert(path, script.clone());
    script
}

fn beside(manifest: &Path, file: &str) -> PathBuf {
    manifest.parent().unwrap_or(Path::new("")).join(file)
}

/// The script that a document names, if it is a Model that plays one.
pub(super) fn named_script(manifest: &Path, document: &Node) -> Option<PathBuf> {
    let file = document.at(&["spec", "config", "scripted", "file"])?;
    match &file.data {
        Data::Text(file) => Some(beside(manifest, file)),
        _ => None,
    }
}
