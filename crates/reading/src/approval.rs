//! ARK's `approval`: whether a person has to approve the calls of a tool.

use bosun_core::tool::ToolApproval;

use crate::{Fields, Tree, spec};

/// Reads the field `approval` of a tool, or of an agent's entry for one.
pub fn read<'n, T: Tree>(owner: &Fields<'n, &'n T>) -> Option<ToolApproval> {
    let fields = owner.fields("approval")?.with_table(spec::APPROVAL);
    fields.require("required", "write `approval: {required: true}`");
    let required = fields.bool("required");
    let timeout = fields.positive_duration("timeout");
    if let Some(written) = fields.text("onTimeout").filter(|written| written.value != "reject") {
        let message = format!("`{}` is not served: a call that no person has approved is never run", written.value);
        fields.fault_of("onTimeout", "unsupported_field", message, "write `reject`, or leave it out");
    }
    fields.finish();
    Some(ToolApproval { required: required?, timeout })
}
