//! MCP servers: where they are, and how to speak to them.
//!
//! They are read and checked, so that files that hold them can be used. This version does not connect.

use bosun_reading::{Data, Fields, named_values, spec, value_source};

use super::{
    document::{Document, LocatedManifest, ManifestMetadata},
    reference::Referrer,
};

const ADDRESS: &str = "write `address: {value: https://…}`";

pub(super) fn read(metadata: &ManifestMetadata, fields: &Fields<'_>) -> Option<LocatedManifest<Referrer>> {
    let spec = fields.required_fields("spec", "an MCP server has at least an `address`")?;
    let spec = spec.with_table(spec::MCP_SERVER);
    if let Some(node) = spec.require("address", ADDRESS) {
        match &node.data {
            Data::Map(_) => {
                if let Some(address) = spec.fields("address") {
                    let address = address.with_table(spec::VALUE_SOURCE);
                    let read = value_source(&address);
                    address.finish();
                    if let Some((bosun_core::tool::ValueSource::Literal(url), place)) = read
                        && !url.starts_with("http://")
                        && !url.starts_with("https://")
                    {
                        let message = format!("`{url}` must begin with http:// or https://");
                        spec.fault(place, "bad_value", message, ADDRESS);
                    }
                }
            }
            _ => spec.wrong_field("address", node, "a mapping", ADDRESS),
        }
    }
    if let Some(transport) = spec.text("transport").filter(|text| !spec::TRANSPORTS.contains(&text.value)) {
        let message = format!("there is no transport `{}`", transport.value);
        spec.fault(transport.place, "bad_value", message, "transports are `http`, which is the newer one, and `sse`");
    }
    named_values(&spec, "headers");
    spec.positive_duration("timeout");
    spec.positive_duration("pollInterval");
    spec.text("description");
    spec.unserved(&["authorization"], "write the header that the server wants into `headers`");
    spec.finish();
    let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
    Some(metadata.located(fields, Referrer { kind: Document::McpServer, namespace, name, references: Vec::new() }))
}
