//! Prints the tools of a TypeScript file, with the files that it imports.
//!
//! `zod_tools FILE` answers `{"tools": [{"name", "form", "line", "parameters"}], "faults": […]}`. `interop/zod/folder.mjs` compares it
//! with what the file itself makes when it runs.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use bosun_convert::{
    FolderFiles,
    zod::{ZodOptions, ZodVersion, convert},
};
use serde_json::json;

#[derive(Debug)]
struct Folder(PathBuf);

impl FolderFiles for Folder {
    fn read(&self, path: &str) -> Result<String, String> {
        fs::read_to_string(self.0.join(path)).map_err(|error| error.to_string())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let file = PathBuf::from(arguments.next().ok_or("which file?")?);
    let installed = match arguments.next().as_deref() {
        Some("4") => Some(ZodVersion::V4),
        _ => Some(ZodVersion::V3),
    };
    let folder = Folder(file.parent().unwrap_or(Path::new(".")).to_owned());
    let options = ZodOptions { files: Some(&folder), installed, ..ZodOptions::default() };
    let source = fs::read_to_string(&file)?;
    let answer = match convert(&source, "", options) {
        Ok(converted) => {
            let tools = converted.tools.iter().map(|found| {
                json!({
                    "name": found.tool.name, "form": found.form, "line": found.line, "parameters": found.tool.parameters,
                })
            });
            json!({"tools": tools.collect::<Vec<_>>(), "faults": converted.faults})
        }
        Err(faults) => json!({"tools": [], "faults": faults}),
    };
    #[expect(clippy::print_stdout, reason = "an example that answers on standard output")]
    {
        println!("{answer}");
    }
    Ok(())
}
