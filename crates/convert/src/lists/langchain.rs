//! LangChain tools as JSON: plain objects with a `schema`, and what `toJSON()` writes.

use serde_json::{Map, Value, json};

use super::{Described, described};
use crate::{
    fields::{Fields, text},
    found::{Found, Report, ToolOrigin},
};

pub(super) fn read(fields: Fields<'_>, report: &Report) -> Option<Found> {
    if let Some(arguments) = fields.get("kwargs") {
        let path = fields.path_of("kwargs");
        // `lc_id` names the class, which every tool of that class shares.
        fields.ignore(&["lc", "type", "id", "name"]);
        fields.drop_unknown();
        return read(report.fields_at(arguments, path, "`kwargs`")?, report);
    }
    let described = match fields.get("args") {
        // Python's `tool.args` is the properties alone.
        Some(Value::Object(properties)) => with_properties(&fields, properties, report)?,
        _ => described(&fields, &["schema", "args_schema", "argsSchema", "parameters"], report)?,
    };
    let lc_name = text(&fields, "lc_name").map(str::to_owned);
    fields.ignore(&["lc_namespace", "lc_serializable", "verbose", "func"]);
    fields.drop_unknown();
    let mut found = described.external("LangChain runs it");
    found.tool.lc_name = lc_name;
    Some(found)
}

fn with_properties<'a>(fields: &Fields<'a>, properties: &Map<String, Value>, report: &Report) -> Option<Described<'a>> {
    let mut described = described(fields, &["args_schema"], report)?;
    if described.origin.parameters.is_none() {
        // A member with a default is optional; Python marks it so.
        let required: Vec<&String> =
            properties.iter().filter(|(_, schema)| schema.get("default").is_none()).map(|(name, _)| name).collect();
        described.parameters = json!({"type": "object", "properties": properties, "required": required});
        described.origin = ToolOrigin { parameters: None, ..described.origin };
        report.warn(
            &fields.path_of("args"),
            "required_assumed",
            "`args` does not say what is required; parameters without a default are assumed to be",
        );
    }
    Some(described)
}
