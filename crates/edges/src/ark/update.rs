//! `PUT …/queries/{name}`: what can be changed about a query, which is one thing: it can be cancelled.
//!
//! A query is frozen when it is created. ARK's clients cancel by setting `cancel`, so that is taken; every
//! other field is refused by name, since a client that sends it expects it to change something.

use serde_json::Value;

use super::{options::Options, request};
use crate::http::{
    error::{ApiError, Code, clip},
    json::{Findings, Object},
};

/// Whether the query is to be cancelled, and what the client should know.
pub(super) fn read(options: &Options, body: Value) -> Result<(bool, Vec<String>), ApiError> {
    let mut findings = Findings::new(Code::InvalidRequest, options.warnings.clone());
    let mut fields = request::lay_flat(Object::body(body)?, &mut findings);
    let cancel = fields.flag("cancel", &mut findings).unwrap_or(false);
    let path = fields.path_of("name");
    if fields.text("name", &mut findings).is_some_and(|name| name != options.name) {
        findings.fault(path, "mismatch", "is not the name of the query; a query cannot be renamed");
    }
    let others: Vec<_> = fields.names().map(|name| fields.path_of(name)).filter(|path| path != "metadata").collect();
    for path in others {
        let message = "cannot be changed: a query is frozen when it is created; create another one";
        findings.refuse(Code::UnsupportedField, clip(&path), "unsupported_field", message);
    }
    Ok((cancel, findings.conclude()?))
}
