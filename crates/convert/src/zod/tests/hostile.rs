//! Malicious input: every result is a fault or a conversion, in bounded time and memory.

use super::super::{ZodIo, ZodOptions, ZodVersion, convert, limits, schema_to_json};

fn codes(source: &str) -> Vec<&'static str> {
    match convert(source, "tools.ts", ZodOptions::default()) {
        Ok(converted) => {
            let faults = converted.faults.iter().map(|fault| fault.code);
            faults.chain(converted.warnings.iter().map(|warning| warning.code)).collect()
        }
        Err(faults) => faults.iter().map(|fault| fault.code).collect(),
    }
}

fn schema_code(source: &str, version: ZodVersion) -> Option<&'static str> {
    schema_to_json(source, version, ZodIo::Output).err().and_then(|faults| faults.first().map(|fault| fault.code))
}

const BOTH: [ZodVersion; 2] = [ZodVersion::V3, ZodVersion::V4];

#[test]
fn ten_thousand_levels_are_refused() {
    for (open, close) in [("(", ")"), ("[", "]"), ("{a:", "}"), ("z.array(", ")"), ("z.object({a:", "})")] {
        let source = format!("const a = {}1{}", open.repeat(10_000), close.repeat(10_000));
        assert_eq!(codes(&source), ["nested_too_deeply"], "{open}");
    }
}

/// Everything that the scan allows must fit the stack: parser, collector and reader.
#[test]
fn the_deepest_allowed_source_fits_the_stack() {
    let units: [(&str, usize, &str); 16] = [
        ("(", 7_900, ")"),
        ("[", 7_900, "]"),
        ("{a:", 2_600, "}"),
        ("!", 7_900, ""),
        ("- ", 7_900, ""),
        ("typeof ", 7_900, ""),
        ("a => ", 3_900, ""),
        ("a ? b : ", 1_900, ""),
        ("a = ", 3_900, ""),
        ("`${", 7_900, "}`"),
        ("f(", 3_900, ")"),
        ("async () => {", 1_900, "}"),
        ("function () { return ", 1_500, "}"),
        ("new ", 7_900, ""),
        ("z.array(", 1_900, ")"),
        ("<A>", 3_900, ""),
    ];
    for (open, times, close) in units {
        let source = format!("const a = {}x{}", open.repeat(times), close.repeat(times));
        assert!(limits::check(&source).is_ok(), "{open}");
        codes(&source);
    }
    for statement in ["if (a) ", "{", "for (;;) ", "a: ", "if (a); else ", "while (a) "] {
        codes(&format!("{};", statement.repeat(1_500)));
    }
    codes(&format!("type A = {}B{}", "A<".repeat(3_900), ">".repeat(3_900)));
    codes(&format!("z.string(){}", ".min(1)".repeat(1_900)));
    codes(&format!("const a = {}1", "1 + ".repeat(3_900)));
}

#[test]
fn values_that_are_too_deep_are_refused() {
    for version in BOTH {
        let wrapped = format!("{}z.string(){}", "z.array(".repeat(1_000), ")".repeat(1_000));
        assert_eq!(schema_code(&wrapped, version), Some("nested_too_deeply"));
        let chained = format!("z.string(){}", ".optional()".repeat(1_000));
        assert_eq!(schema_code(&chained, version), Some("nested_too_deeply"));
    }
}

#[test]
fn a_long_line_of_constants_is_refused() {
    let mut source = String::from("const c0 = z.string();");
    for index in 1..2_000 {
        source.push_str(&format!("const c{index} = z.array(c{});", index - 1));
    }
    for version in BOTH {
        assert_eq!(schema_code(&format!("{source} c1999"), version), Some("nested_too_deeply"));
    }
}

#[test]
fn exponential_constants_are_refused() {
    for version in BOTH {
        let mut source = String::from("const c0 = z.object({ a: z.string() });");
        for index in 1..60 {
            source.push_str(&format!("const c{index} = z.object({{ a: c{0}, b: c{0} }});", index - 1));
        }
        assert_eq!(schema_code(&format!("{source} c59"), version), Some("value_too_large"));
        let mut source = String::from("const c0 = z.union([z.string().min(1), z.number()]);");
        for index in 1..60 {
            source.push_str(&format!("const c{index} = z.union([c{0}, c{0}]);", index - 1));
        }
        assert_eq!(schema_code(&format!("{source} z.object({{ a: c59 }})"), version), Some("value_too_large"));
        let mut source = String::from("const c0 = 'ha';");
        for index in 1..60 {
            source.push_str(&format!("const c{index} = c{0} + c{0};", index - 1));
        }
        assert_eq!(schema_code(&format!("{source} z.string().describe(c59)"), version), Some("value_too_large"));
        let mut source = String::from("const c0 = ['a'];");
        for index in 1..60 {
            source.push_str(&format!("const c{index} = [c{0}, c{0}];", index - 1));
        }
        assert_eq!(schema_code(&format!("{source} z.any().default(c59)"), version), Some("value_too_large"));
    }
}

#[test]
fn endless_recursion_ends() {
    for version in BOTH {
        for source in [
            "const a = z.lazy(() => a); a",
            "const a = z.lazy(() => b); const b = z.lazy(() => a); a",
            "const a = z.lazy(() => z.lazy(() => a)); z.object({ a })",
            "const a = z.lazy(() => a.optional()); z.object({ a })",
            "const a = z.union([z.lazy(() => a), z.lazy(() => a)]); z.object({ a })",
            "const a = z.object({ get a() { return a; } }); a.partial()",
            "const a = z.intersection(z.lazy(() => a), z.lazy(() => a)); z.object({ a })",
            "const a = z.record(z.lazy(() => a), z.lazy(() => a)); a",
            "const f = () => z.lazy(f); f()",
            "const a = a.b(); a.c()",
            "const a = b.b(), b = a.a(); a.c()",
            "const a = z.lazy(() => z.array(z.lazy(() => a))); a.array()",
        ] {
            let _ = schema_to_json(source, version, ZodIo::Output);
        }
    }
}

#[test]
fn a_hundred_megabytes_are_refused() {
    assert_eq!(codes(&"a".repeat(100 * 1024 * 1024)), ["source_too_long"]);
}

#[test]
fn every_truncation_of_a_source_has_a_result() {
    let source = "import { z } from 'zod';\nconst s = z.object({ a: z.string().regex(/[/\"'`]/i).describe(`x ${'y'}`), get b() { return s; } });\nexport const t = tool(async ({ a }) => a / 2, { name: 'a', description: \"ä😀\", schema: s });\n";
    for (end, _) in source.char_indices() {
        for start in [0, 25] {
            let _ = convert(source.get(start..end).unwrap_or_default(), "tools.ts", ZodOptions::default());
        }
    }
}

#[test]
fn names_of_prototypes_are_only_names() {
    for name in ["constructor", "toString", "hasOwnProperty", "prototype", "then"] {
        let source = format!("z.object({{ {name}: z.string() }})");
        for version in BOTH {
            let schema = schema_to_json(&source, version, ZodIo::Output).unwrap().schema;
            assert_eq!(schema["properties"][name]["type"], "string");
            assert_eq!(schema["required"][0], name);
        }
    }
    for source in [
        "z.constructor()",
        "z.__proto__.x()",
        "z.string().constructor()",
        "z.string()['__proto__']",
        "({}).constructor.constructor('x')()",
    ] {
        assert!(schema_code(source, ZodVersion::V3).is_some(), "{source}");
    }
}

#[test]
fn constants_that_grow_a_little_every_time_are_refused() {
    for (first, step) in [
        ("z.string()", "c{before}.min(1)"),
        ("z.object({})", "c{before}.extend({ k{index}: z.any() })"),
        ("z.union([z.string()])", "z.union([...c{before}.options, z.number()])"),
    ] {
        let mut source = format!("const c0 = {first};");
        for index in 1..20_000 {
            let step = step.replace("{before}", &(index - 1).to_string()).replace("{index}", &index.to_string());
            source.push_str(&format!("const c{index} = {step};\n"));
            if index % 50 == 0 {
                source.push_str(&format!(
                    "tool(run, {{ name: 't{index}', description: 'T', schema: z.object({{ a: c{index} }}) }});\n"
                ));
            }
        }
        let codes = codes(&source);
        assert!(codes.iter().any(|code| matches!(*code, "value_too_large" | "nested_too_deeply")), "{step} {codes:?}");
    }
}

#[test]
fn many_tools_with_one_large_schema_are_refused() {
    let fields: String =
        (0..2_000).map(|index| format!("k{index}: z.string().describe('a field of the schema'),")).collect();
    let tools = "tool(run, { name: 't', description: 'T', schema: s });\n".repeat(2_000);
    for import in ["zod/v3", "zod/v4"] {
        let source = format!("import {{ z }} from '{import}';\nconst s = z.object({{ {fields} }});\n{tools}");
        assert!(codes(&source).contains(&"value_too_large"), "{import}");
    }
}

#[test]
fn many_names_in_many_scopes_are_found_quickly() {
    let source =
        format!("{} tool(run, {{ name: 'a', description: 'A' }})", "{ const a = 1; a.b = 2; };\n".repeat(50_000));
    assert_eq!(codes(&source), [""; 0]);
    let deep = format!("{}{}", "{ const a = 1;".repeat(1_000), "}".repeat(1_000));
    assert_eq!(codes(&deep), ["nested_too_deeply"]);
}

#[test]
fn schemas_that_make_schemas_without_end_are_refused() {
    for version in BOTH {
        assert_eq!(schema_code("const make = () => z.lazy(make); z.lazy(make)", version), Some("recursive_value"));
    }
}
