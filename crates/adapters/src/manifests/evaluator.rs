//! Evaluators: which model judges answers, and with which parameters.
//!
//! ARK's Evaluator is the address of a service. Here the engine asks the model itself, so an address has no effect; what
//! counts are the parameters, of which `model.name` names the model. The judge decides which parameters there are:
//! an unknown one is a warning of each evaluation.

use bosun_reading::{Fields, Text, spec};

use super::{
    agent::DEFAULT_MODEL,
    document::{Document, LocatedManifest, ManifestMetadata},
    reference::{Reference, Referrer},
};

/// The parameter that names the model.
pub(super) const MODEL: &str = "model.name";

pub(super) fn read(metadata: &ManifestMetadata, fields: &Fields<'_>) -> Option<LocatedManifest<Referrer>> {
    let mut model = None;
    if let Some(spec) = fields.fields("spec") {
        let spec = spec.with_table(spec::EVALUATOR);
        spec.text("description");
        if spec.get("address").is_some() {
            let message =
                format!("`address` of Evaluator `{}` has no effect: this server judges answers itself", metadata.name);
            spec.report().warn(&spec.path_of("address"), "field_ignored", message);
        }
        for parameter in spec.entries("parameters") {
            let parameter = parameter.with_table(spec::EVALUATOR_PARAMETER);
            let name = parameter.required_text("name", "the name of the parameter");
            let value = parameter.required_text("value", "its value, as text");
            parameter.unserved(&["valueFrom"], "write the value itself");
            parameter.finish();
            if name.is_some_and(|name| name.value == MODEL) {
                model = value;
            }
        }
        spec.unserved(&["selector"], "queries are evaluated one by one, with `POST …/evaluations`");
        spec.finish();
    }
    let model = model.unwrap_or(Text { value: DEFAULT_MODEL, place: metadata.place });
    let references = vec![Reference::new(Document::Model, model)];
    let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
    Some(metadata.located(fields, Referrer { kind: Document::Evaluator, namespace, name, references }))
}
