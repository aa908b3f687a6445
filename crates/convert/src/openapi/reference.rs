//! `$ref` within one document, which may have been put together from several files.

use bosun_core::percent;
use serde_json::Value;

use super::{bundle, swagger};
use crate::{document::Path, format::clip, found::Report};

/// Maximum length of a chain of references; a longer one is a cycle.
const LONGEST_CHAIN: usize = 32;

/// The target of a `$ref`, as text: `#/components/schemas/Pet`.
pub(super) fn of(value: &Value) -> Option<&str> {
    value.get("$ref").and_then(Value::as_str)
}

/// The value that a local reference names.
pub(super) fn resolve<'a>(root: &'a Value, reference: &str) -> Result<&'a Value, (&'static str, String)> {
    if reference == swagger::TOO_LARGE {
        let message = format!("the references of the description copy more than {} values", swagger::MOST_COPIED);
        return Err(("too_large", message));
    }
    let Some(pointer) = reference.strip_prefix('#') else {
        let message = format!(
            "`{}` points out of the document, and not to a file of its folder that could be read",
            clip(reference)
        );
        return Err(("remote_ref", message));
    };
    let file = bundle::file_of(reference);
    if let Some((name, _)) = &file
        && let Some(reason) = bundle::unreadable(root, name)
    {
        return Err(("ref_unreadable", format!("the file `{}` cannot be read: {reason}", clip(name))));
    }
    let target = percent::decode(pointer).and_then(|pointer| root.pointer(&pointer));
    target.ok_or_else(|| {
        let message = match &file {
            Some((name, part)) => format!("there is no `#{}` in the file `{}`", clip(part), clip(name)),
            None => format!("there is no `{}` in the document", clip(reference)),
        };
        ("dangling_ref", message)
    })
}

/// The value itself, or the end of its chain of references. Reports a fault if there is none.
pub(super) fn follow<'a>(root: &'a Value, value: &'a Value, path: &Path, report: &Report) -> Option<&'a Value> {
    let mut current = value;
    for _ in 0..LONGEST_CHAIN {
        let Some(reference) = of(current) else { return Some(current) };
        match resolve(root, reference) {
            Ok(target) => current = target,
            Err((code, message)) => {
                report.fault(path.key("$ref"), code, message);
                return None;
            }
        }
    }
    report.fault(path.key("$ref"), "cyclic_ref", "the reference leads back to itself");
    None
}

/// Whether something is true of a value, or of one that its chain of references leads to.
pub(super) fn any_in_chain(root: &Value, value: &Value, is_true: fn(&Value) -> bool) -> bool {
    let mut current = value;
    for _ in 0..LONGEST_CHAIN {
        if is_true(current) {
            return true;
        }
        let Some(Ok(target)) = of(current).map(|reference| resolve(root, reference)) else { return false };
        current = target;
    }
    false
}
