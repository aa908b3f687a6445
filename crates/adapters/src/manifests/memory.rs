//! Memories: where conversations are kept, and the window of one that a query sees.
//!
//! ARK's Memory is the address of a service. Here it is part of the server, so there is no address, and
//! its fields are those that ARK's clients look for: `type` and `maxMessages`.

use bosun_engine::registry::{DescribedMemory, MemoryWindow};
use bosun_reading::{
    Fields,
    spec::{self, LARGEST_WINDOW},
};

use super::document::{LocatedManifest, ManifestMetadata};

pub(super) fn read(metadata: &ManifestMetadata, fields: &Fields<'_>) -> Option<LocatedManifest<DescribedMemory>> {
    let mut memory = DescribedMemory {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        description: None,
        window: MemoryWindow::default(),
    };
    if let Some(spec) = fields.fields("spec") {
        let spec = spec.with_table(spec::MEMORY);
        memory.description = spec.text("description").map(|text| text.value.to_owned());
        if let Some(kind) = spec.text("type").filter(|kind| kind.value != "buffer") {
            let message = format!("memories of type `{}` are not served by this version", kind.value);
            spec.fault(kind.place, "unsupported_kind", message, "write `type: buffer`, or leave it out");
        }
        let size = |name: &'static str| {
            let size = spec.whole_number(name)?;
            if !(1..=LARGEST_WINDOW).contains(&size) {
                let message = format!("{} is {size}", spec.called_field(name));
                spec.fault(
                    spec.get(name)?.place,
                    "bad_value",
                    message,
                    format!("write a number from 1 to {LARGEST_WINDOW}"),
                );
            }
            u32::try_from(size).ok()
        };
        memory.window = match (size("maxMessages"), size("maxTokens")) {
            (Some(_), Some(_)) => {
                let message = format!("{} has both `maxMessages` and `maxTokens`", spec.called());
                spec.fault(spec.place(), "bad_value", message, "leave one of them out");
                MemoryWindow::default()
            }
            (Some(messages), None) => MemoryWindow::Messages(messages),
            (None, Some(tokens)) => MemoryWindow::Tokens(tokens),
            (None, None) => MemoryWindow::default(),
        };
        spec.unserved(&["address", "config"], "memory is part of this server; leave it out");
        spec.finish();
    }
    Some(metadata.located(fields, memory))
}
