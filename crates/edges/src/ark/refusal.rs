//! Refusals as ARK writes them: its `detail`, and next to it the code and the details that ARK lacks.

use std::sync::Arc;

use axum::http::HeaderValue;
use bosun_core::schema::path::{self, PathStep};
use serde_json::{Value, json};

use crate::http::{
    error::{ApiError, Code, ErrorDetail, internal},
    error_echo::Echo,
};

/// The media type and the body of a refusal.
pub(crate) fn render(refusal: Arc<ApiError>) -> (HeaderValue, Vec<u8>) {
    // The middleware has taken it out of the response, so there is no other owner.
    let ApiError { code, message, details, omitted, detail, .. } = Arc::into_inner(refusal).unwrap_or_else(internal);
    let mut body = json!({ "detail": message, "error": { "code": code.as_str(), "message": message } });
    match detail {
        ErrorDetail::Nothing => {}
        ErrorDetail::Faults(mut sent) => {
            body["detail"] = validation(code, &message, &details, sent.as_deref_mut());
            body["body"] = sent.map_or(Value::Null, |sent| sent.into_body());
        }
        ErrorDetail::Prescribed(detail) => body["detail"] = *detail,
    }
    if !details.is_empty() {
        body["error"]["details"] = Value::Array(details);
    }
    if omitted > 0 {
        body["error"]["omitted"] = omitted.into();
    }
    (HeaderValue::from_static("application/json"), body.to_string().into_bytes())
}

/// The faults of a body as ARK's API lists them, which is FastAPI's form, each with the value at its path.
fn validation(code: Code, message: &str, faults: &[Value], mut sent: Option<&mut Echo>) -> Value {
    let whole = [json!({"code": code.as_str(), "message": message})];
    // A fault of the whole body has no path.
    let faults = if faults.iter().any(|fault| fault["path"].is_string()) { faults } else { &whole };
    let listed = faults.iter().map(|fault| {
        let path: Vec<Value> = path::steps(fault["path"].as_str().unwrap_or_default()).into_iter().map(loc).collect();
        let input = sent.as_mut().map(|sent| sent.part(&path));
        let loc: Vec<Value> = std::iter::once("body".into()).chain(path).collect();
        json!({"type": fault["code"], "loc": loc, "msg": fault["message"], "input": input})
    });
    listed.collect()
}

fn loc(step: PathStep) -> Value {
    match step {
        PathStep::Key(key) => key.into(),
        PathStep::Index(index) => index.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_place(path: &str, expect: Value) {
        let fault = json!({"path": path, "code": "missing", "message": "is missing"});
        let listed = json!([{"type": "missing", "loc": expect, "msg": "is missing", "input": null}]);
        assert_eq!(validation(Code::InvalidRequest, "", &[fault], None), listed);
    }

    #[test]
    fn faults_of_a_body_have_their_places_as_ark_writes_them() {
        check_place("input", json!(["body", "input"]));
        check_place("spec.tools[12].parameters.type", json!(["body", "spec", "tools", 12, "parameters", "type"]));
        check_place("labels[\"a.b\"]", json!(["body", "labels", "a.b"]));
        check_place("", json!(["body"]));
        let whole = json!([{"type": "invalid_request", "loc": ["body"], "msg": "must be an object", "input": [1]}]);
        let mut sent = Echo::new(&json!([1]));
        assert_eq!(validation(Code::InvalidRequest, "must be an object", &[], Some(&mut sent)), whole);
    }
}
