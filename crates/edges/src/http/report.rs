//! The report of reading a request: the error that lists its faults, or its warnings.
//!
//! A [`RequestReport`] adds to a [`Report`] what HTTP needs: the error code that an ordinary fault makes, and the
//! warnings of earlier steps.

use std::ops::Deref;

use bosun_reading::{Fault, FaultClass, Fields, Object, Report, Syntax};
use serde_json::{Value, json};

use super::{
    error::{ApiError, Code},
    warning::Warnings,
};

/// The fields of the body of a request, which are moved out of it one by one.
pub(crate) type BodyFields<'r> = Fields<'r, Object>;

#[derive(Debug)]
pub(crate) struct RequestReport {
    report: Report,
    /// The request error that an ordinary fault makes.
    class: Code,
    warnings: Vec<String>,
}

impl Deref for RequestReport {
    type Target = Report;
    fn deref(&self) -> &Report {
        &self.report
    }
}

impl RequestReport {
    /// Continues with the warnings of an earlier step.
    pub(crate) fn new(class: Code, warnings: Vec<String>) -> Self {
        Self { report: Report::of_request(), class, warnings }
    }

    /// The fields of a body, which must be an object.
    pub(crate) fn body(&self, body: Value) -> Result<BodyFields<'_>, ApiError> {
        Fields::of_body(&self.report, body).map_err(|other| {
            let message = format!("the body must be a JSON object, not {}", kind_of(&other));
            ApiError::new(Code::InvalidRequest, message)
        })
    }

    /// The error that lists all faults, if there are any so far.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        self.error().map_or(Ok(()), Err)
    }

    /// The warnings, if there is no fault; else the error that lists all faults. If they are of several classes, the
    /// class that no corrected value would fix determines the code.
    pub(crate) fn conclude(self) -> Result<Vec<String>, ApiError> {
        self.check()?;
        let mut warnings = Warnings::from(self.warnings);
        self.report.take_warnings().into_iter().for_each(|warning| warnings.add(warning.message));
        warnings.omit(self.report.warnings_omitted());
        Ok(warnings.into())
    }

    fn error(&self) -> Option<ApiError> {
        let faults = self.report.faults();
        let first = faults.first()?;
        let is_there = |class: &FaultClass| faults.iter().any(|fault| fault.class == *class);
        let class = [FaultClass::Unserved, FaultClass::UnservedTarget, FaultClass::Malformed]
            .into_iter()
            .find(is_there)
            .unwrap_or(first.class);
        let details = faults.iter().map(detail).collect();
        let omitted = self.report.faults_omitted();
        Some(ApiError::of_fields(self.code_of(class), sentence(&faults, omitted), details).omitting(omitted))
    }

    fn code_of(&self, class: FaultClass) -> Code {
        match class {
            FaultClass::Malformed => self.class,
            FaultClass::Unserved => Code::UnsupportedField,
            FaultClass::UnservedTarget => Code::UnsupportedTarget,
            FaultClass::ToolDefinition => Code::InvalidToolDefinitions,
            FaultClass::Frozen => Code::FrozenField,
        }
    }
}

fn detail(fault: &Fault) -> Value {
    json!({ "path": fault.path.as_str(), "code": fault.code, "message": fault.message })
}

/// The first faults in words; all of them are in the details.
fn sentence(faults: &[Fault], omitted: usize) -> String {
    const SHOWN: usize = 10;
    let mut parts: Vec<_> =
        faults.iter().take(SHOWN).map(|fault| format!("{}: {}", fault.path, fault.message)).collect();
    if let Some(more) = faults.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        parts.push(format!("and {more} more"));
    }
    if omitted > 0 {
        parts.push(format!("{omitted} further faults or unread entries are not listed"));
    }
    parts.join("; ")
}

/// What a value is, in JSON's words.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    Syntax::Json.kind_of(value)
}
