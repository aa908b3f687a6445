//! What all kinds of documents have in common: `apiVersion`, `kind` and `metadata`.

use std::{collections::BTreeMap, path::PathBuf};

use bosun_core::{Namespace, QueryName, tool::name::fits_model};
use bosun_engine::resource::{Manifest, ManifestBody, ResourceKey};
use bosun_reading::{Fields, Node, Report, SourcePlace, spec};
use serde_json::{Map, Value, json};

use super::API_VERSION;

/// The kinds of documents.
pub(super) use bosun_engine::resource::ResourceKind as Document;

/// The kinds that a file may contain and a client may store.
const SERVED_KINDS: &[Document] = &[
    Document::Agent,
    Document::Model,
    Document::Tool,
    Document::Memory,
    Document::Team,
    Document::Evaluator,
    Document::McpServer,
    Document::A2aServer,
    Document::ConfigMap,
];

/// A value and the document that describes it.
#[derive(Debug)]
pub(super) struct LocatedManifest<T> {
    pub(super) value: T,
    pub(super) file: PathBuf,
    /// Where the document gives its name.
    pub(super) place: SourcePlace,
}

impl<T> LocatedManifest<T> {
    /// Another value from the same document.
    pub(super) fn map<U>(&self, map: impl FnOnce(&T) -> U) -> LocatedManifest<U> {
        LocatedManifest { value: map(&self.value), file: self.file.clone(), place: self.place }
    }
}

pub(super) struct ManifestMetadata {
    pub(super) name: String,
    pub(super) namespace: Namespace,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    /// The places of the annotations' values.
    pub(super) annotation_places: BTreeMap<String, SourcePlace>,
    /// The place of the name.
    pub(super) place: SourcePlace,
}

impl ManifestMetadata {
    pub(super) fn located<T>(&self, fields: &Fields<'_>, value: T) -> LocatedManifest<T> {
        LocatedManifest { value, file: fields.report().file().to_owned(), place: self.place }
    }
}

const SERVED: &str =
    "this version serves the kinds Agent, Model, Tool, Memory, Team, Evaluator, MCPServer, A2AServer and ConfigMap";
const WRITTEN_BY_CLUSTER: &str = "a cluster writes it; delete it from the file";

/// Reads the metadata of a document and passes it, with the document's fields, to `read`.
pub(super) fn read(report: &Report, node: &Node, read: impl FnOnce(Document, ManifestMetadata, &Fields<'_>)) {
    if let Some(mut fields) = report.fields(node, "the document").map(|fields| fields.with_table(spec::DOCUMENT))
        && let Some(kind) = kind(&fields)
    {
        fields.rename(kind.as_str());
        if let Some(metadata) = metadata(kind, &mut fields) {
            read(kind, metadata, &fields);
            fields.unserved(&["status"], WRITTEN_BY_CLUSTER);
            fields.finish();
        }
    }
}

fn kind(fields: &Fields<'_>) -> Option<Document> {
    let version = fields.required_text("apiVersion", &format!("write `apiVersion: {API_VERSION}`"));
    let kind = fields.required_text("kind", SERVED)?;
    let Some(found) = SERVED_KINDS.iter().copied().find(|served| served.as_str() == kind.value) else {
        let message = format!("kind `{}` is not served by this version", kind.value);
        fields.fault(kind.place, "unsupported_kind", message, instead_of(kind.value));
        return None;
    };
    let expected = found.api_version();
    if let Some(version) = version.filter(|version| version.value != expected) {
        let message = format!("`apiVersion` is `{}`, and this version reads `{expected}`", version.value);
        fields.fault(version.place, "unsupported_kind", message, SERVED);
        return None;
    }
    Some(found)
}

/// The hint for a kind that ARK or Kubernetes has and this version does not read.
fn instead_of(kind: &str) -> &'static str {
    match kind {
        "Secret" => "secrets are never read from manifests: put the value into the directory of secrets",
        "Query" => "queries are created with `POST /v1/queries`",
        "Namespace" => "a namespace exists as soon as it has a resource; `POST /v1/namespaces` creates an empty one",
        _ => SERVED,
    }
}

/// A manifest as the document that would describe it in a file.
pub(super) fn of_manifest(manifest: &Manifest) -> Node {
    let Manifest { key: ResourceKey { kind, namespace, name }, description } = manifest;
    let ManifestBody { labels, annotations, spec } = description;
    let mut document = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.as_str(),
        "metadata": {"name": name, "namespace": namespace.as_str(), "labels": labels, "annotations": annotations},
    });
    match (kind, &mut document) {
        (Document::ConfigMap, Value::Object(document)) => {
            document.extend(spec.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        _ => document["spec"] = Value::Object(spec.clone()),
    }
    Node::from(&document)
}

/// The manifest of a document.
pub(super) fn to_manifest(kind: Document, metadata: &ManifestMetadata, document: &Node) -> Manifest {
    let content = match kind {
        Document::ConfigMap => document.at(&["data"]).map(|data| json!({"data": data.to_json()})),
        _ => document.at(&["spec"]).map(Node::to_json),
    };
    let spec = match content {
        Some(Value::Object(spec)) => spec,
        _ => Map::new(),
    };
    Manifest {
        key: ResourceKey::new(kind, metadata.namespace.clone(), metadata.name.clone()),
        description: ManifestBody { labels: metadata.labels.clone(), annotations: metadata.annotations.clone(), spec },
    }
}

fn metadata(kind: Document, fields: &mut Fields<'_>) -> Option<ManifestMetadata> {
    let metadata = fields.required_fields("metadata", "write `metadata: {name: …}`")?.with_table(spec::METADATA);
    let name = metadata.required_text("name", "every document needs a name")?;
    fields.rename(&format!("{} `{}`", kind.as_str(), name.value));
    // Kubernetes, and therefore ARK, uses the syntax of our query names for all names. A tool may also have a name that
    // models know it by, such as `send_email` in a tool-config.
    let is_known_to_models = kind == Document::Tool && fits_model(name.value);
    if let Err(error) = name.value.parse::<QueryName>()
        && !is_known_to_models
    {
        fields.fault(name.place, "bad_value", error.to_string(), "");
    }
    let namespace = metadata.text("namespace").map(|text| (text.place, text.value.parse::<Namespace>()));
    let namespace = match namespace {
        None => Namespace::default(),
        Some((_, Ok(namespace))) => namespace,
        Some((place, Err(error))) => {
            fields.fault(place, "bad_value", error.to_string(), "");
            return None;
        }
    };
    let annotations = metadata.texts("annotations");
    let labels = metadata.texts("labels");
    let by_cluster =
        ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences", "finalizers"];
    metadata.unserved(&by_cluster, WRITTEN_BY_CLUSTER);
    metadata.finish();
    Some(ManifestMetadata {
        name: name.value.to_owned(),
        namespace,
        labels: labels.iter().map(|(name, value)| ((*name).to_owned(), value.value.to_owned())).collect(),
        annotation_places: annotations.iter().map(|(name, value)| ((*name).to_owned(), value.place)).collect(),
        annotations: annotations.iter().map(|(name, value)| ((*name).to_owned(), value.value.to_owned())).collect(),
        place: name.place,
    })
}
