//! Every file of `fixtures/convert/` through the converters.
//!
//! `<format>/<case>.in.<ext>` is the input, and must be recognised as `<format>`. Next to it are `<case>.notes.txt`,
//! the remarks of reading it, and for each target `<case>.<target>.<ext>`, with `<case>.<target>.notes.txt` if there
//! are remarks of writing it. `UPDATE_FIXTURES=1` rewrites existing files; create an empty file to request a new
//! target.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should say where and stop")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use bosun_convert::{Conversion, ConvertOptions, Format, Warning, document, read, write};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/convert")
}

/// The difference between a file and `actual`. Rewrites the file when requested.
fn difference(path: &Path, actual: &str) -> Option<String> {
    if fs::read_to_string(path).unwrap_or_default() == actual {
        return None;
    }
    if std::env::var_os("UPDATE_FIXTURES").is_none() {
        return Some(format!("{} should be:\n{actual}", path.display()));
    }
    if actual.is_empty() {
        fs::remove_file(path).unwrap();
    } else {
        fs::write(path, actual).unwrap();
    }
    None
}

fn lines(warnings: &[Warning]) -> String {
    warnings.iter().map(|warning| format!("warning {warning}\n")).collect()
}

fn notes(conversion: &Conversion) -> String {
    let faults = conversion.faults.iter().map(|fault| {
        let hint = fault.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("fault {}: {} [{}]{hint}\n", fault.path, fault.message, fault.code)
    });
    faults.collect::<String>() + &lines(&conversion.warnings)
}

#[test]
fn every_fixture_converts_as_recorded() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Zod) {
        let folder = fixtures().join(format.name());
        let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for input in files.iter().filter(|path| path.file_stem().unwrap().to_str().unwrap().ends_with(".in")) {
            let case = input.file_stem().unwrap().to_str().unwrap().strip_suffix(".in").unwrap();
            let bytes = fs::read(input).unwrap();
            let conversion = read(document::decode(&bytes).unwrap(), ConvertOptions::default()).unwrap();
            assert_eq!(conversion.format, format, "{}", input.display());
            let file = |tail: &str| folder.join(format!("{case}.{tail}"));
            let mut check = |path: PathBuf, actual: &str| {
                checked += 1;
                wrong.extend(difference(&path, actual));
            };
            check(file("notes.txt"), &notes(&conversion));
            for target in Format::TARGETS {
                let (json, yaml) = (file(&format!("{target}.json")), file(&format!("{target}.yaml")));
                if !json.exists() && !yaml.exists() {
                    continue;
                }
                let written = write(&conversion.tools, target).unwrap();
                if json.exists() {
                    check(json, &written.documents.to_json());
                } else {
                    check(yaml, &written.documents.to_yaml().unwrap());
                }
                check(file(&format!("{target}.notes.txt")), &lines(&written.warnings));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 20, "only {checked} files were checked: are the fixtures there?");
}
