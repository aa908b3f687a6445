//! A schema, a NUL, and arguments: what fits must fit when it is looked at again.
#![no_main]

use std::sync::Arc;

use bosun_core::{
    Schema,
    json::{Limits, parse},
    tool::missing::missing_parameters,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Some((schema, arguments)) = text.split_once('\0') else { return };
    let Ok(source) = parse(schema, Limits::BODY) else { return };
    let Ok(schema) = Schema::compile(&Arc::new(source)) else { return };
    match schema.check_arguments(arguments) {
        Ok(checked) => {
            let value = checked.into_value();
            assert!(schema.validate(&value).is_empty(), "{value}");
        }
        Err(violations) => assert!(!violations.is_empty()),
    }
    if let Ok(value) = parse(arguments, Limits::ARGUMENTS) {
        let _ = missing_parameters(&schema, &value);
    }
});
