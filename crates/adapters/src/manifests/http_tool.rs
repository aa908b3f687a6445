//! Tools of type `http`: their templates, the settings and secrets that they send, and the destinations of these.

use std::{collections::BTreeMap, sync::Arc};

use bosun_core::{
    Binding, Namespace, Tool,
    ceiling::PARAMETERS_BYTES,
    machine::outcome_code,
    tool::{ConfigRef, HttpRequest, NamedValue, ValueSource},
};
use bosun_reading::{Data, Fault, Fields, Node, SourcePlace};
use serde_json::Value;

use super::{config_map::ConfigMap, document::ManifestMetadata};
use crate::{
    outbound::Pool,
    runner::http::{RequestTemplate, TemplateFault, TemplateField, reach_of},
    secret::{
        SecretSource, Secrets,
        binding::{Destination, Grants, HostPart},
    },
};

/// Set to `"true"`, it lets a tool follow redirects. ARK's definition of a Tool has no field for it.
const FOLLOW_REDIRECTS: &str = "bosun.dev/follow-redirects";

/// Reports every fault of a tool's templates at its place. `parameters` is the schema in the manifest.
pub(super) fn check(fields: &Fields<'_>, request: &HttpRequest, parameters: Option<&Value>) {
    let Err(faults) = RequestTemplate::parse(request, parameters) else { return };
    // A URL that does not begin with http:// or https:// was reported when the block was read.
    let is_address = request.url.starts_with("http://") || request.url.starts_with("https://");
    for TemplateFault { field, code, message, hint } in faults {
        if is_address || field != TemplateField::Url {
            fields.fault(place(fields, request, field), code, message, hint);
        }
    }
}

fn place(fields: &Fields<'_>, request: &HttpRequest, field: TemplateField) -> SourcePlace {
    let at = |name: &str| fields.node().at(&["spec", "http", name]);
    let node = match field {
        TemplateField::Url => at("url"),
        TemplateField::Body => at("body"),
        TemplateField::Header(index) => at("headers").and_then(|headers| {
            let name = &request.headers.get(index)?.name;
            let is_meant = |entry: &&Node| {
                matches!(entry.at(&["name"]), Some(Node { data: Data::Text(text), .. }) if text == name)
            };
            let Data::List(entries) = &headers.data else { return None };
            entries.iter().find(is_meant)
        }),
    };
    node.map_or_else(|| fields.place(), |node| node.place)
}

/// Whether the tool follows redirects.
pub(super) fn follows_redirects(metadata: &ManifestMetadata, fields: &Fields<'_>) -> bool {
    let Some(value) = metadata.annotations.get(FOLLOW_REDIRECTS) else { return false };
    if !matches!(value.as_str(), "true" | "false") {
        let place = metadata.annotation_places.get(FOLLOW_REDIRECTS).copied().unwrap_or(metadata.place);
        let message = format!("annotation `{FOLLOW_REDIRECTS}` is `{value}`");
        fields.fault(place, "bad_annotation", message, "write \"true\" or \"false\", in quotes");
    }
    value == "true"
}

/// Replaces references to config maps by their values, and returns a message for each that does not resolve. Like the
/// parameters of a prompt they are resolved once, and a query keeps the values it was submitted with.
pub(super) fn resolve_settings(
    namespace: &Namespace,
    tool: &mut Tool,
    config_maps: &BTreeMap<(Namespace, String), ConfigMap>,
) -> Vec<String> {
    let name = tool.name.clone();
    let Binding::Http(request) = &mut tool.binding else { return Vec::new() };
    let HttpRequest { headers, body_parameters, .. } = &mut **request;
    let mut unresolved = Vec::new();
    let mut bytes = 0;
    for NamedValue { name: of, value } in headers.iter_mut().chain(body_parameters) {
        let ValueSource::ConfigMapKeyRef(ConfigRef { name: map, key, optional }) = value else { continue };
        let found = config_maps.get(&(namespace.clone(), map.clone())).and_then(|map| map.data.get(key));
        bytes += found.map_or(0, String::len);
        match found {
            // A thousand references to one large config map are small in a manifest.
            Some(_) if bytes > PARAMETERS_BYTES => unresolved.push(format!(
                "with ConfigMap `{map}` for `{of}`, the settings of Tool `{name}` have more than {PARAMETERS_BYTES} bytes"
            )),
            Some(text) => *value = ValueSource::Literal(text.clone()),
            None if *optional => {}
            None => unresolved.push(format!(
                "`{of}` of Tool `{name}` refers to key `{key}` of ConfigMap `{map}`, which does not exist in namespace \
                 `{namespace}`"
            )),
        }
    }
    unresolved
}

/// Adds where these tools, which are described by files, send which secrets.
pub(super) fn add_grants(tools: &[(Namespace, Tool)], grants: &mut Grants) {
    for (namespace, tool) in tools {
        let Binding::Http(request) = &tool.binding else { continue };
        let Ok(template) = RequestTemplate::parse(request, None) else { continue };
        for (_, source) in template.references() {
            if let ValueSource::SecretKeyRef(reference) = source {
                grants.add(namespace, &SecretSource::Reference(reference.clone()), template.origin());
            }
        }
    }
}

/// Everything that keeps a stored tool from being called, as far as that is known before a call: an address that may not
/// be called, and every secret that may not be sent there. What a name resolves to is checked at the call.
pub(super) async fn check_destination(
    namespace: &Namespace,
    tool: &Tool,
    secrets: &Secrets,
    pool: &Pool,
    grants: &Arc<Grants>,
) -> Vec<Fault> {
    let Binding::Http(request) = &tool.binding else { return Vec::new() };
    let Ok(template) = RequestTemplate::parse(request, None) else { return Vec::new() };
    let reach = reach_of(tool, grants);
    let mut faults = Vec::new();
    if let Err(refused) = pool.check_of(template.origin(), &reach) {
        let message = format!("`url`: {refused}");
        faults.push(Fault::new("", outcome_code::ADDRESS_NOT_ALLOWED, message));
    }
    let headers = request.headers.iter().map(|header| (HostPart::Header, header));
    let sent = headers.chain(request.body_parameters.iter().map(|parameter| (HostPart::Body, parameter)));
    for (part, NamedValue { name, value }) in sent {
        let ValueSource::SecretKeyRef(reference) = value else { continue };
        let to = Destination { url: template.origin(), kept_in: None };
        if let Err(error) = secrets.permit(namespace, reference, part, to, &reach).await {
            let code = if error.is_refusal() { outcome_code::SECRET_NOT_ALLOWED } else { "bad_value" };
            faults.push(Fault::new("", code, format!("`{name}`: {error}")));
        }
    }
    faults
}
