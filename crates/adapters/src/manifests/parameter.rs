//! The parameters of an agent's prompt.
//!
//! A prompt with parameters is a template, and each of its names needs one of them; a prompt without any
//! is text, braces and all. A parameter is a text, an entry of a config map, or a parameter of the query.
//! It is never a secret: a prompt is read by the model, and by the operator of its API.

use std::collections::BTreeMap;

use bosun_core::{
    Namespace,
    ceiling::PARAMETERS_BYTES,
    template::{self, Template},
    tool::{
        ConfigRef, ValueSource,
        preset::{self, Preset, PresetValue},
    },
};
use bosun_engine::registry::{PromptParameter, PromptValue};
use bosun_reading::{Fields, SourcePlace, Text, spec, value_source};

use super::config_map::ConfigMap;

/// A parameter whose value may be a reference.
#[derive(Clone, Debug)]
pub(super) struct ParameterDraft {
    name: String,
    value: ValueSource,
    place: SourcePlace,
}

pub(super) fn read(spec: &Fields<'_>, prompt: Option<Text<'_>>) -> Vec<ParameterDraft> {
    let mut drafts: Vec<ParameterDraft> = Vec::new();
    let mut unusable = Vec::new();
    for fields in spec.entries("parameters") {
        let fields = fields.with_table(spec::PARAMETER);
        let name = fields.required_text("name", "the name that the prompt uses as `{{.name}}`");
        let value = value_source(&fields);
        fields.finish();
        let Some(name) = name else { continue };
        unusable.push(name.value);
        let problem = if !template::is_name(name.value) {
            "is not a valid name in a template: letters, digits and `_`"
        } else if drafts.iter().any(|earlier| earlier.name == name.value) {
            "appears twice"
        } else {
            match value {
                Some((ValueSource::SecretKeyRef(_), place)) => {
                    let message = format!("parameter `{}` of the prompt is a secret", name.value);
                    let hint =
                        "a prompt is read by the model and by the operator of its API; secrets belong in headers";
                    spec.fault(place, "unsupported_field", message, hint);
                }
                Some((value, place)) => drafts.push(ParameterDraft { name: name.value.to_owned(), value, place }),
                None => {}
            }
            continue;
        };
        spec.fault(name.place, "bad_value", format!("parameter `{}` {problem}", name.value), "");
    }
    if let Some(prompt) = prompt.filter(|_| !unusable.is_empty()) {
        check_prompt(spec, prompt, &unusable);
    }
    drafts
}

/// A prompt with parameters is a template, and all of its names are parameters.
fn check_prompt(spec: &Fields<'_>, prompt: Text<'_>, names: &[&str]) {
    let template = match Template::parse(prompt.value) {
        Ok(template) => template,
        Err(bad) => {
            let message = format!("the prompt is not a template: {bad} of it");
            let hint = "an agent with `parameters` has a template for a prompt, and its only form is `{{.name}}`; \
                for braces that should stay, make a parameter with the value `{{`";
            return spec.fault(prompt.place, "bad_template", message, hint);
        }
    };
    for name in template.names().filter(|name| !names.contains(name)) {
        let message = format!("the prompt has `{{{{.{name}}}}}`, and there is no parameter `{name}`");
        spec.fault(prompt.place, "unknown_parameter", message, "add it to `spec.parameters`");
    }
}

/// The parameters of a tool that an agent sets: texts with parameters of the query, or references to either of those.
pub(super) fn read_presets(partial: &Fields<'_>) -> Vec<ParameterDraft> {
    let mut drafts: Vec<ParameterDraft> = Vec::new();
    for fields in partial.entries("parameters") {
        let fields = fields.with_table(spec::NAMED_SOURCE);
        let name = fields.required_text("name", "the name of a parameter of the tool");
        let value = value_source(&fields);
        fields.finish();
        let (Some(name), Some((value, place))) = (name, value) else { continue };
        let name = name.value.to_owned();
        if drafts.iter().any(|earlier| earlier.name == name) {
            partial.fault(place, "bad_value", format!("parameter `{name}` appears twice"), "");
            continue;
        }
        match &value {
            ValueSource::SecretKeyRef(_) => {
                let message = format!("parameter `{name}` of the tool is a secret");
                let hint = "arguments are kept in the journal; secrets belong in the headers of the tool";
                partial.fault(place, "unsupported_field", message, hint);
                continue;
            }
            ValueSource::Literal(text) => {
                if let Err(bad) = preset::parse_template(text) {
                    let message = format!("the value of `{name}` is not a template: {bad} of it");
                    partial.fault(place, "bad_template", message, "its only form is `{{ .Query.name }}`");
                    continue;
                }
            }
            ValueSource::ConfigMapKeyRef(_) | ValueSource::QueryParameterRef { .. } => {}
        }
        drafts.push(ParameterDraft { name, value, place });
    }
    drafts
}

/// The same with resolved references to config maps.
pub(super) fn resolve_presets(
    drafts: &[ParameterDraft],
    namespace: &Namespace,
    config_maps: &BTreeMap<(Namespace, String), ConfigMap>,
) -> (Vec<Preset>, Vec<Unresolved>) {
    let (resolved, unresolved) = resolve(drafts, namespace, config_maps);
    let is_template =
        |name: &str| drafts.iter().any(|draft| draft.name == name && matches!(draft.value, ValueSource::Literal(_)));
    let preset = |PromptParameter { name, value }| {
        let value = match value {
            PromptValue::OfQuery(name) => PresetValue::QueryParameter(name),
            PromptValue::Literal(text) if is_template(&name) => PresetValue::Template(text),
            PromptValue::Literal(text) => PresetValue::Text(text),
        };
        Preset { name, value, schema: None }
    };
    (resolved.into_iter().map(preset).collect(), unresolved)
}

/// Why a parameter has no value.
#[derive(Debug)]
pub(super) struct Unresolved {
    pub(super) place: SourcePlace,
    pub(super) message: String,
}

/// The parameters with resolved references to config maps. One without a value is left out and reported.
pub(super) fn resolve(
    drafts: &[ParameterDraft],
    namespace: &Namespace,
    config_maps: &BTreeMap<(Namespace, String), ConfigMap>,
) -> (Vec<PromptParameter>, Vec<Unresolved>) {
    let (mut resolved, mut unresolved) = (Vec::new(), Vec::new());
    let mut bytes = 0;
    for ParameterDraft { name, value, place } in drafts {
        let value = match value {
            ValueSource::Literal(text) => PromptValue::Literal(text.clone()),
            ValueSource::QueryParameterRef { name } => PromptValue::OfQuery(name.clone()),
            // Refused when it was read.
            ValueSource::SecretKeyRef(_) => continue,
            ValueSource::ConfigMapKeyRef(ConfigRef { name: map, key, optional }) => {
                let found = config_maps.get(&(namespace.clone(), map.clone()));
                let text = found.and_then(|map| map.data.get(key));
                bytes += text.map_or(0, String::len);
                match text {
                    // A thousand references to one large config map are small in a manifest.
                    Some(_) if bytes > PARAMETERS_BYTES => {
                        let message = format!(
                            "with ConfigMap `{map}` for `{name}`, the parameters have more than {PARAMETERS_BYTES} bytes"
                        );
                        unresolved.push(Unresolved { place: *place, message });
                        continue;
                    }
                    Some(text) => PromptValue::Literal(text.clone()),
                    None if *optional => PromptValue::Literal(String::new()),
                    None => {
                        let what =
                            if found.is_some() { format!("key `{key}` of ConfigMap") } else { "ConfigMap".into() };
                        let message = format!(
                            "parameter `{name}` refers to {what} `{map}`, which does not exist in namespace `{namespace}`"
                        );
                        unresolved.push(Unresolved { place: *place, message });
                        continue;
                    }
                }
            }
        };
        resolved.push(PromptParameter { name: name.clone(), value });
    }
    (resolved, unresolved)
}
