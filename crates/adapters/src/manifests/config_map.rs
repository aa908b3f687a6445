//! Config maps: texts that other manifests refer to.

use std::collections::BTreeMap;

use bosun_core::Namespace;
use bosun_reading::Fields;

use super::document::{LocatedManifest, ManifestMetadata};

/// The texts of one config map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMap {
    pub namespace: Namespace,
    pub name: String,
    pub data: BTreeMap<String, String>,
}

pub(super) fn read(metadata: &ManifestMetadata, fields: &Fields<'_>) -> LocatedManifest<ConfigMap> {
    let data = fields.texts("data");
    let data = data.into_iter().map(|(name, value)| (name.to_owned(), value.value.to_owned())).collect();
    fields.bool("immutable");
    fields.unserved(&["binaryData"], "only texts are read");
    let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
    metadata.located(fields, ConfigMap { namespace, name, data })
}
