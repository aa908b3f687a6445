//! Security schemes as headers that refer to secrets.

use bosun_core::tool::{NamedValue, SecretRef, ValueSource};
use serde_json::{Map, Value};

use super::{OpenApiDocument, reference};
use crate::{Warning, document::Path, format::clip, found::Report, names::slug};

/// Maximum number of alternatives: no real API has more, and each is examined for each operation.
const MOST_ALTERNATIVES: usize = 16;

/// The headers that authenticate a request.
#[derive(Default)]
pub(super) struct Security {
    pub(super) headers: Vec<NamedValue>,
    /// The required contents of the secrets, and the alternatives that were not chosen.
    pub(super) notes: Vec<Warning>,
}

/// The first of the operation's alternatives that can be expressed as headers; an error if none can.
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
                    let message = format!("of {} ways to be let in, {chosen} is used", alternatives.len());
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
        let (header, holds) = header(scheme, name)?;
        let secret = SecretRef {
            name: slug(&format!("{}-{name}", api.title), "api"),
            key: slug(&header, "header"),
            optional: false,
        };
        let message = format!("the secret `{}`, key `{}`, must hold {holds}", secret.name, secret.key);
        security.notes.push(Warning { path: path.key("security").into(), code: "secret_needed", message });
        security.headers.push(NamedValue { name: header, value: ValueSource::SecretKeyRef(secret) });
    }
    Ok(security)
}

/// The header of a scheme, and a description of its value.
fn header(scheme: &Value, name: &str) -> Result<(String, String), String> {
    let text = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
    let authorization = |holds: &str| Ok(("Authorization".to_owned(), holds.to_owned()));
    match (text("type"), text("in"), text("scheme").to_ascii_lowercase().as_str()) {
        ("apiKey", "header", _) => Ok((text("name").to_owned(), "the key".to_owned())),
        ("apiKey", "cookie", _) => Ok(("Cookie".to_owned(), format!("`{}=` and the key", clip(text("name"))))),
        ("apiKey", "query", _) => Err(format!(
            "the security scheme `{}` puts its key into the query, and a URL cannot refer to secrets",
            clip(name)
        )),
        ("http", _, "bearer") => authorization("`Bearer ` and the token"),
        ("http", _, "basic") => authorization("`Basic ` and user:password in base64"),
        ("oauth2" | "openIdConnect", _, _) => authorization("`Bearer ` and an access token, which is not renewed here"),
        (kind, _, _) => {
            Err(format!("the security scheme `{}` of type `{}` has no counterpart", clip(name), clip(kind)))
        }
    }
}
