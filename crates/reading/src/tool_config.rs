//! An entry of `tool-config.json`: one tool as configuration, run through Nango.
//!
//! The one reader of it: the converters read files with it, and the server the bodies of requests that have this form,
//! so that both have the same rules. The name of the tool and what is around an entry, such as labels, is left to the
//! caller, and so are fields that are unknown here.

use std::{collections::BTreeMap, time::Duration};

use bosun_core::{
    Binding,
    text::clip,
    tool::{Annotations, CachePolicy, Confirm, Deprecation, Nango, missing::REQUEST_MISSING_PARAMETERS},
};

use crate::{
    Fields, Tree,
    tool::{cache, deprecation},
};

/// The provider of tools that need none.
const META: &str = "__META__";
/// Fields that are part of how a tool is run.
const OF_BINDING: &[&str] = &["source", "action", "cache_model", "entity_aliases", "timeout", "approval_timeout"];
/// Characters of a name or a value that a message shows.
const SHOWN: usize = 80;

/// What an entry says.
#[derive(Debug)]
pub struct ToolEntry {
    /// `None` if what the binding is made of is at fault, and in a change of something else.
    pub binding: Option<Binding>,
    pub description: Option<String>,
    pub display_name: Option<String>,
    pub lc_name: Option<String>,
    pub category: Option<String>,
    pub version: Option<String>,
    pub timeout: Option<Duration>,
    pub cache: Option<CachePolicy>,
    pub confirm: Option<Confirm>,
    pub approval_timeout: Option<Duration>,
    pub annotations: Annotations,
    pub deprecated: Option<Deprecation>,
}

/// Reads the entry of the tool `name`. `default_model` is the cache model of a provider whose tools name none.
pub fn read<'n, T: Tree>(
    fields: &Fields<'n, &'n T>,
    name: &str,
    default_model: impl FnOnce(&str) -> Option<String>,
) -> ToolEntry {
    with_binding(fields, binding(fields, name, default_model))
}

/// Reads what is to be changed of the tool `name`. What a change does not name stays as it is, so that one without
/// `providerConfigKey` does not change how the tool is run.
pub fn read_change<'n, T: Tree>(fields: &Fields<'n, &'n T>, name: &str) -> ToolEntry {
    if fields.has("providerConfigKey") {
        return read(fields, name, |_| None);
    }
    for field in OF_BINDING.iter().filter(|field| fields.has(field)) {
        let message = format!("`{field}` is changed together with `providerConfigKey`, which is missing");
        fields.fault_of(field, "provider_missing", message, "send all fields of the binding");
    }
    with_binding(fields, None)
}

fn with_binding<'n, T: Tree>(fields: &Fields<'n, &'n T>, binding: Option<Binding>) -> ToolEntry {
    let text = |field: &str| fields.text(field).map(|text| text.value.to_owned());
    ToolEntry {
        binding,
        description: text("description"),
        display_name: text("display_name"),
        lc_name: text("lc_name"),
        category: text("category"),
        version: text("version"),
        timeout: fields.positive_duration("timeout"),
        cache: cache(fields),
        confirm: confirm(fields),
        approval_timeout: fields.positive_duration("approval_timeout"),
        annotations: Annotations {
            read_only_hint: fields.bool("read_only"),
            destructive_hint: fields.bool("destructive"),
            idempotent_hint: fields.bool("idempotent"),
            open_world_hint: fields.bool("open_world"),
        },
        deprecated: deprecation(fields),
    }
}

/// Whether a person has to approve the calls.
fn confirm<'n, T: Tree>(fields: &Fields<'n, &'n T>) -> Option<Confirm> {
    let written = fields.text("confirm")?.value;
    let confirm = Confirm::parse(written);
    if confirm.is_none() {
        let message = format!("`confirm` is `never`, `always` or `auto`, not `{}`", clip(written, SHOWN));
        fields.fault_of("confirm", "bad_value", message, "");
    }
    confirm
}

fn binding<'n, T: Tree>(
    fields: &Fields<'n, &'n T>,
    name: &str,
    default_model: impl FnOnce(&str) -> Option<String>,
) -> Option<Binding> {
    let text = |field: &str| fields.text(field).map(|text| text.value);
    let provider = text("providerConfigKey").map(str::trim).filter(|key| !key.is_empty() && *key != META);
    let (source, action, model) = (text("source"), text("action"), text("cache_model"));
    let aliases = fields.texts("entity_aliases").into_iter();
    let entity_aliases: BTreeMap<_, _> =
        aliases.map(|(alias, entity)| (alias.to_owned(), entity.value.to_owned())).collect();
    // The default is `action`.
    let is_cached = match source {
        None | Some("action") => false,
        Some("cache") => true,
        Some(other) => {
            let message = format!("`{}` is neither `cache` nor `action`", clip(other, SHOWN));
            fields.fault_of("source", "source_unknown", message, "");
            return None;
        }
    };
    let Some(provider) = provider else {
        return without_provider(fields, name, source);
    };
    let unused = if is_cached {
        [("action", action.is_some()), ("", false)]
    } else {
        [("cache_model", model.is_some()), ("entity_aliases", !entity_aliases.is_empty())]
    };
    for (field, _) in unused.into_iter().filter(|(_, is_there)| *is_there) {
        let message = format!("`{field}` has no meaning for a tool whose source is `{}`", source.unwrap_or("action"));
        fields.report().warn(&fields.path_of(field), "field_unused", message);
    }
    let provider = provider.to_owned();
    if !is_cached {
        let action = action.map_or_else(|| Nango::default_action(name), str::to_owned);
        return Some(Binding::Nango(Nango::Action { provider, action }));
    }
    let Some(model) = model.map(str::to_owned).or_else(|| default_model(&provider)) else {
        let message = format!("`{}` reads from the cache and does not say which model", clip(name, SHOWN));
        let hint = format!(
            "add `\"cache_model\": \"…\"` to the tool, or to `providers.{}` of its file or of `providers.json`",
            clip(&provider, SHOWN)
        );
        fields.fault_of("cache_model", "cache_model_missing", message, hint);
        return None;
    };
    Some(Binding::Nango(Nango::Cache { provider, model, entity_aliases }))
}

/// Tools that steer the conversation need no provider; any other is run by its client.
fn without_provider<'n, T: Tree>(fields: &Fields<'n, &'n T>, name: &str, source: Option<&str>) -> Option<Binding> {
    if name.is_empty() {
        // The missing name is reported already.
        return None;
    }
    if name == REQUEST_MISSING_PARAMETERS {
        return Some(Binding::Builtin { name: name.to_owned() });
    }
    let shown = clip(name, SHOWN);
    if let Some(source) = source {
        let message = format!("`{shown}` has the source `{source}` and no `providerConfigKey`");
        fields.fault_of("providerConfigKey", "provider_missing", message, "");
        return None;
    }
    let message = format!("`{shown}` names no provider: a client has to run it");
    fields.report().warn(fields.path(), "binding_unknown", message);
    Some(Binding::External)
}
