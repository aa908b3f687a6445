//! jq filters, which agents apply to the results of tools: ARK's `functions`.
//!
//! [`check`] compiles a filter when its manifest is read. [`apply`] runs filters to their end: jaq cannot be interrupted,
//! so nothing here bounds time or memory. Only a process of its own calls it, with limits of the operating system
//! (`runner::functions`). Filters read neither the environment nor further inputs.

use std::fmt::Write as _;

use jaq_core::{
    Compiler, Ctx, Vars, data,
    load::{self, Arena, File, Loader},
    unwrap_valr,
};
use jaq_json::Val;
use serde_json::Value;

/// The longest filter, in bytes.
pub const LONGEST_FILTER: usize = 4 * 1024;
/// The nesting of brackets in a filter: its parser is recursive.
const DEEPEST: usize = 64;
/// What a filter may not call: it would show the server's environment, or end its process.
const WITHHELD: &[&str] = &["env", "halt", "halt_error"];

type JqFilter = jaq_core::Filter<data::JustLut<Val>>;

/// Checks a filter.
///
/// # Errors
/// With what is wrong, and where in the filter.
pub fn check(filter: &str) -> Result<(), String> {
    compile(filter).map(|_| ())
}

/// Applies filters to a value, one after the other. Several outputs of one become a list, and no output an empty one.
///
/// # Errors
/// With a message for the model.
pub fn apply(filters: &[String], value: Value) -> Result<Value, String> {
    filters.iter().try_fold(value, |value, filter| {
        let compiled = compile(filter)?;
        let input = jaq_json::read::parse_single(value.to_string().as_bytes())
            .map_err(|error| format!("the result is not JSON that jq reads: {error}"))?;
        let context = Ctx::<data::JustLut<Val>>::new(&compiled.lut, Vars::new([]));
        let mut outputs = Vec::new();
        for output in compiled.id.run((context, input)).map(unwrap_valr) {
            let output = output.map_err(|error| format!("the filter `{filter}` failed: {error}"))?;
            let output: Value = serde_json::from_str(&output.to_string())
                .map_err(|_| format!("the filter `{filter}` has an output that is not JSON"))?;
            outputs.push(output);
        }
        Ok(if outputs.len() == 1 { outputs.remove(0) } else { Value::Array(outputs) })
    })
}

fn compile(filter: &str) -> Result<JqFilter, String> {
    if filter.len() > LONGEST_FILTER {
        return Err(format!("it has more than {LONGEST_FILTER} bytes"));
    }
    let mut depth = 0_usize;
    for letter in filter.chars() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Err(format!("its brackets are nested deeper than {DEEPEST} levels"));
        }
    }
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    // Definitions that call them are withheld, too: they would not compile.
    let definitions = definitions.filter(|definition| !WITHHELD.contains(&definition.name));
    let functions = functions.filter(|(name, ..)| !WITHHELD.contains(name));
    let (loader, arena) = (Loader::new(definitions), Arena::default());
    let modules = loader.load(&arena, File { code: filter, path: () }).map_err(|errors| {
        let first = errors.into_iter().next().map(|(_, error)| error);
        describe(filter, first)
    })?;
    Compiler::default().with_funs(functions).compile(modules).map_err(|errors| {
        let undefined = errors.into_iter().flat_map(|(_, errors)| errors).next();
        match undefined {
            Some((name, _)) => {
                let column = column(filter, name);
                format!("`{name}` in column {column} is not defined")
            }
            None => "it cannot be compiled".to_owned(),
        }
    })
}

fn describe(filter: &str, error: Option<load::Error<&str>>) -> String {
    let mut message = String::new();
    let found = match error {
        Some(load::Error::Lex(errors)) => errors.into_iter().next().map(|(expected, found)| (expected.as_str(), found)),
        Some(load::Error::Parse(errors)) => {
            errors.into_iter().next().map(|(expected, found)| (expected.as_str(), found))
        }
        Some(load::Error::Io(_)) => return "modules cannot be imported".to_owned(),
        None => None,
    };
    let Some((expected, found)) = found else { return "it is not a jq filter".to_owned() };
    let at = column(filter, found);
    // Writing to a string cannot fail.
    let _ = match found.chars().next() {
        Some(letter) => write!(message, "{expected} is expected in column {at}, not `{letter}`"),
        None => write!(message, "{expected} is expected at its end"),
    };
    message
}

/// The column of a part of the filter, counted from 1.
fn column(filter: &str, part: &str) -> usize {
    let whole = filter.as_ptr() as usize..=filter.as_ptr() as usize + filter.len();
    let start = part.as_ptr() as usize;
    let offset = if whole.contains(&start) { start - filter.as_ptr() as usize } else { 0 };
    filter.get(..offset).map_or(1, |before| before.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn gives(filters: &[&str], value: Value, expect: Value) {
        let filters: Vec<_> = filters.iter().map(|filter| (*filter).to_owned()).collect();
        assert_eq!(apply(&filters, value), Ok(expect), "{filters:?}");
    }

    #[test]
    fn filters_are_applied_in_order_and_several_outputs_are_a_list() {
        let value = json!({"items": [{"name": "a", "price": 1.5}, {"name": "b", "price": 20}], "next": null});
        gives(&[".items[0].name"], value.clone(), json!("a"));
        gives(&[".items[].name"], value.clone(), json!(["a", "b"]));
        gives(&[".items[] | select(.price > 100)"], value.clone(), json!([]));
        gives(&[".items", "map(.price) | add"], value.clone(), json!(21.5));
        gives(
            &["{count: (.items | length), first: .items[0].name | ascii_upcase}"],
            value,
            json!({"count": 2, "first": "A"}),
        );
        gives(&[".[] | test(\"^a\")"], json!(["ab", "b"]), json!([true, false]));
        gives(&[], json!(1), json!(1));
    }

    #[test]
    fn an_error_says_what_is_wrong_and_where() {
        for (filter, expect) in [
            (".a[", "at its end"),
            (".a | foo", "`foo` in column 6 is not defined"),
            (". as $x | $y", "`$y` in column 11 is not defined"),
            (".a &", "column 4"),
            ("if . then 1", "at its end"),
            ("env.HOME", "is not defined"),
            ("$ENV", "is not defined"),
            ("input", "is not defined"),
            ("halt", "is not defined"),
            ("import \"a\" as a; .", "modules cannot be imported"),
        ] {
            let message = check(filter).expect_err(filter);
            assert!(message.contains(expect), "{filter}: {message}");
        }
        assert!(check(&"(".repeat(100)).unwrap_err().contains("nested deeper"));
        assert!(check(&".".repeat(5_000)).unwrap_err().contains("more than 4096 bytes"));
        let failed = apply(&[".a + 1".to_owned()], json!({"a": "x"})).unwrap_err();
        assert!(failed.starts_with("the filter `.a + 1` failed: "), "{failed}");
    }
}
