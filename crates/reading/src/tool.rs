//! The `spec` of ARK's `kind: Tool`.
//!
//! The one reader of it: the server reads its manifests and what clients store with it, and the
//! converters read ARK's files with it, so that both have the same rules. All of ARK's types are read,
//! and two of ours: `external`, a tool of the catalogue that clients run, and `nango`, an integration.
//! Whether a builtin tool exists, and whether a schema is valid, is left to the caller.

use std::time::Duration;

use bosun_core::{
    Binding,
    query::ExpiryPolicy,
    tool::{Annotations, BindingKind, CachePolicy, CacheScope, Deprecation, HttpRequest, Method, Nango, ToolApproval},
};
use serde_json::{Value, json};

use crate::{Fields, Report, Shape, Text, Tree, approval, named_values, spec};

/// Annotations of a resource for fields of a tool that ARK's specification lacks.
pub const CATEGORY: &str = "category";
pub const VERSION: &str = "version";
pub const LC_NAME: &str = "lc_name";
/// Its value is `true`, `false`, or JSON of an object with `since`, `message` and `replacedBy`.
pub const DEPRECATED: &str = "deprecated";

const KNOWN_LANGUAGES: &str = "languages are bash, python, node and ts";
/// The longest script that ARK accepts.
const LARGEST_SCRIPT: usize = 64 * 1024;

/// The field `deprecated` of a tool: `true`, `false`, or `{since, message, replacedBy}`.
#[must_use]
pub fn deprecation<'n, T: Tree>(fields: &Fields<'n, &'n T>) -> Option<Deprecation> {
    let value = fields.get(DEPRECATED)?;
    match value.shape() {
        Shape::Bool(is_deprecated) => is_deprecated.then(Deprecation::default),
        Shape::Map => {
            let inner = fields.inner(value, DEPRECATED)?.with_table(spec::DEPRECATION);
            let text = |name: &str| inner.text(name).map(|text| text.value.to_owned());
            let (since, message, replaced_by) = (text("since"), text("message"), text("replacedBy"));
            inner.finish();
            Some(Deprecation { since, message, replaced_by })
        }
        _ => {
            fields.wrong_field(DEPRECATED, value, "true or an object", "");
            None
        }
    }
}

/// What the annotation [`DEPRECATED`] says: the same as JSON.
///
/// # Errors
/// What the value has to be.
pub fn parse_deprecation(written: &str) -> Result<Option<Deprecation>, &'static str> {
    let expected = "is `true`, `false`, or an object with `since`, `message` and `replacedBy`";
    let value: Value = serde_json::from_str(written).map_err(|_| expected)?;
    let (report, holder) = (Report::of_conversion(), json!({DEPRECATED: value}));
    let deprecation = report.fields(&holder, "").and_then(|fields| deprecation(&fields));
    if report.is_sound() && !holder[DEPRECATED].is_null() { Ok(deprecation) } else { Err(expected) }
}

/// The value of the annotation [`DEPRECATED`].
#[must_use]
pub fn written_deprecation(deprecation: &Deprecation) -> String {
    if *deprecation == Deprecation::default() { "true".to_owned() } else { json!(deprecation).to_string() }
}

/// What the `spec` of a tool says.
#[derive(Debug)]
pub struct ToolSpec<'n, T> {
    pub kind: BindingKind,
    /// `None` if the block of the type is at fault.
    pub binding: Option<Binding>,
    /// The resource that the binding names: a builtin tool, an MCP server, an agent or a team.
    pub refers_to: Option<Text<'n>>,
    pub timeout: Option<Duration>,
    pub on_expired: Option<ExpiryPolicy>,
    pub cache: Option<CachePolicy>,
    pub description: Option<String>,
    pub title: Option<String>,
    pub annotations: Annotations,
    pub approval: Option<ToolApproval>,
    /// As it was written; anything but a mapping is already reported.
    pub input_schema: Option<&'n T>,
}

/// What the block of a type says.
struct Bound<'n> {
    binding: Binding,
    refers_to: Option<Text<'n>>,
    timeout: Option<Duration>,
    on_expired: Option<ExpiryPolicy>,
}

impl<'n> From<Binding> for Bound<'n> {
    fn from(binding: Binding) -> Self {
        Self { binding, refers_to: None, timeout: None, on_expired: None }
    }
}

/// Reads the `spec` of a resource. `None` if it has none, or no type that is known.
pub fn read<'n, T: Tree>(resource: &Fields<'n, &'n T>) -> Option<ToolSpec<'n, T>> {
    let spec = resource.required_fields("spec", "a tool has at least a `type`")?.with_table(spec::TOOL);
    let written = spec.required_text("type", &known_types())?;
    let Some(kind) = BindingKind::of_manifests().find(|kind| kind.as_str() == written.value) else {
        let message = format!("there is no tool type `{}`", written.value);
        spec.fault_of("type", "unsupported_kind", message, known_types());
        return None;
    };
    let bound = match kind {
        BindingKind::Http => http(&spec),
        BindingKind::Mcp => mcp(&spec),
        BindingKind::Agent => named(&spec, "agent", |name| Binding::Agent { name }),
        BindingKind::Team => named(&spec, "team", |name| Binding::Team { name }),
        BindingKind::Builtin => named(&spec, "builtin", |name| Binding::Builtin { name }),
        BindingKind::Inline => inline(&spec),
        BindingKind::External => Some(external(&spec)),
        BindingKind::Nango => nango(&spec),
        // No manifest has them.
        BindingKind::A2a => None,
    };
    let description = spec.text("description").map(|text| text.value.to_owned());
    let (annotations, title) = annotations(&spec);
    let cache = cache(&spec);
    let input_schema = spec.get("inputSchema");
    if let Some(schema) = input_schema {
        spec.inner(schema, "inputSchema");
    }
    let others: Vec<_> = BindingKind::of_manifests().filter(|other| *other != kind).map(BindingKind::as_str).collect();
    spec.unserved(&others, &format!("the tool is of type `{kind}`; leave it out"));
    // The client that runs a tool is the one to ask.
    let approval = if kind == BindingKind::External {
        spec.unserved(&["approval"], "leave it out");
        None
    } else {
        approval::read(&spec)
    };
    spec.finish();
    let (binding, refers_to, timeout, on_expired) = match bound {
        Some(Bound { binding, refers_to, timeout, on_expired }) => (Some(binding), refers_to, timeout, on_expired),
        None => (None, None, None, None),
    };
    Some(ToolSpec {
        kind,
        binding,
        refers_to,
        timeout,
        on_expired,
        cache,
        description,
        title,
        annotations,
        approval,
        input_schema,
    })
}

fn known_types() -> String {
    let types: Vec<_> = BindingKind::of_manifests().map(|kind| format!("`{kind}`")).collect();
    format!("types are {}; tools of type `external` are run by clients", types.join(", "))
}

/// The parameters of a tool without an `inputSchema`.
#[must_use]
pub fn default_parameters(binding: &Binding) -> Value {
    match binding {
        // Another agent is given one text.
        Binding::Agent { .. } | Binding::Team { .. } => {
            json!({"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]})
        }
        _ => json!({"type": "object", "properties": {}}),
    }
}

/// The description that ARK gives to a tool without one.
#[must_use]
pub fn default_description(name: &str, binding: &Binding) -> String {
    match binding {
        Binding::Http(request) => format!("HTTP request to {}", request.url),
        _ => format!("Custom tool: {name}"),
    }
}

fn http<'n, T: Tree>(spec: &Fields<'n, &'n T>) -> Option<Bound<'n>> {
    let fields = spec.required_fields("http", "write `http: {url: …}`")?.with_table(spec::HTTP);
    let url = fields.required_text("url", "for instance https://api.example.com/items/{id}");
    if let Some(url) = url.filter(|url| !url.value.starts_with("http://") && !url.value.starts_with("https://")) {
        fields.fault_of("url", "bad_value", format!("`{}` must begin with http:// or https://", url.value), "");
    }
    let method = fields.text("method").map_or(Some(Method::default()), |text| {
        let method = Method::parse(text.value);
        if method.is_none() {
            let message = format!("an HTTP tool cannot use the method `{}`", text.value);
            fields.fault_of("method", "bad_value", message, "methods are GET, POST, PUT, PATCH and DELETE");
        }
        method
    });
    let timeout = fields.positive_duration("timeout");
    let body = fields.text("body").map(|text| text.value.to_owned());
    let headers = named_values(&fields, "headers");
    let body_parameters = named_values(&fields, "bodyParameters");
    fields.finish();
    let (url, method) = (url?.value.to_owned(), method?);
    let request = HttpRequest { url, method, headers, body, body_parameters, follow_redirects: false };
    Some(Bound { timeout, ..Binding::Http(Box::new(request)).into() })
}

fn mcp<'n, T: Tree>(spec: &Fields<'n, &'n T>) -> Option<Bound<'n>> {
    let hint = "write `mcp: {mcpServerRef: {name: …}, toolName: …}`";
    let fields = spec.required_fields("mcp", hint)?.with_table(spec::MCP);
    let tool = fields.required_text("toolName", "the tool's name at the server");
    let server = fields.required_fields("mcpServerRef", "write `mcpServerRef: {name: …}`");
    let server = server.and_then(|server| {
        let server = server.with_table(spec::NAMED);
        let name = server.required_text("name", "the name of an MCPServer");
        server.unserved(&["namespace"], "a tool uses servers of its own namespace");
        server.finish();
        name
    });
    let timeout = fields.positive_duration("timeout");
    fields.finish();
    let (server, tool) = (server?, tool?);
    let binding = Binding::Mcp { server: server.value.to_owned(), tool: tool.value.to_owned() };
    Some(Bound { refers_to: Some(server), timeout, ..binding.into() })
}

/// `{name: …}`, or the name itself, which is an older form.
fn named<'n, T: Tree>(
    spec: &Fields<'n, &'n T>,
    field: &str,
    binding: impl FnOnce(String) -> Binding,
) -> Option<Bound<'n>> {
    let hint = format!("write `{field}: {{name: …}}`");
    let name = if let Shape::Text(_) = spec.require(field, &hint)?.shape() {
        spec.text(field)
    } else {
        let fields = spec.fields(field)?.with_table(spec::NAMED);
        let name = fields.required_text("name", &hint);
        fields.finish();
        name
    }?;
    Some(Bound { refers_to: Some(name), ..binding(name.value.to_owned()).into() })
}

fn inline<'n, T: Tree>(spec: &Fields<'n, &'n T>) -> Option<Bound<'n>> {
    let hint = "write `inline: {language: …, source: …}`";
    let fields = spec.required_fields("inline", hint)?.with_table(spec::INLINE);
    let language = fields.required_text("language", KNOWN_LANGUAGES);
    let source = fields.required_text("source", "the script");
    fields.finish();
    if let Some(language) = language.filter(|language| !spec::LANGUAGES.contains(&language.value)) {
        let message = format!("scripts are not written in `{}`", language.value);
        fields.fault_of("language", "bad_value", message, KNOWN_LANGUAGES);
    }
    if let Some(source) = source.filter(|source| source.value.len() > LARGEST_SCRIPT) {
        let message = format!("the script has {} bytes, more than {LARGEST_SCRIPT}", source.value.len());
        fields.fault_of("source", "bad_value", message, "");
    }
    Some(Binding::Inline { language: language?.value.to_owned(), source: source?.value.to_owned() }.into())
}

/// What a tool-config says about a provider, in the spelling that answers have.
fn nango<'n, T: Tree>(spec: &Fields<'n, &'n T>) -> Option<Bound<'n>> {
    let hint = "write `nango: {source: action, provider: …, action: …}`";
    let fields = spec.required_fields("nango", hint)?.with_table(spec::NANGO);
    let provider = fields.required_text("provider", "the key of an integration at Nango: its `providerConfigKey`");
    let sources = "sources are `cache`, which reads synced records, and `action`";
    let source = fields.required_text("source", sources);
    let timeout = fields.positive_duration("timeout");
    let entity_aliases = || {
        let aliases = fields.texts("entityAliases").into_iter();
        aliases.map(|(alias, entity)| (alias.to_owned(), entity.value.to_owned())).collect()
    };
    let provider = provider.map(|provider| provider.value.to_owned());
    let nango = match source?.value {
        "cache" => {
            let model = fields.required_text("model", "the model that a sync stores, for instance `GmailThread`");
            fields.unserved(&["action"], "the tool reads from the cache; leave it out");
            let entity_aliases = entity_aliases();
            fields.finish();
            Nango::Cache { provider: provider?, model: model?.value.to_owned(), entity_aliases }
        }
        "action" => {
            let action = fields.required_text("action", "the name of the action at Nango, for instance `send-email`");
            fields.unserved(&["model", "entityAliases"], "the tool runs an action; leave it out");
            fields.finish();
            Nango::Action { provider: provider?, action: action?.value.to_owned() }
        }
        other => {
            fields.fault_of("source", "source_unknown", format!("`{other}` is neither `cache` nor `action`"), sources);
            return None;
        }
    };
    Some(Bound { timeout, ..Binding::Nango(nango).into() })
}

/// A tool that clients run need not say anything but how long a call of it waits, and what happens if that is too long.
fn external<'n, T: Tree>(spec: &Fields<'n, &'n T>) -> Bound<'n> {
    let mut bound = Bound::from(Binding::External);
    if let Some(external) = spec.fields("external") {
        let external = external.with_table(spec::EXTERNAL);
        bound.timeout = external.positive_duration("timeout");
        if let Some(written) = external.text("onExpired") {
            bound.on_expired = ExpiryPolicy::parse(written.value);
            if bound.on_expired.is_none() {
                let message = format!("`{}` is not a policy", written.value);
                external.fault_of("onExpired", "bad_value", message, "write `tell` or `fail`");
            }
        }
        external.finish();
    }
    bound
}

/// A time, or `{ttl: …, scope: …}`: how long results are cached, and who shares them.
#[must_use]
pub fn cache<'n, T: Tree>(fields: &Fields<'n, &'n T>) -> Option<CachePolicy> {
    if !matches!(fields.get("cache")?.shape(), Shape::Map) {
        let ttl = fields.positive_duration("cache")?;
        return Some(CachePolicy { ttl, scope: CacheScope::default() });
    }
    let cache = fields.fields("cache")?.with_table(spec::TOOL_CACHE);
    let ttl = match cache.require("ttl", "for instance `ttl: 5m`") {
        Some(_) => cache.positive_duration("ttl"),
        None => None,
    };
    let scope = cache.text("scope").map_or(Some(CacheScope::default()), |text| {
        let scope = CacheScope::parse(text.value);
        if scope.is_none() {
            let message = format!("results cannot be shared by `{}`", text.value);
            cache.fault_of("scope", "bad_value", message, "scopes are query, session and namespace");
        }
        scope
    });
    cache.finish();
    Some(CachePolicy { ttl: ttl?, scope: scope? })
}

fn annotations<T: Tree>(spec: &Fields<'_, &T>) -> (Annotations, Option<String>) {
    let Some(fields) = spec.fields("annotations") else { return (Annotations::default(), None) };
    let fields = fields.with_table(spec::TOOL_ANNOTATIONS);
    let annotations = Annotations {
        read_only_hint: fields.bool("readOnlyHint"),
        destructive_hint: fields.bool("destructiveHint"),
        idempotent_hint: fields.bool("idempotentHint"),
        open_world_hint: fields.bool("openWorldHint"),
    };
    let title = fields.text("title").map(|text| text.value.to_owned());
    fields.finish();
    (annotations, title)
}
