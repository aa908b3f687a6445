//! TypeScript that defines tools: any text must yield tools or faults, in bounded time and memory.
#![no_main]

use bosun_convert::zod::{ZodOptions, ZodVersion, convert, schema_to_json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    for version in [ZodVersion::V3, ZodVersion::V4] {
        if let Err(faults) = convert(source, "tools.ts", ZodOptions { version: Some(version) }) {
            let lines = source.split('\n').count();
            assert!(!faults.is_empty() && faults.iter().all(|fault| (1..=lines).contains(&fault.line)));
        }
        let _ = schema_to_json(source, version);
    }
});
