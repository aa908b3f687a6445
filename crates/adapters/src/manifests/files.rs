//! Finds the files of a directory, in the same order on every machine.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
};

use bosun_reading::{Fault, Faults, yaml::LARGEST_FILE};

const WHAT_TO_PUT_THERE: &str = "put YAML files there that describe at least one Agent and the Model that it uses; \
    `examples/agents` of Bosun's source is a working set to copy";

/// All `*.yaml` and `*.yml` files, sorted. Names that begin with a dot are skipped: editors and Kubernetes use them for
/// files of their own.
pub(super) fn find(directories: &[PathBuf], faults: &mut Vec<Fault>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for directory in directories {
        walk(directory, &mut seen, &mut found, faults);
    }
    found
}

fn walk(path: &Path, seen: &mut HashSet<PathBuf>, found: &mut Vec<PathBuf>, faults: &mut Vec<Fault>) {
    match path.canonicalize() {
        // Links may form a cycle, and two arguments may name the same directory.
        Ok(real) if seen.contains(&real) => return,
        Ok(real) => drop(seen.insert(real)),
        Err(error) => return faults.push(unreadable(path, &error)),
    }
    if !path.is_dir() {
        return found.push(path.to_owned());
    }
    let mut names: Vec<_> = match path.read_dir().and_then(Iterator::collect::<Result<Vec<_>, _>>) {
        Ok(entries) => entries.into_iter().map(|entry| entry.file_name()).collect(),
        Err(error) => return faults.push(unreadable(path, &error)),
    };
    names.sort();
    for name in names {
        let entry = path.join(&name);
        let is_manifest = entry.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        if !name.as_encoded_bytes().starts_with(b".") && (is_manifest || entry.is_dir()) {
            walk(&entry, seen, found, faults);
        }
    }
}

pub(super) fn read(file: &Path) -> Result<String, Faults> {
    let length = file.metadata().map_err(|error| unreadable(file, &error))?.len();
    // `yaml::parse` checks this too, but a file of gigabytes must not be read first.
    if length > LARGEST_FILE as u64 {
        let message = format!("file has {length} bytes, more than the {LARGEST_FILE} that are read");
        return Err(Fault::of_file(file, "file_too_large", message).hint("split it into several files").into());
    }
    Ok(std::fs::read_to_string(file).map_err(|error| unreadable(file, &error))?)
}

fn unreadable(path: &Path, error: &io::Error) -> Fault {
    let (code, message, hint) = match error.kind() {
        io::ErrorKind::NotFound => ("manifests_missing", "does not exist".to_owned(), WHAT_TO_PUT_THERE),
        io::ErrorKind::InvalidData => ("unreadable_file", "is not UTF-8 text".to_owned(), ""),
        _ => ("unreadable_file", format!("cannot be read: {error}"), ""),
    };
    Fault::of_file(path, code, message).hint(hint)
}

/// The directories exist and contain no manifest.
pub(super) fn nothing_found(directories: &[PathBuf]) -> Faults {
    let names: Vec<_> = directories.iter().map(|directory| format!("`{}`", directory.display())).collect();
    let first = directories.first().cloned().unwrap_or_default();
    let message = format!("there is no manifest in {}", names.join(", "));
    Fault::of_file(first, "manifests_missing", message).hint(WHAT_TO_PUT_THERE).into()
}
