//! Servers that manifests name: their address, the headers of requests to them, and where their secrets go.
//!
//! MCP servers and A2A servers have these fields in common. Each value is written in the manifest or is a secret, which
//! is resolved at each request; a header may also be a parameter of the query that makes a call.

use bosun_core::{
    Namespace,
    machine::failure_code,
    tool::{Confirm, NamedValue, ValueSource, header::is_of_protocol},
};
use bosun_reading::{Data, Fault, Fields, named_values, spec, value_source};
use url::Url;

use crate::{
    outbound::Pool,
    secret::{
        Secret, SecretSource, Secrets,
        binding::{Destination, HostPart, SecretReach},
    },
};

const ADDRESS: &str = "write `address: {value: https://…}`";

/// The value of a header.
#[derive(Clone, Debug, PartialEq)]
pub enum EndpointHeader {
    /// Written in the manifest, or a secret: the same in all requests.
    Fixed(SecretSource),
    /// A parameter of the query that makes the call. Requests that belong to no query do not have the header.
    QueryParameter(String),
}

/// `address`: an http URL, or a secret that holds one.
pub(super) fn address(spec: &Fields<'_>) -> Option<SecretSource> {
    let node = spec.require("address", ADDRESS)?;
    if !matches!(node.data, Data::Map(_)) {
        spec.wrong_field("address", node, "a mapping", ADDRESS);
        return None;
    }
    let address = spec.fields("address")?.with_table(spec::VALUE_SOURCE);
    let read = value_source(&address);
    address.finish();
    let (source, place) = read?;
    if let ValueSource::Literal(url) = &source {
        let problem = match Url::parse(url) {
            Ok(parsed) if matches!(parsed.scheme(), "http" | "https") && parsed.has_host() => None,
            Ok(_) | Err(_) if !url.starts_with("http://") && !url.starts_with("https://") => {
                Some(format!("`{url}` must begin with http:// or https://"))
            }
            Ok(_) | Err(_) => Some(format!("`{url}` is not a URL")),
        };
        if let Some(message) = problem {
            spec.fault(place, "bad_value", message, ADDRESS);
            return None;
        }
    }
    secret_source(spec, "address", source)
}

/// `headers`. Names that begin with `reserved` belong to the protocol.
pub(super) fn headers(spec: &Fields<'_>, reserved: &str) -> Vec<(String, EndpointHeader)> {
    let mut headers = Vec::new();
    for NamedValue { name, value } in named_values(spec, "headers") {
        let value = match value {
            ValueSource::QueryParameterRef { name } => EndpointHeader::QueryParameter(name),
            fixed => match secret_source(spec, "headers", fixed) {
                Some(source) => EndpointHeader::Fixed(source),
                None => continue,
            },
        };
        let lower = name.to_ascii_lowercase();
        let problem = if hyper::header::HeaderName::try_from(&lower).is_err() {
            "is not the name of a header"
        } else if is_of_protocol(&lower) || lower.starts_with(reserved) {
            "is a header that belongs to the connection"
        } else {
            headers.push((lower, value));
            continue;
        };
        spec.fault_of("headers", "bad_value", format!("`{name}` {problem}"), "leave it out");
    }
    headers
}

/// A value that is no query's: a literal or a secret.
pub(super) fn secret_source(fields: &Fields<'_>, field: &str, source: ValueSource) -> Option<SecretSource> {
    match source {
        ValueSource::Literal(text) => Some(SecretSource::Literal(Secret::new(text))),
        ValueSource::SecretKeyRef(reference) => Some(SecretSource::Reference(reference)),
        ValueSource::ConfigMapKeyRef(_) | ValueSource::QueryParameterRef { .. } => {
            let message = format!("{} is a reference that a server cannot have", fields.called_field(field));
            let hint = "write `value`, or `valueFrom: {secretKeyRef: …}`; a header may also have a `queryParameterRef`";
            fields.fault_of(field, "unsupported_field", message, hint);
            None
        }
    }
}

/// `confirm`: whether calls of the server's tools wait for approval.
pub(super) fn confirm(spec: &Fields<'_>) -> Option<Confirm> {
    let written = spec.text("confirm")?;
    let confirm = Confirm::parse(written.value);
    if confirm.is_none() {
        let message = format!("there is no policy of approval `{}`", written.value);
        spec.fault(written.place, "bad_value", message, "policies are `never`, `always` and `auto`");
    } else if spec.report().is_of_client() && confirm != Some(Confirm::Always) {
        let message = format!("`confirm` is `{}`: only the operator waives approvals", written.value);
        spec.fault(written.place, "approval_required", message, "write `always`, or leave it out");
    }
    confirm
}

/// A flag by which the operator vouches for a server, such as that its calls may be repeated: only in files.
pub(super) fn operators_word(spec: &Fields<'_>, field: &str) -> bool {
    let is_set = spec.bool(field).unwrap_or_default();
    if is_set {
        refuse_of_client(spec, field);
    }
    is_set
}

/// Reports a field by which only the operator vouches for a server, if a client stores the manifest.
pub(super) fn refuse_of_client(spec: &Fields<'_>, field: &str) {
    if spec.report().is_of_client() {
        let message = format!("`{field}` is the operator's word for a server, and a stored one does not have it");
        spec.fault_of(field, "unsupported_field", message, "leave it out; only a manifest in a file may say so");
    }
}

/// The address, if it is written in the manifest.
pub(super) fn literal_url(address: &SecretSource) -> Option<Url> {
    match address {
        SecretSource::Literal(text) => Url::parse(text.expose()).ok(),
        SecretSource::Reference(_) => None,
    }
}

/// A fault if a manifest of this reach may not call `url`.
pub(super) fn check_address(reach: &SecretReach, field: &str, url: &Url, pool: &Pool) -> Option<Fault> {
    let refused = pool.check_of(url, reach).err()?;
    let message = format!("`{field}`: {refused}");
    Some(Fault::new("", failure_code::ADDRESS_NOT_ALLOWED, message))
}

/// A fault if a manifest of this reach may not send a secret to `url`.
pub(super) async fn check_secret(
    namespace: &Namespace,
    reach: &SecretReach,
    field: &str,
    part: HostPart,
    source: &SecretSource,
    url: &Url,
    secrets: &Secrets,
) -> Option<Fault> {
    let SecretSource::Reference(reference) = source else { return None };
    let to = Destination { url, kept_in: None };
    let error = secrets.permit(namespace, reference, part, to, reach).await.err()?;
    let code = if error.is_refusal() { failure_code::SECRET_NOT_ALLOWED } else { "bad_value" };
    Some(Fault::new("", code, format!("`{field}`: {error}")))
}
