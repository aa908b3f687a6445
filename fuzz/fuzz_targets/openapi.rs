//! Any text as an OpenAPI description, whose references to files lead back to it, checked and written in every format.
#![no_main]

use bosun_convert::{ConvertOptions, FolderFiles, Format, check, write};
use libfuzzer_sys::fuzz_target;

/// Every file that is referred to is the same text.
#[derive(Debug)]
struct Itself<'a>(&'a str);

impl FolderFiles for Itself<'_> {
    fn read(&self, _: &str) -> Result<String, String> {
        Ok(self.0.to_owned())
    }
}

fuzz_target!(|text: &str| {
    let files = Itself(text);
    for files in [None, Some(&files as &dyn FolderFiles)] {
        let checked = check(text, ConvertOptions { from: Some(Format::OpenApi), files, ..ConvertOptions::default() });
        for target in Format::TARGETS {
            let written = write(&checked.tools, target);
            assert!(written.is_ok_and(|written| written.documents.to_yaml().is_ok()));
        }
    }
});
