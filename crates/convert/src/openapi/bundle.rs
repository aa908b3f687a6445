//! A description in several files, as one document.
//!
//! A relative `$ref` names a file in the folder of the description or below it. Each such file becomes a member of the
//! root, and every reference into it a local one, so that the readers know of one document only. References out of the
//! folder, and addresses, stay as they are and are faults where they are followed.

use std::{borrow::Cow, collections::VecDeque};

use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, Value, json};

use crate::{FolderFiles, document::Document};

/// The member of the root that holds the other files.
const FILES: &str = "x-bosun-files";

/// Maximum number of files, and of their bytes together.
const MOST_FILES: usize = 2_000;
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// The member of a file that could not be read: why.
const UNREADABLE: &str = "x-bosun-unreadable";

/// The description with all files that it refers to. A file that cannot be read is a fault where it is referred to.
pub(super) fn bundle<'a>(root: &'a Value, files: Option<&dyn FolderFiles>) -> Cow<'a, Value> {
    let Some(files) = files else { return Cow::Borrowed(root) };
    let mut wanted = Wanted::default();
    let mut bundled = rewritten(root, "", true, &mut wanted);
    if wanted.seen.is_empty() {
        return Cow::Borrowed(root);
    }
    let mut read: IndexMap<String, Value> = IndexMap::new();
    let mut bytes = 0;
    while let Some(name) = wanted.queue.pop_front() {
        let value = match read_file(files, &name, &mut bytes, read.len()) {
            Ok(value) => rewritten(&value, &name, false, &mut wanted),
            Err(reason) => json!({UNREADABLE: reason}),
        };
        read.insert(name, value);
    }
    if let Value::Object(members) = &mut bundled {
        members.insert(FILES.to_owned(), Value::Object(read.into_iter().collect()));
    }
    Cow::Owned(bundled)
}

/// The file that a reference leads into, and the part of it; `None` for a reference within the description itself.
pub(super) fn file_of(reference: &str) -> Option<(String, &str)> {
    let rest = reference.strip_prefix('#')?.strip_prefix('/')?.strip_prefix(FILES)?.strip_prefix('/')?;
    let name = rest.split('/').next().unwrap_or_default();
    let decoded = name.replace("%25", "%").replace("~1", "/").replace("~0", "~");
    Some((decoded, &rest[name.len()..]))
}

/// Why the file of a reference could not be read, if it could not.
pub(super) fn unreadable<'a>(root: &'a Value, file: &str) -> Option<&'a str> {
    root.get(FILES)?.get(file)?.get(UNREADABLE)?.as_str()
}

fn read_file(files: &dyn FolderFiles, name: &str, bytes: &mut usize, count: usize) -> Result<Value, String> {
    if count >= MOST_FILES {
        return Err(format!("the description has more than {MOST_FILES} files"));
    }
    let text = files.read(name)?;
    *bytes += text.len();
    if *bytes > MOST_BYTES {
        return Err(format!("the files of the description have more than {MOST_BYTES} bytes together"));
    }
    let document = Document::read(&text).map_err(|error| error.to_string())?;
    Ok(document.value().clone())
}

/// The files that are still to be read, each once.
#[derive(Default)]
struct Wanted {
    seen: IndexSet<String>,
    queue: VecDeque<String>,
}

/// A copy in which references to files are local ones. `file` is the file that the value is from.
fn rewritten(value: &Value, file: &str, is_root: bool, wanted: &mut Wanted) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| rewritten(item, file, is_root, wanted)).collect(),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                let value = match value {
                    Value::String(target) if key == "$ref" => reference(target, file, is_root, wanted).into(),
                    value => rewritten(value, file, is_root, wanted),
                };
                (key.clone(), value)
            };
            members.iter().map(member).collect::<Map<_, _>>().into()
        }
        value => value.clone(),
    }
}

fn reference(target: &str, file: &str, is_root: bool, wanted: &mut Wanted) -> String {
    let (name, pointer) = target.split_once('#').unwrap_or((target, ""));
    if name.contains("://") || (name.is_empty() && is_root) {
        return target.to_owned();
    }
    let name = if name.is_empty() { Some(file.to_owned()) } else { resolved(file, name) };
    // A path out of the folder is a fault where it is followed.
    let Some(name) = name else { return target.to_owned() };
    if wanted.seen.insert(name.clone()) {
        wanted.queue.push_back(name.clone());
    }
    let escaped = name.replace('~', "~0").replace('/', "~1").replace('%', "%25");
    format!("#/{FILES}/{escaped}{pointer}")
}

/// The path of a file that another one names, from the directory of the text; `None` for what is not a relative path.
pub(crate) fn resolved(from: &str, name: &str) -> Option<String> {
    if name.starts_with('/') || name.contains('\\') || name.contains(':') {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
