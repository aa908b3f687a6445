//! Resources as Kubernetes has them: `/v1/resources/api/{version}/{kind}` and
//! `/v1/resources/apis/{group}/{version}/{kind}`.
//!
//! The kind is its name or its plural, in any case. Whoever accepts YAML gets YAML.

use std::fmt::Debug;

use axum::{
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use bosun_engine::{
    Registry,
    resource::{Kind, Origin, Resource},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{body, find, show, wire, yaml};
use crate::{
    App,
    ark::{options::Options, routes::with_warnings},
    http::{
        answer::Json,
        error::{ApiError, Code, clip},
        extract::JsonBody,
    },
};

const YAML: &str = "application/yaml";

/// The kind that a path names.
#[derive(Debug, Deserialize)]
pub(in crate::ark) struct KindPath {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

impl KindPath {
    fn read(&self) -> Result<Kind, ApiError> {
        let version =
            if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) };
        let word = self.kind.to_ascii_lowercase();
        let is_meant = |kind: &Kind| {
            let (name, plural) = (kind.as_str().to_ascii_lowercase(), kind.plural().replace('-', ""));
            *kind != Kind::Namespace && kind.api_version() == version && (name == word || plural == word)
        };
        Kind::ALL.iter().copied().find(is_meant).ok_or_else(|| {
            let message = format!("kind '{}' of '{}' is not served here", clip(&self.kind), clip(&version));
            ApiError::new(Code::ResourceNotFound, message)
        })
    }
}

/// `GET …/resources/…/{kind}`
pub(in crate::ark) async fn list_raw(
    State(app): State<App>,
    Path(path): Path<KindPath>,
    options: Options,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let kind = path.read()?;
    let registry = app.engine.registry();
    let items = registry.resources(kind, &options.namespace());
    let list = wire::RawList {
        api_version: kind.api_version(),
        kind: format!("{}List", kind.as_str()),
        metadata: Map::new(),
        items: items.iter().map(|resource| raw(&registry, resource)).collect(),
    };
    Ok(with_warnings(in_wanted_form(&headers, list), &options.warnings))
}

/// `GET …/resources/…/{kind}/{name}`
pub(in crate::ark) async fn get_raw(
    State(app): State<App>,
    Path(path): Path<KindPath>,
    options: Options,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let registry = app.engine.registry();
    let resource = find(&registry, path.read()?, &options.namespace(), &options.name)?;
    Ok(with_warnings(in_wanted_form(&headers, raw(&registry, &resource)), &options.warnings))
}

/// `POST …/resources/…/{kind}`
pub(in crate::ark) async fn create_raw(
    State(app): State<App>,
    Path(path): Path<KindPath>,
    options: Options,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let body::Read { value, mut warnings } = body::create(path.read()?, &options, body)?;
    let changed = app.engine.create_resource(options.actor().clone(), value).await?;
    warnings.extend(changed.warnings);
    Ok(with_warnings(in_wanted_form(&headers, raw(&changed.registry, &changed.resource)), &warnings))
}

fn raw(registry: &Registry, resource: &Resource) -> wire::Raw {
    let (key, description) = (&resource.manifest.key, &resource.manifest.description);
    let content = match key.kind {
        Kind::ConfigMap => show::spec(resource),
        _ => Map::from_iter([("spec".to_owned(), Value::Object(show::spec(resource)))]),
    };
    let (generation, creation_timestamp) = match &resource.origin {
        Origin::Stored { generation, created_at, .. } => (Some(*generation), Some(created_at.to_rfc3339())),
        Origin::File(_) | Origin::Builtin => (None, None),
    };
    wire::Raw {
        api_version: key.kind.api_version(),
        kind: key.kind.as_str(),
        metadata: wire::RawMetadata {
            name: key.name.clone(),
            namespace: key.namespace.to_string(),
            labels: description.labels.clone(),
            annotations: description.annotations.clone(),
            generation,
            creation_timestamp,
        },
        content,
        status: show::status(registry, resource),
    }
}

/// YAML for whoever asks for it and not for JSON.
fn in_wanted_form(headers: &HeaderMap, answer: impl Serialize + Debug) -> Response {
    let accepts = |media_type: &str| {
        let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|range| range.trim().to_ascii_lowercase().starts_with(media_type))
    };
    if !accepts(YAML) || accepts("application/json") {
        return Json(answer).into_response();
    }
    match serde_json::to_value(&answer) {
        Ok(value) => {
            let media_type = [(header::CONTENT_TYPE, HeaderValue::from_static(YAML))];
            (media_type, yaml::write(&value)).into_response()
        }
        Err(_) => Json(answer).into_response(),
    }
}
