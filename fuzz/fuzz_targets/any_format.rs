//! Any bytes as a file for `bosun check`. What was read without a fault and written as a list of ours must be readable
//! again, with the same names.
#![no_main]

use bosun_convert::{ConvertOptions, Format, check, document, read, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = document::decode(bytes) else { return };
    let checked = check(text, ConvertOptions::default());
    let Ok(written) = write(&checked.tools, Format::ExternalTools) else { return };
    let again = read(
        &written.documents.to_json(),
        ConvertOptions { from: Some(Format::ExternalTools), ..ConvertOptions::default() },
    );
    let names: Vec<&str> = checked.tools.iter().map(|found| found.tool.name.as_str()).collect();
    let again = again.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.tools.iter().map(|found| found.tool.name.as_str()).collect::<Vec<_>>(), names);
});
