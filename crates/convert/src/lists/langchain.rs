//! LangChain tools as JSON: plain objects with a `schema`, and what `toJSON()` writes.

use serde_json::{Map, Value, json};

use super::{Described, described};
use crate::{
    fields::Fields,
    found::{Found, Origin, Report},
};

pub(super) fn read(mut fields: Fields<'_>, report: &mut Report) -> Option<Found> {
    if let Some(arguments) = fields.take("kwargs") {
        let path = fields.path_of("kwargs");
        // `lc_id` names the class, which every tool of that class shares.
        fields.skip(&["lc", "type", "id", "name"]);
        fields.warn_of_the_rest(report);
        return read(Fields::of(arguments, path, "`kwargs`", report)?, report);
    }
    let described = match fields.take("args") {
        // Python's `tool.args` is the properties alone.
        Some(Value::Object(properties)) => with_properties(&mut fields, properties, report)?,
        _ => described(&mut fields, &["schema", "args_schema", "argsSchema", "parameters"], report)?,
    };
    let lc_name = fields.text("lc_name", report).map(str::to_owned);
    fields.skip(&["lc_namespace", "lc_serializable", "verbose", "func"]);
    fields.warn_of_the_rest(report);
    let mut found = described.external("LangChain runs it");
    found.tool.lc_name = lc_name;
    Some(found)
}

fn with_properties<'a>(
    fields: &mut Fields<'a>,
    properties: &Map<String, Value>,
    report: &mut Report,
) -> Option<Described<'a>> {
    let mut described = described(fields, &["args_schema"], report)?;
    if described.origin.parameters.is_none() {
        // What has a default may be left out; Python marks it so.
        let required: Vec<&String> =
            properties.iter().filter(|(_, schema)| schema.get("default").is_none()).map(|(name, _)| name).collect();
        described.parameters = json!({"type": "object", "properties": properties, "required": required});
        described.origin = Origin { parameters: None, ..described.origin };
        report.warn(
            &fields.path_of("args"),
            "required_assumed",
            "`args` does not say what is required; what has no default is",
        );
    }
    Some(described)
}
