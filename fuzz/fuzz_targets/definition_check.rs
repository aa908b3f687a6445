//! Any JSON as a list of tool definitions, by both rule sets.
#![no_main]

use bosun_core::{
    json::{JsonLimits, parse},
    tool::definition::{Rules, check},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(definitions) = parse(text, JsonLimits::BODY) else { return };
    for rules in [Rules::Strict, Rules::Open] {
        match check(&definitions, rules) {
            Ok(tools) => assert!(tools.iter().all(|tool| tool.is_external())),
            Err(faults) => assert!(faults.faults.count() > 0 && !faults.to_string().is_empty()),
        }
    }
});
