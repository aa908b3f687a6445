//! ARK's routes, one by one, and every field of their answers.
//!
//! `fixtures/ark/routes.json` has them with flat bodies and without a namespace in their paths. ARK has had two forms
//! of each, and its clients use either, so all four combinations are replayed, each to a server of its own.

use serde_json::{Map, Value, json};

use crate::{nodes::replay, resources::world};

/// How a client writes its requests.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// `/v1/namespaces/default/…`, as in older versions of ARK.
    in_path: bool,
    /// `{metadata, spec}`, as in the custom resources.
    in_spec: bool,
}

impl Form {
    fn write(self, call: &Value) -> Value {
        let mut written = call.clone();
        let request = call["request"].as_str().unwrap();
        if self.in_path && !request.ends_with("/v1/namespaces") {
            // A namespace in the query string moves into the path.
            let (place, namespace) = request.split_once("?namespace=").unwrap_or((request, "default"));
            written["request"] = place.replacen("/v1/", &format!("/v1/namespaces/{namespace}/"), 1).into();
        }
        // A whole object has one form.
        if let Some(Value::Object(body)) = call.get("body")
            && self.in_spec
            && !request.contains("/v1/resources/")
        {
            written["body"] = nested(body);
        }
        written
    }
}

/// A flat body as a whole object.
fn nested(body: &Map<String, Value>) -> Value {
    let mut metadata = body.get("metadata").cloned().unwrap_or_else(|| json!({}));
    let mut spec = body.get("spec").cloned().unwrap_or_else(|| json!({}));
    for (name, value) in body {
        match name.as_str() {
            "metadata" | "spec" => {}
            "name" | "namespace" | "labels" | "annotations" => metadata[name] = value.clone(),
            _ => spec[name] = value.clone(),
        }
    }
    json!({"metadata": metadata, "spec": spec})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_of_ark_answers_with_its_fields_in_every_form() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/ark/routes.json");
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let calls = recorded["calls"].as_array().unwrap();
    let fields: usize = calls.iter().filter_map(|call| call["reads"].as_object()).map(Map::len).sum();
    assert!(calls.len() >= 80 && fields >= 450, "{} calls, {fields} fields", calls.len());
    let mut faults = Vec::new();
    for (in_path, in_spec) in [(false, false), (true, false), (false, true), (true, true)] {
        let form = Form { in_path, in_spec };
        let world = world();
        let server = world.start().await;
        for call in calls {
            let missed = replay(&server, &form.write(call)).await;
            faults.extend(missed.into_iter().map(|fault| format!("{form:?}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
