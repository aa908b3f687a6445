//! Config maps: texts that other manifests refer to.

use std::collections::BTreeMap;

use bosun_core::Namespace;

use super::document::{Located, Metadata};
use crate::yaml::Fields;

/// The texts of one config map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMap {
    pub namespace: Namespace,
    pub name: String,
    pub data: BTreeMap<String, String>,
}

pub(super) fn read(metadata: &Metadata, fields: &Fields<'_>) -> Located<ConfigMap> {
    let data = fields.texts("data");
    let data = data.into_iter().map(|(name, value)| (name.value.to_owned(), value.value.to_owned())).collect();
    fields.bool("immutable");
    fields.unserved(&["binaryData"], "only texts are read");
    let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
    metadata.located(fields, ConfigMap { namespace, name, data })
}
