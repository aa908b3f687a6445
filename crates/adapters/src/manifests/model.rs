//! Models: their providers and settings.
//!
//! Both of ARK's spellings are read: `type: openai`, and the newer `provider: openai` with `type: completions`. Time
//! limits are annotations (`bosun.dev/idle-timeout: 1m`), as those of agents are; `spec.fallback` is our own, since ARK
//! has no such field.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use bosun_core::{Namespace, duration, machine::failure_code, tool::header::is_of_protocol};
use bosun_engine::Model;
use bosun_reading::{Data, Fault, Fields, Node, SourcePlace, Text, spec};

use super::{
    document::{Document, LocatedManifest, ManifestMetadata},
    files, value,
};
use crate::{
    model::{
        self, Fallback,
        anthropic::{self, MessagesApi},
        openai::{self, ChatCompletions, Host},
        remote::{self, Connections, RemoteConfig, Timeouts},
        scripted::{Script, Scripted},
    },
    secret::{
        Secret, SecretSource, Secrets,
        binding::{Destination, Grants, HostPart, SecretReach},
    },
};

const PROVIDERS: &str = "this version serves the providers `openai`, `azure`, `anthropic` and `scripted`";
/// The prefix of our own annotations.
const OWN_ANNOTATIONS: &str = "bosun.dev/";

/// A model as its manifest describes it.
#[derive(Clone, Debug)]
pub struct ModelManifest {
    pub namespace: Namespace,
    pub name: String,
    pub provider: ModelProvider,
    /// Models of the same namespace that are called, in this order, while this one is unavailable.
    pub fallback: Vec<String>,
}

impl ModelManifest {
    /// Binds the secrets of a stored model to the destinations to which the files send them.
    pub(super) fn bind(&mut self, grants: &Arc<Grants>) {
        let (config, own) = match &mut self.provider {
            ModelProvider::OpenAi(config, ChatCompletions { host: Host::OpenAi, .. }) => {
                (config, Some(openai::BASE_URL))
            }
            // Every Azure resource has a host name of its own.
            ModelProvider::OpenAi(config, ChatCompletions { host: Host::Azure, .. }) => (config, None),
            ModelProvider::Anthropic(config, _) => (config, Some(anthropic::BASE_URL)),
            ModelProvider::Scripted(_) => return,
        };
        config.reach = SecretReach::Stored { grants: Arc::clone(grants), own };
    }

    /// Everything that keeps this model from being called, as far as that is known before a call: an address that may
    /// not be called, and every secret that may not be sent there. What a name resolves to is checked at the call, and so
    /// is an address that is itself a secret: the answer to storing a model must not depend on the value of a secret.
    pub(super) async fn check_destination(&self, secrets: &Secrets, connections: &Connections) -> Vec<Fault> {
        let Some(config) = self.provider.config() else { return Vec::new() };
        let url = config.literal_url();
        let mut faults = Vec::new();
        if let Some(Err(refused)) = url.as_ref().map(|url| connections.pool.check_of(url, &config.reach)) {
            let message = format!("`baseUrl`: {refused}");
            faults.push(Fault::new("", failure_code::ADDRESS_NOT_ALLOWED, message));
        }
        for (field, part, source) in config.sent() {
            let SecretSource::Reference(reference) = source else { continue };
            let permitted = match &url {
                Some(url) => {
                    let to = Destination { url, kept_in: None };
                    secrets.permit(&self.namespace, reference, part, to, &config.reach).await
                }
                None => config.reach.permit_part(&reference.name, part),
            };
            if let Err(error) = permitted {
                let code = if error.is_refusal() { failure_code::SECRET_NOT_ALLOWED } else { "bad_value" };
                faults.push(Fault::new("", code, format!("`{field}`: {error}")));
            }
        }
        faults
    }
}

/// Adds where these models, which are described by files, send which secrets.
pub(super) fn add_grants(models: &[ModelManifest], grants: &mut Grants) {
    for model in models {
        let Some(config) = model.provider.config() else { continue };
        let Some(url) = config.literal_url() else { continue };
        for (_, _, source) in config.sent().filter(|(_, part, _)| *part != HostPart::Body) {
            grants.add(&model.namespace, source, &url);
        }
    }
}

/// The API behind a model.
#[derive(Clone, Debug)]
pub enum ModelProvider {
    /// `openai` and `azure`.
    OpenAi(Box<RemoteConfig>, ChatCompletions),
    Anthropic(Box<RemoteConfig>, MessagesApi),
    Scripted(Arc<Script>),
}

impl ModelProvider {
    /// The settings of its API; `None` for a scripted model.
    pub(super) fn config(&self) -> Option<&RemoteConfig> {
        match self {
            Self::OpenAi(config, _) | Self::Anthropic(config, _) => Some(config),
            Self::Scripted(_) => None,
        }
    }
}

/// A model with the places of its references.
#[derive(Debug)]
pub(super) struct ModelDraft {
    pub(super) model: ModelManifest,
    fallback: Vec<SourcePlace>,
}

/// The providers that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelKind {
    OpenAi,
    Azure,
    Anthropic,
    Scripted,
}

impl ModelKind {
    const ALL: [Self; 4] = [Self::OpenAi, Self::Azure, Self::Anthropic, Self::Scripted];

    fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Azure => "azure",
            Self::Anthropic => "anthropic",
            Self::Scripted => "scripted",
        }
    }
}

pub(super) fn read(
    metadata: &ManifestMetadata,
    fields: &Fields<'_>,
    scripts: &mut HashMap<PathBuf, Option<Arc<Script>>>,
) -> Option<LocatedManifest<ModelDraft>> {
    let spec = fields.required_fields("spec", "a model has at least a `provider` and a `config`")?;
    let spec = spec.with_table(spec::MODEL);
    let kind = kind(&spec);
    let timeouts = timeouts(metadata, fields);
    let config = spec.required_fields("config", "the settings of the provider");
    let config = config.map(|config| config.with_table(spec::MODEL_CONFIG));
    let fallback = fallback(&metadata.name, &spec);
    if kind.is_none() {
        // Every provider reads it, so it must not be reported as unknown.
        spec.get("model");
    }
    let provider = kind.zip(config).and_then(|(kind, config)| {
        let provider = provider(kind, &spec, &config, timeouts, scripts);
        let others: Vec<_> = ModelKind::ALL.into_iter().filter(|other| *other != kind).map(ModelKind::as_str).collect();
        let hint = format!("the provider is `{}`; leave it out", kind.as_str());
        config.unserved(&[&others[..], &["bedrock", "gemini"]].concat(), &hint);
        config.finish();
        provider
    });
    // Files of ARK's users have it, and it changes nothing that a query could notice.
    if spec.get("pollInterval").is_some() {
        let message = format!("`pollInterval` of Model `{}` has no effect: models are not probed", metadata.name);
        spec.report().warn(&spec.path_of("pollInterval"), "field_ignored", message);
    }
    spec.finish();
    let (fallback, places) = fallback.into_iter().map(|text| (text.value.to_owned(), text.place)).unzip();
    let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
    let model = ModelManifest { namespace, name, provider: provider?, fallback };
    Some(metadata.located(fields, ModelDraft { model, fallback: places }))
}

/// `provider` with `type: completions`, or the older form that has the provider in `type`.
fn kind(spec: &Fields<'_>) -> Option<ModelKind> {
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
    let served = ModelKind::ALL.into_iter().find(|served| served.as_str() == provider.value);
    if served.is_none() {
        let message = format!("model provider `{}` is not served by this version", provider.value);
        spec.fault(provider.place, "unsupported_kind", message, instead_of(provider.value));
    }
    served
}

/// The hint for a provider that ARK or its users know and this version does not serve.
fn instead_of(provider: &str) -> &'static str {
    match provider {
        "gemini" | "google" => {
            "use provider `openai` with the `baseUrl` https://generativelanguage.googleapis.com/v1beta/openai"
        }
        "bedrock" => {
            "use provider `openai` with the `baseUrl` https://bedrock-runtime.<region>.amazonaws.com/openai/v1 and a \
             Bedrock API key, or provider `openai` with a gateway that speaks chat completions"
        }
        _ => PROVIDERS,
    }
}

fn provider(
    kind: ModelKind,
    spec: &Fields<'_>,
    config: &Fields<'_>,
    timeouts: Timeouts,
    scripts: &mut HashMap<PathBuf, Option<Arc<Script>>>,
) -> Option<ModelProvider> {
    match kind {
        ModelKind::OpenAi | ModelKind::Azure => {
            let (name, host) = if kind == ModelKind::Azure { ("azure", Host::Azure) } else { ("openai", Host::OpenAi) };
            let model = model_name(spec);
            let settings = config.required_fields(name, &format!("write `{name}: {{baseUrl: …, apiKey: …}}`"))?;
            let settings = settings.with_table(if host == Host::Azure { spec::AZURE } else { spec::OPENAI });
            let echo = settings.bool("echo").unwrap_or(true);
            let version = if host == Host::Azure { value::optional(&settings, "apiVersion") } else { None };
            let hint = match host {
                Host::OpenAi => "for instance https://api.openai.com/v1; `/chat/completions` is added to it",
                Host::Azure => {
                    "for instance https://my-resource.openai.azure.com; `/openai/deployments/<model>/chat/completions` \
                     is added to it"
                }
            };
            let base_url = base_url(&settings, hint);
            let rest = settings_of(&settings, openai::OWN_PROPERTIES);
            settings.finish();
            let config = rest.into_config(model?, base_url?, version.map(|value| value.source), timeouts);
            Some(ModelProvider::OpenAi(Box::new(config), ChatCompletions { host, echo }))
        }
        ModelKind::Anthropic => {
            let model = model_name(spec);
            let settings = config.required_fields("anthropic", "write `anthropic: {apiKey: …}`")?;
            let settings = settings.with_table(spec::ANTHROPIC);
            let cache = settings.bool("cache").unwrap_or(true);
            let version = value::optional(&settings, "version");
            let base_url = if settings.get("baseUrl").is_some() {
                base_url(&settings, "for instance https://api.anthropic.com; `/v1/messages` is added to it")
            } else {
                Some(SecretSource::Literal(Secret::new(anthropic::BASE_URL.to_owned())))
            };
            let rest = settings_of(&settings, anthropic::OWN_PROPERTIES);
            settings.finish();
            let config = rest.into_config(model?, base_url?, version.map(|value| value.source), timeouts);
            Some(ModelProvider::Anthropic(Box::new(config), MessagesApi { cache }))
        }
        ModelKind::Scripted => {
            // A script has no use for the name of the model at an API, but every other Model has one.
            value::optional(spec, "model");
            let settings = config.required_fields("scripted", "write `scripted: {file: …}`");
            settings
                .and_then(|settings| scripted(&settings.with_table(spec::SCRIPTED), scripts))
                .map(ModelProvider::Scripted)
        }
    }
}

fn model_name(spec: &Fields<'_>) -> Option<SecretSource> {
    let model = value::required(spec, "model");
    if let Some(place) = model.as_ref().filter(|model| model.literal() == Some("")).map(|model| model.place) {
        spec.fault(place, "bad_value", "the model has an empty name", "write the name that the API gives it");
    }
    model.map(|model| model.source)
}

fn base_url(settings: &Fields<'_>, hint: &str) -> Option<SecretSource> {
    let base_url = value::required(settings, "baseUrl");
    if let Some(value) = &base_url
        && let Some(Err(problem)) = value.literal().map(remote::base)
    {
        settings.fault(value.place, "bad_value", format!("`baseUrl` {problem}"), hint);
    }
    base_url.map(|value| value.source)
}

/// The settings that all APIs have in common.
struct Common {
    api_key: Option<SecretSource>,
    headers: Vec<(String, SecretSource)>,
    properties: Vec<(String, SecretSource)>,
    stream: bool,
}

impl Common {
    fn into_config(
        self,
        model: SecretSource,
        base_url: SecretSource,
        version: Option<SecretSource>,
        timeouts: Timeouts,
    ) -> RemoteConfig {
        let Self { api_key, headers, properties, stream } = self;
        RemoteConfig {
            model,
            base_url,
            api_key,
            version,
            headers,
            properties,
            stream,
            timeouts,
            reach: SecretReach::File,
        }
    }
}

fn settings_of(settings: &Fields<'_>, own_properties: &[&str]) -> Common {
    // Local servers need no key.
    let api_key = value::optional(settings, "apiKey").map(|value| value.source);
    let headers = headers(settings);
    let (properties, stream) = properties(settings, own_properties);
    Common { api_key, headers, properties, stream }
}

fn headers(settings: &Fields<'_>) -> Vec<(String, SecretSource)> {
    let mut headers: Vec<(String, SecretSource)> = Vec::new();
    for fields in settings.entries("headers") {
        let fields = fields.with_table(spec::MODEL_HEADER);
        let (name, value) = (fields.required_text("name", "the name of the header"), value::required(&fields, "value"));
        fields.finish();
        let Some(name) = name else { continue };
        let lower = name.value.to_ascii_lowercase();
        let problem = if hyper::header::HeaderName::try_from(&lower).is_err() {
            "is not the name of a header"
        } else if is_of_protocol(&lower) {
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

/// Further request parameters, and whether to stream, which is one of them in a manifest.
fn properties(settings: &Fields<'_>, own: &[&str]) -> (Vec<(String, SecretSource)>, bool) {
    let (mut properties, mut stream) = (Vec::new(), true);
    let Some(fields) = settings.fields("properties") else { return (properties, stream) };
    let Data::Map(members) = &fields.node().data else { return (properties, stream) };
    for member in members {
        let name = member.name.as_str();
        let Some(value) = value::of(&fields, &member.value, name) else { continue };
        if name == "stream" {
            match value.literal() {
                Some("true") => {}
                Some("false") => stream = false,
                _ => settings.fault(value.place, "bad_value", "`stream` must be `\"true\"` or `\"false\"`", ""),
            }
        } else if own.contains(&name) {
            let message = format!("`{name}` cannot be set as a property");
            settings.fault(member.place, "bad_value", message, "every query has its own");
        } else {
            properties.push((name.to_owned(), value.source));
        }
    }
    (properties, stream)
}

fn timeouts(metadata: &ManifestMetadata, fields: &Fields<'_>) -> Timeouts {
    const KNOWN: &str = "write `first-byte-timeout`, `idle-timeout` or `total-timeout`";
    let mut timeouts = Timeouts::default();
    for (annotation, value) in &metadata.annotations {
        let Some(name) = annotation.strip_prefix(OWN_ANNOTATIONS) else { continue };
        let place = metadata.annotation_places.get(annotation).copied().unwrap_or(metadata.place);
        let slot = match name {
            "first-byte-timeout" => &mut timeouts.first_byte,
            "idle-timeout" => &mut timeouts.idle,
            "total-timeout" => &mut timeouts.total,
            _ => {
                let message = format!("annotation `{annotation}` is not recognized");
                fields.fault(place, "unknown_field", message, KNOWN);
                continue;
            }
        };
        match duration::parse_positive(value) {
            Some(time) => *slot = time,
            None => {
                let message = format!("annotation `{annotation}` is `{value}`, which is not a time limit");
                fields.fault(place, "bad_value", message, duration::HINT);
            }
        }
    }
    timeouts
}

fn fallback<'n>(own: &str, spec: &Fields<'n>) -> Vec<Text<'n>> {
    let mut names: Vec<Text<'n>> = Vec::new();
    for node in spec.list("fallback") {
        let Some(name) = spec.text_of(node, "fallback") else { continue };
        let problem = if name.value == own {
            "falls back on itself"
        } else if names.iter().any(|earlier| earlier.value == name.value) {
            "names a model twice in `fallback`"
        } else {
            names.push(name);
            continue;
        };
        spec.fault(name.place, "bad_value", format!("Model `{own}` {problem}"), "leave it out");
    }
    names
}

fn scripted(settings: &Fields<'_>, scripts: &mut HashMap<PathBuf, Option<Arc<Script>>>) -> Option<Arc<Script>> {
    let file = settings.required_text("file", "the path of a script, from the directory of this manifest");
    settings.finish();
    let file = file?;
    if settings.report().is_of_client() {
        let hint = "only a manifest in a file may name a script, since clients must not read files of the server";
        settings.fault(file.place, "unsupported_field", "a stored model cannot play a script", hint);
        return None;
    }
    let path = sibling(settings.report().file(), file.value);
    if let Some(known) = scripts.get(&path) {
        return known.clone();
    }
    let script = match files::read(&path) {
        Err(faults) => {
            for fault in faults {
                let message = format!("script `{}` {}", file.value, fault.message);
                settings.fault(file.place, "bad_value", message, "the path begins at the directory of this manifest");
            }
            None
        }
        Ok(text) => match Script::parse(&path, &text) {
            Ok(script) => Some(Arc::new(script)),
            Err(faults) => {
                faults.into_iter().for_each(|fault| settings.report().add(fault));
                None
            }
        },
    };
    scripts.insert(path, script.clone());
    script
}

pub(super) fn sibling(manifest: &Path, file: &str) -> PathBuf {
    manifest.parent().unwrap_or(Path::new("")).join(file)
}

/// The script that a document names, if it is a Model that plays one.
pub(super) fn named_script(manifest: &Path, document: &Node) -> Option<PathBuf> {
    let file = document.at(&["spec", "config", "scripted", "file"])?;
    match &file.data {
        Data::Text(file) => Some(sibling(manifest, file)),
        _ => None,
    }
}

/// Every fallback must exist in the namespace of its model, and fallbacks must not form a cycle.
pub(super) fn check_fallbacks(
    drafts: &[LocatedManifest<ModelDraft>],
    is_faulty: impl Fn(Document, &Namespace, &str) -> bool,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let find = |namespace: &Namespace, name: &str| {
        let mut models = drafts.iter().map(|draft| &draft.value.model);
        models.find(|model| model.namespace == *namespace && model.name == name)
    };
    for draft in drafts {
        let ModelManifest { namespace, name, fallback, .. } = &draft.value.model;
        for (other, place) in fallback.iter().zip(&draft.value.fallback) {
            let mut fault = |code, message: String, hint: &str| {
                faults.push(Fault::of_file(&draft.file, code, message).at(*place).hint(hint));
            };
            let Some(found) = find(namespace, other) else {
                if !is_faulty(Document::Model, namespace, other) {
                    let message = format!(
                        "Model `{name}` falls back on Model `{other}`, which does not exist in namespace `{namespace}`"
                    );
                    fault("unknown_model", message, "add a Model manifest with this name, or leave it out");
                }
                continue;
            };
            let mut reached = Vec::new();
            reach(found, &|other| find(namespace, other), &mut reached);
            if reached.iter().any(|model| model.name == *name) {
                let message = format!("Model `{name}` falls back on Model `{other}`, which leads back to it");
                fault("bad_value", message, "fallbacks must not form a cycle");
            }
        }
    }
    faults
}

/// `model`, then its transitive fallbacks, each once, in the order in which they are called.
fn reach<'a>(
    model: &'a ModelManifest,
    find: &impl Fn(&str) -> Option<&'a ModelManifest>,
    reached: &mut Vec<&'a ModelManifest>,
) {
    if reached.iter().any(|earlier| earlier.name == model.name) {
        return;
    }
    reached.push(model);
    for other in model.fallback.iter().filter_map(|name| find(name)) {
        reach(other, find, reached);
    }
}

/// The models, ready to be called, each with its fallbacks.
pub(super) fn build(
    manifests: &[ModelManifest],
    secrets: &Arc<Secrets>,
    connections: &Arc<Connections>,
) -> Vec<(Namespace, String, Arc<dyn Model>)> {
    let alone = |manifest: &ModelManifest| -> Arc<dyn Model> {
        let namespace = manifest.namespace.clone();
        match &manifest.provider {
            ModelProvider::OpenAi(config, wire) => {
                model::open_ai(namespace, RemoteConfig::clone(config), *wire, secrets, connections)
            }
            ModelProvider::Anthropic(config, wire) => {
                model::anthropic(namespace, RemoteConfig::clone(config), *wire, secrets, connections)
            }
            ModelProvider::Scripted(script) => Arc::new(Scripted::new(Arc::clone(script))),
        }
    };
    let built = manifests.iter().map(|manifest| {
        let (namespace, name) = (&manifest.namespace, &manifest.name);
        let find = |name: &str| manifests.iter().find(|other| other.namespace == *namespace && other.name == *name);
        let mut reached = Vec::new();
        reach(manifest, &find, &mut reached);
        let others: Vec<_> = reached[1..].iter().map(|other| (other.name.clone(), alone(other))).collect();
        let first = alone(manifest);
        let model = if others.is_empty() { first } else { Arc::new(Fallback::new(first, others)) as Arc<dyn Model> };
        (namespace.clone(), name.clone(), model)
    });
    built.collect()
}
