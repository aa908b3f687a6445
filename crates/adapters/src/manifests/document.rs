//! What all kinds of documents have in common: `apiVersion`, `kind` and `metadata`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use bosun_core::{Namespace, QueryName};

use super::API_VERSION;
use crate::{
    fault::{Fault, Place},
    yaml::{Fields, Node, Reading},
};

/// A value and the document that describes it.
#[derive(Debug)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) file: PathBuf,
    /// Where the document gives its name.
    pub(super) place: Place,
}

/// The kinds of documents that this version serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document {
    Agent,
    Model,
    Tool,
}

impl Document {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "Agent",
            Self::Model => "Model",
            Self::Tool => "Tool",
        }
    }
}

pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: Namespace,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    /// Where the values of the annotations stand.
    pub(super) annotation_places: BTreeMap<String, Place>,
    /// Where the name stands.
    pub(super) place: Place,
}

impl Metadata {
    pub(super) fn located<T>(&self, fields: &Fields<'_>, value: T) -> Located<T> {
        Located { value, file: fields.reading().file().to_owned(), place: self.place }
    }
}

const SERVED: &str = "this version serves the kinds Agent, Model and Tool";
const WRITTEN_BY_CLUSTER: &str = "a cluster writes it; delete it from the file";

/// Reads the head of a document, hands it with the document's fields to `read`, and gives back the
/// faults of both.
pub(super) fn read(file: &Path, node: &Node, read: impl FnOnce(Document, Metadata, &Fields<'_>)) -> Vec<Fault> {
    let reading = Reading::new(file);
    if let Some(mut fields) = reading.fields(node, "the document")
        && let Some(kind) = kind(&fields)
    {
        fields.rename(kind.as_str());
        if let Some(metadata) = metadata(kind, &mut fields) {
            read(kind, metadata, &fields);
            fields.unserved(&["status"], WRITTEN_BY_CLUSTER);
            fields.finish();
        }
    }
    reading.into_faults()
}

fn kind(fields: &Fields<'_>) -> Option<Document> {
    let version = fields.required_text("apiVersion", &format!("write `apiVersion: {API_VERSION}`"));
    let kind = fields.required_text("kind", SERVED)?;
    if let Some(version) = version.filter(|version| version.value != API_VERSION) {
        let message = format!("`apiVersion` is `{}`, and this version reads `{API_VERSION}`", version.value);
        fields.fault(version.place, "unsupported_kind", message, SERVED);
        return None;
    }
    let served = [Document::Agent, Document::Model, Document::Tool];
    let found = served.into_iter().find(|served| served.as_str() == kind.value);
    if found.is_none() {
        let message = format!("kind `{}` is not served by this version", kind.value);
        fields.fault(kind.place, "unsupported_kind", message, SERVED);
    }
    found
}

fn metadata(kind: Document, fields: &mut Fields<'_>) -> Option<Metadata> {
    let metadata = fields.required_fields("metadata", "write `metadata: {name: …}`")?;
    let name = metadata.required_text("name", "every document needs a name")?;
    fields.rename(&format!("{} `{}`", kind.as_str(), name.value));
    // Kubernetes, and therefore ARK, spell all names the way we spell a query's.
    if let Err(error) = name.value.parse::<QueryName>() {
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
    Some(Metadata {
        name: name.value.to_owned(),
        namespace,
        labels: labels.iter().map(|(name, value)| (name.value.to_owned(), value.value.to_owned())).collect(),
        annotation_places: annotations.iter().map(|(name, value)| (name.value.to_owned(), value.place)).collect(),
        annotations: annotations.iter().map(|(name, value)| (name.value.to_owned(), value.value.to_owned())).collect(),
        place: name.place,
    })
}
