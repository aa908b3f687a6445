//! Resources as Kubernetes has them: `/v1/resources/api/{version}/{kind}` and
//! `/v1/resources/apis/{group}/{version}/{kind}`.
//!
//! The kind is its name or its plural, in any case. A client that accepts YAML gets YAML. Queries can be read here as
//! the custom resources that they are in ARK; creating one has a route of its own.

use std::fmt::Debug;

use axum::{
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bosun_core::{Head, Namespace, query::Spec};
use bosun_engine::{
    Registry,
    resource::{ChangedResource, Resource, ResourceKey, ResourceKind, ResourceOrigin},
    store,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ResourcePage, body, find, page, show, wire, yaml};
use crate::{
    AppState,
    ark::{
        answering::convert,
        handlers::namespaces,
        params::{
            KubernetesToken, Paging, Params, StateFilter,
            path::{QueryPath, ResourcePath},
        },
    },
    asking::list,
    auth::gate::{Caller, RequestNamespace},
    http::{
        answer::Json,
        error::{ApiError, Code, clip, internal},
        extract::JsonBody,
        warning::with_warnings,
    },
};

const YAML: &str = "application/yaml";
/// The kind that is not a resource: a query is submitted, and not described by a manifest.
const QUERY: &str = "Query";
const QUERIES: &str = "queries";
const QUERY_VERSION: &str = "ark.mckinsey.com/v1alpha1";

/// The kind that a path names.
#[derive(Debug, Deserialize)]
pub(in crate::ark) struct KindPath {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

/// Pages of resources or queries as Kubernetes has them.
pub(crate) type RawListParams = (Paging<KubernetesToken>, StateFilter);

/// What a path names.
#[derive(Clone, Copy, Debug)]
enum RawKind {
    Resources(ResourceKind),
    Queries,
}

impl KindPath {
    fn read(&self) -> Result<RawKind, ApiError> {
        let version =
            if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) };
        let word = self.kind.to_ascii_lowercase();
        if version == QUERY_VERSION && (word == QUERIES || word.eq_ignore_ascii_case(QUERY)) {
            return Ok(RawKind::Queries);
        }
        let is_meant = |kind: &ResourceKind| {
            let (name, plural) = (kind.as_str().to_ascii_lowercase(), kind.plural().replace('-', ""));
            *kind != ResourceKind::Namespace && kind.api_version() == version && (name == word || plural == word)
        };
        let kind = ResourceKind::ALL.iter().copied().find(is_meant).ok_or_else(|| {
            let message = format!("kind '{}' of '{}' is not served here", clip(&self.kind), clip(&version));
            ApiError::new(Code::ResourceNotFound, message)
        })?;
        Ok(RawKind::Resources(kind))
    }

    /// The kind of what can be written under a path. A query has rights, waiting and streams of its own, so it
    /// is not written here.
    fn written(&self) -> Result<ResourceKind, ApiError> {
        match self.read()? {
            RawKind::Resources(kind) => Ok(kind),
            RawKind::Queries => {
                let message = "queries are only read here; they are asked, cancelled and deleted at `…/queries`";
                Err(ApiError::new(Code::InvalidResource, message))
            }
        }
    }
}

/// `GET …/resources/…/{kind}`
pub(in crate::ark) async fn list_raw(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { given: (paging, filter), warnings }: Params<RawListParams>,
    Path(path): Path<KindPath>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let kind = path.read()?;
    namespaces::require(&app, &caller, &namespace).await?;
    let list = match kind {
        RawKind::Resources(kind) => list_resources(&app.engine.registry(), kind, &namespace, &paging),
        RawKind::Queries => list_queries(&app, &namespace, &paging, filter).await?,
    };
    Ok(with_warnings(in_wanted_form(&headers, list), &warnings))
}

fn list_resources(
    registry: &Registry,
    kind: ResourceKind,
    namespace: &Namespace,
    paging: &Paging<KubernetesToken>,
) -> wire::RawList {
    let ResourcePage { resources, continue_token, remaining, .. } = page(registry.resources(kind, namespace), paging);
    wire::RawList {
        api_version: kind.api_version(),
        kind: format!("{}List", kind.as_str()),
        metadata: wire::RawListMetadata { continue_token, remaining_item_count: remaining },
        items: resources.iter().map(|resource| raw(registry, resource)).collect(),
    }
}

async fn list_queries(
    app: &AppState,
    namespace: &Namespace,
    paging: &Paging<KubernetesToken>,
    filter: StateFilter,
) -> Result<wire::RawList, ApiError> {
    let page = store::QueryPage {
        limit: paging.limit(),
        before: paging.before()?,
        status: filter.state,
        ..store::QueryPage::default()
    };
    let listed = app.engine.list(namespace, &page).await?;
    let continue_token = listed.next.map(|uid| uid.to_string());
    let mut items = Vec::with_capacity(listed.queries.len());
    for (head, entries) in &listed.queries {
        if let Some(transcript) = list::beginning_and_end(entries) {
            let status = wire::RawStatus::Query(Box::new(convert::listed_status(head, &transcript)));
            items.push(raw_query(head, &transcript.spec, status)?);
        }
    }
    Ok(wire::RawList {
        api_version: QUERY_VERSION,
        kind: format!("{QUERY}List"),
        metadata: wire::RawListMetadata { continue_token, remaining_item_count: None },
        items,
    })
}

/// `GET …/resources/…/{kind}/{name}`
pub(in crate::ark) async fn get_raw(
    State(app): State<AppState>,
    Params { warnings, .. }: Params,
    Path(kind): Path<KindPath>,
    path: ResourcePath,
    query: QueryPath,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = match kind.read()? {
        RawKind::Resources(kind) => {
            let registry = app.engine.registry();
            let resource = find(&registry, kind, &path)?;
            raw(&registry, &resource)
        }
        RawKind::Queries => {
            let snapshot = app.engine.get(&query.key()?, None).await?;
            let (head, transcript) = (&*snapshot.head, &*snapshot.transcript);
            let status = wire::RawStatus::Query(Box::new(convert::ark_status(head, transcript)));
            raw_query(head, &transcript.spec, status)?
        }
    };
    Ok(with_warnings(in_wanted_form(&headers, found), &warnings))
}

/// `POST …/resources/…/{kind}`
pub(in crate::ark) async fn create_raw(
    State(app): State<AppState>,
    caller: Caller,
    namespace: RequestNamespace,
    Params { warnings, .. }: Params,
    Path(path): Path<KindPath>,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let kind = path.written()?;
    let read = body.read(|body| body::create(kind, &namespace, warnings, body))?;
    let changed = app.engine.create_resource(caller.actor, read.value).await?;
    Ok(changed_answer(&headers, changed, read.warnings))
}

/// `PUT …/resources/…/{kind}/{name}`: the whole object, as in Kubernetes; absent fields are removed.
pub(in crate::ark) async fn replace_raw(
    State(app): State<AppState>,
    caller: Caller,
    Params { warnings, .. }: Params,
    Path(kind): Path<KindPath>,
    ResourcePath { namespace, name }: ResourcePath,
    headers: HeaderMap,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let key = ResourceKey::new(kind.written()?, namespace, name);
    let read = body.read(|body| body::replace(key, warnings, body))?;
    let changed = app.engine.replace_resource(caller.actor, read.value).await?;
    Ok(changed_answer(&headers, changed, read.warnings))
}

fn changed_answer(headers: &HeaderMap, changed: ChangedResource, mut warnings: Vec<String>) -> Response {
    warnings.extend(changed.warnings);
    with_warnings(in_wanted_form(headers, raw(&changed.registry, &changed.resource)), &warnings)
}

/// `DELETE …/resources/…/{kind}/{name}`
pub(in crate::ark) async fn delete_raw(
    State(app): State<AppState>,
    caller: Caller,
    Params { warnings, .. }: Params,
    Path(kind): Path<KindPath>,
    ResourcePath { namespace, name }: ResourcePath,
) -> Result<Response, ApiError> {
    let key = ResourceKey::new(kind.written()?, namespace, name);
    app.engine.delete_resource(caller.actor, key).await?;
    Ok(with_warnings(StatusCode::NO_CONTENT, &warnings))
}

fn raw(registry: &Registry, resource: &Resource) -> wire::Raw {
    let (key, description) = (&resource.manifest.key, &resource.manifest.description);
    let (content, status) = match key.kind {
        ResourceKind::ConfigMap => (show::spec(resource), None),
        _ => (
            Map::from_iter([("spec".to_owned(), Value::Object(show::spec(resource)))]),
            Some(wire::RawStatus::Resource(show::status(registry, resource))),
        ),
    };
    let (generation, creation_timestamp) = match &resource.origin {
        ResourceOrigin::Stored { generation, created_at, .. } => (Some(*generation), Some(created_at.to_rfc3339())),
        ResourceOrigin::File(_)
        | ResourceOrigin::Url(_)
        | ResourceOrigin::Builtin
        | ResourceOrigin::Announced { .. } => (None, None),
    };
    wire::Raw {
        api_version: key.kind.api_version(),
        kind: key.kind.as_str(),
        metadata: wire::RawMetadata {
            name: key.name.clone(),
            namespace: key.namespace.to_string(),
            uid: None,
            labels: description.labels.clone(),
            annotations: description.annotations.clone(),
            generation,
            creation_timestamp,
        },
        content,
        status,
    }
}

/// A query as the custom resource that it is in ARK.
fn raw_query(head: &Head, spec: &Spec, status: wire::RawStatus) -> Result<wire::Raw, ApiError> {
    let mut asked = serde_json::to_value(convert::query_spec(head, spec)).map_err(|_| internal())?;
    // In an object of Kubernetes, a field that is not set is absent.
    if let Value::Object(fields) = &mut asked {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(wire::Raw {
        api_version: QUERY_VERSION,
        kind: QUERY,
        metadata: wire::RawMetadata {
            name: head.name.to_string(),
            namespace: head.namespace.to_string(),
            uid: Some(head.uid.to_string()),
            labels: head.labels(spec).clone(),
            annotations: head.annotations(spec).clone(),
            generation: None,
            creation_timestamp: Some(head.created_at.to_rfc3339()),
        },
        content: Map::from_iter([("spec".to_owned(), asked)]),
        status: Some(status),
    })
}

/// YAML for clients that accept it and not JSON.
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
