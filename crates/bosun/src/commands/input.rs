//! The input files of a command.
//!
//! Reading is bounded in advance: a file that is too large is refused by its size, and standard input after one byte
//! too many.

use std::{
    fs, io,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::Context;
use bosun_convert::document::MAX_SIZE;

use super::Usage;

/// The name of standard input on a command line.
const STDIN: &str = "-";

/// How deep folders are searched. Deeper ones are a loop, or not meant.
const DEEPEST_FOLDER: usize = 16;

/// One file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// The folder that the user named, in which it was found: it may be an unrelated file.
    pub(crate) folder: Option<PathBuf>,
}

impl Source {
    pub(crate) fn named(path: &Path) -> Self {
        Self { path: path.to_owned(), folder: None }
    }

    /// Whether the user did not name the file itself.
    pub(crate) fn is_incidental(&self) -> bool {
        self.folder.is_some()
    }

    /// The name of the file in a report.
    pub(crate) fn shown(&self) -> String {
        if self.path == Path::new(STDIN) { "<stdin>".to_owned() } else { self.path.display().to_string() }
    }

    /// All of its bytes, or one more than the limit.
    pub(crate) fn read(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let limit = MAX_SIZE as u64 + 1;
        if self.path == Path::new(STDIN) {
            io::stdin().lock().take(limit).read_to_end(&mut bytes).context("cannot read standard input")?;
            return Ok(bytes);
        }
        let shown = self.shown();
        let metadata = fs::metadata(&self.path).map_err(|error| Usage(format!("cannot read `{shown}`: {error}")))?;
        if metadata.is_dir() {
            return Err(Usage(format!("`{shown}` is a directory, and a file is needed here")).into());
        }
        let file = fs::File::open(&self.path).map_err(|error| Usage(format!("cannot read `{shown}`: {error}")))?;
        file.take(limit).read_to_end(&mut bytes).with_context(|| format!("cannot read `{shown}`"))?;
        Ok(bytes)
    }
}

/// The files that paths refer to: a folder for the data and the source code in it, at any depth.
pub(crate) fn sources(paths: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in paths {
        let is_folder = path != Path::new(STDIN)
            && fs::metadata(path)
                .map_err(|error| Usage(format!("cannot read `{}`: {error}", path.display())))?
                .is_dir();
        if is_folder {
            search(path, path, DEEPEST_FOLDER, &mut sources)?;
        } else {
            sources.push(Source::named(path));
        }
    }
    Ok(sources)
}

fn search(named: &Path, folder: &Path, depth: usize, sources: &mut Vec<Source>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read the directory `{}`", folder.display()))?;
    let mut entries: Vec<_> = entries
        .collect::<Result<_, _>>()
        .with_context(|| format!("cannot read the directory `{}`", folder.display()))?;
    // The order of a directory is arbitrary, and reports should be stable.
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        // A link to a folder may form a loop; a link to a file cannot.
        let kind = entry.file_type().with_context(|| format!("cannot read `{}`", path.display()))?;
        if is_hidden || entry.file_name() == "node_modules" {
            continue;
        }
        if kind.is_dir() {
            if depth > 0 {
                search(named, &path, depth - 1, sources)?;
            }
        } else if is_input(&path) && path.is_file() {
            sources.push(Source { path, folder: Some(named.to_owned()) });
        }
    }
    Ok(())
}

/// The extensions of source code that tools are read from.
pub(crate) const SOURCE_EXTENSIONS: [&str; 8] = ["ts", "mts", "cts", "tsx", "js", "mjs", "cjs", "jsx"];

/// Whether a file may hold tools: data, or source code that is not only types.
fn is_input(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let extension = extension.to_ascii_lowercase();
    let is_source = SOURCE_EXTENSIONS.contains(&extension.as_str());
    let is_types = path.to_string_lossy().to_ascii_lowercase().ends_with(&format!(".d.{extension}"));
    (is_source && !is_types) || ["json", "jsonc", "yaml", "yml"].contains(&extension.as_str())
}
