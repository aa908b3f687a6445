//! Any text as the export of an n8n workflow, checked and written in every format.
#![no_main]

use bosun_convert::{ConvertOptions, Format, check, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let checked = check(text, ConvertOptions { from: Some(Format::N8n), ..ConvertOptions::default() });
    for target in Format::TARGETS {
        let written = write(&checked.tools, target);
        assert!(written.is_ok_and(|written| written.documents.to_yaml().is_ok()));
    }
});
