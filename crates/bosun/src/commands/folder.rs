//! The folder of an input file: what its relative references and imports may name.
//!
//! Data may refer to files next to it and below. Source code may import what belongs to its package, the nearest folder
//! with a `package.json`. A file that was found in a folder may name everything in that folder. Paths are resolved by the file system before they are compared, so that no link leads out.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use bosun_convert::{ConvertOptions, FolderFiles, ZodVersion, document::MAX_SIZE};
use serde_json::Value;

use super::input::{self, Source};

/// How many folders above a file are searched for a `package.json`.
const HIGHEST_PACKAGE: usize = 32;

/// The largest `package.json` that is read.
const LARGEST_PACKAGE: u64 = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct SourceFolder {
    /// The directory of the file; `None` for standard input, which has no files next to it.
    directory: Option<PathBuf>,
    /// The folder that the user named, in which the file was found.
    named: Option<PathBuf>,
    package: Option<PathBuf>,
    zod: WantedZod,
}

/// What a `package.json` says about the version of Zod.
#[derive(Debug, Default)]
enum WantedZod {
    /// Nothing.
    #[default]
    Unnamed,
    Version(ZodVersion),
    /// A word that means no fixed version, such as `latest`.
    Unclear(String),
}

impl SourceFolder {
    pub(crate) fn of(source: &Source) -> Self {
        let named = source.folder.as_ref().and_then(|folder| fs::canonicalize(folder).ok());
        let directory = fs::canonicalize(&source.path).ok().and_then(|file| file.parent().map(Path::to_owned));
        let package = directory.as_ref().and_then(|directory| {
            let is_package = |folder: &&Path| folder.join("package.json").is_file();
            directory.ancestors().take(HIGHEST_PACKAGE).find(is_package).map(Path::to_owned)
        });
        let zod = package.as_ref().and_then(|package| wanted_zod(&package.join("package.json")));
        Self { directory, named, package, zod: zod.unwrap_or_default() }
    }

    /// How a file of this folder is read.
    pub(crate) fn options(&self) -> ConvertOptions<'_> {
        let files = self.directory.as_ref().map(|_| self as &dyn FolderFiles);
        let (zod_installed, zod_unclear) = match &self.zod {
            WantedZod::Unnamed => (None, None),
            WantedZod::Version(version) => (Some(*version), None),
            WantedZod::Unclear(wanted) => (None, Some(wanted.as_str())),
        };
        ConvertOptions { files, zod_installed, zod_unclear, ..ConvertOptions::default() }
    }
}

impl FolderFiles for SourceFolder {
    fn read(&self, path: &str) -> Result<String, String> {
        let directory = self.directory.as_ref().ok_or("standard input has no folder")?;
        let extension = Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let root = match &self.package {
            Some(package) if input::SOURCE_EXTENSIONS.contains(&extension) => package,
            _ => directory,
        };
        let found = fs::canonicalize(directory.join(path)).map_err(|_| "there is no such file".to_owned())?;
        let is_inside = found.starts_with(root) || self.named.as_ref().is_some_and(|named| found.starts_with(named));
        if !is_inside {
            return Err("it is outside of the folder".to_owned());
        }
        let file = fs::File::open(&found).map_err(|error| error.to_string())?;
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err("it is not a file".to_owned());
        }
        let mut text = String::new();
        file.take(MAX_SIZE as u64 + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
        if text.len() > MAX_SIZE {
            return Err(format!("it is larger than {MAX_SIZE} bytes"));
        }
        Ok(text)
    }
}

/// The major version of Zod that a `package.json` asks for; `None` if it asks for none.
fn wanted_zod(path: &Path) -> Option<WantedZod> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(LARGEST_PACKAGE).read_to_string(&mut text).ok()?;
    let package: Value = serde_json::from_str(&text).ok()?;
    let wanted = ["dependencies", "devDependencies", "peerDependencies"]
        .into_iter()
        .find_map(|field| package.get(field)?.get("zod")?.as_str())?;
    // `^4.1.0`, `npm:zod@3.25.76`, `>=3.25`: the first digit is the major version.
    let number = wanted.rsplit('@').next().unwrap_or(wanted);
    Some(match number.chars().find(char::is_ascii_digit) {
        Some('3') => WantedZod::Version(ZodVersion::V3),
        Some('4') => WantedZod::Version(ZodVersion::V4),
        _ => WantedZod::Unclear(wanted.to_owned()),
    })
}
