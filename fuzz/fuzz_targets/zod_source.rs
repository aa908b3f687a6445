//! TypeScript that defines tools: any text must yield tools or faults, in bounded time and memory.
#![no_main]

use bosun_convert::{
    FolderFiles,
    zod::{ZodIo, ZodOptions, ZodVersion, convert, schema_to_json},
};
use libfuzzer_sys::fuzz_target;

/// Every import leads back to the same text.
#[derive(Debug)]
struct Itself<'a>(&'a str);

impl FolderFiles for Itself<'_> {
    fn read(&self, _: &str) -> Result<String, String> {
        Ok(self.0.to_owned())
    }
}

fuzz_target!(|source: &str| {
    for version in [None, Some(ZodVersion::V3), Some(ZodVersion::V4)] {
        let files = Itself(source);
        let options = ZodOptions { version, files: Some(&files), ..ZodOptions::default() };
        let faults = convert(source, "tools.ts", options).map(|converted| converted.faults);
        let lines = source.split('\n').count();
        assert!(!matches!(&faults, Err(faults) if faults.is_empty()));
        assert!(faults.unwrap_or_else(|faults| faults).iter().all(|fault| (1..=lines).contains(&fault.line)));
    }
    for (version, io) in
        [(ZodVersion::V3, ZodIo::Input), (ZodVersion::V4, ZodIo::Input), (ZodVersion::V4, ZodIo::Output)]
    {
        let _ = schema_to_json(source, version, io);
    }
});
