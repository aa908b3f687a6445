//! A schema, a NUL, and arguments: valid arguments must be valid when they are checked again, and a text must have the
//! same verdict as the value that `json::parse` reads from it.
#![no_main]

use std::sync::Arc;

use bosun_core::{
    Schema,
    json::{JsonLimits, parse},
    tool::missing::missing_parameters,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Some((schema, arguments)) = text.split_once('\0') else { return };
    let parsed = parse(arguments, JsonLimits::ARGUMENTS);
    let Ok(source) = parse(schema, JsonLimits::BODY) else { return };
    let Ok(schema) = Schema::compile(&Arc::new(source)) else { return };
    let checked = schema.check_arguments(arguments).map(|arguments| arguments.into_value());
    match &checked {
        Ok(value) => assert!(schema.validate(value).is_empty(), "{value}"),
        Err(violations) => assert!(!violations.is_empty()),
    }
    if let Ok(value) = parsed {
        let _ = missing_parameters(&schema, &value);
        // The last digit may be rounded differently, which may or may not violate a bound.
        if !arguments.contains(['.', 'e', 'E']) {
            assert_eq!(schema.check_value(value).map(|arguments| arguments.into_value()), checked);
        }
    } else if !arguments.trim().is_empty() {
        assert!(checked.is_err());
    }
});
