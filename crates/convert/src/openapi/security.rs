//! Security schemes as headers and query parameters that refer to secrets.

use bosun_core::tool::{NamedValue, SecretRef, ValueSource};
use serde_json::{Map, Value};

use super::{OpenApiDocument, reference};
use crate::{Warning, document::Path, format::clip, found::Report, names::slug};

/// Maximum number of alternatives: no real API has more, and each is examined for each operation.
const MOST_ALTERNATIVES: usize = 16;

/// What authenticates a request.
#[derive(Default)]
pub(super) struct Security {
    pub(super) headers: Vec<NamedValue>,
    /// Parameters of the request that a query parameter refers to, by the name of the latter.
    pub(super) query: Vec<(String, NamedValue)>,
    /// The required contents of the secrets, and the alternatives that were not chosen.
    pub(super) notes: Vec<Warning>,
}

/// The first of the operation's alternatives that can be expressed; an error if none can.
pub(super) fn read(api: &OpenApiDocument<'_>, operation: &Map<String, Value>, path: &Path) -> Result<Security, String> {
    let alternatives = operation.get("security").or_else(|| api.root.get("security"));
    let Some(alternatives) = alternatives.and_then(Value::as_array).filter(|list| !list.is_empty()) else {
        return Ok(Security::default());
    };
    let mut reasons: Vec<String> = Vec::new();
    for alternative in alternatives.iter().filter_map(Value::as_object).take(MOST_ALTERNATIVES) {
        match all_of(api, alternative, path) {
            Ok(mut security) => {
                if alternatives.len() > 1 && !alternative.is_empty() {
                    let chosen =
                        alternative.keys().map(|name| format!("`{}`", clip(name))).collect::<Vec<_>>().join(" and ");
                    let message = format!("of {} security alternatives, {chosen} is used", alternatives.len());
                    security.notes.push(Warning {
                        path: path.key("security").into(),
                        code: "security_chosen",
                        message,
                    });
                }
                return Ok(security);
            }
            Err(reason) if !reasons.contains(&reason) => reasons.push(reason),
            Err(_) => {}
        }
    }
    Err(reasons.join("; "))
}

/// Schemes that are all required at once.
fn all_of(api: &OpenApiDocument<'_>, schemes: &Map<String, Value>, path: &Path) -> Result<Security, String> {
    let mut security = Security::default();
    if schemes.len() > MOST_ALTERNATIVES {
        return Err(format!("it needs {} credentials at once", schemes.len()));
    }
    for name in schemes.keys() {
        let scheme = api.root.pointer("/components/securitySchemes").and_then(|schemes| schemes.get(name));
        let scheme = scheme.and_then(|scheme| reference::follow(api.root, scheme, path, &Report::of_conversion()));
        let Some(scheme) = scheme else { return Err(format!("there is no security scheme `{}`", clip(name))) };
        let (target, holds) = target(scheme, name)?;
        let (SecurityTarget::Header(parameter) | SecurityTarget::Query(parameter)) = &target;
        // Several flows of one API have schemes of their own, and one token satisfies them all.
        let is_filled = match &target {
            SecurityTarget::Header(header) => {
                security.headers.iter().any(|known| known.name.eq_ignore_ascii_case(header))
            }
            SecurityTarget::Query(parameter) => security.query.iter().any(|(known, _)| known == parameter),
        };
        if is_filled {
            continue;
        }
        let secret = SecretRef {
            name: slug(&format!("{}-{name}", api.title), "api"),
            key: slug(parameter, "key"),
            optional: false,
        };
        let message = format!("the secret `{}`, key `{}`, must hold {holds}", secret.name, secret.key);
        security.notes.push(Warning { path: path.key("security").into(), code: "secret_needed", message });
        let name = slug(parameter, "key");
        let value = ValueSource::SecretKeyRef(secret);
        match target {
            SecurityTarget::Header(header) => security.headers.push(NamedValue { name: header, value }),
            SecurityTarget::Query(parameter) => security.query.push((parameter, NamedValue { name, value })),
        }
    }
    Ok(security)
}

/// The part of a request that a scheme fills.
enum SecurityTarget {
    Header(String),
    Query(String),
}

/// The part of a request that a scheme fills, and a description of its value.
fn target(scheme: &Value, name: &str) -> Result<(SecurityTarget, String), String> {
    let text = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
    let authorization = |holds: &str| Ok((SecurityTarget::Header("Authorization".to_owned()), holds.to_owned()));
    match (text("type"), text("in"), text("scheme").to_ascii_lowercase().as_str()) {
        ("apiKey", "header", _) => Ok((SecurityTarget::Header(text("name").to_owned()), "the key".to_owned())),
        ("apiKey", "cookie", _) => {
            Ok((SecurityTarget::Header("Cookie".to_owned()), format!("`{}=` and the key", clip(text("name")))))
        }
        ("apiKey", "query", _) => Ok((SecurityTarget::Query(text("name").to_owned()), "the key".to_owned())),
        ("http", _, "bearer") => authorization("`Bearer ` and the token"),
        ("http", _, "basic") => authorization("`Basic ` and user:password in base64"),
        ("oauth2" | "openIdConnect", _, _) => authorization("`Bearer ` and an access token, which is not renewed here"),
        (kind, _, _) => {
            Err(format!("the security scheme `{}` of type `{}` has no counterpart", clip(name), clip(kind)))
        }
    }
}
