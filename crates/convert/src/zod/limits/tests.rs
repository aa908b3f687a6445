use super::check;

#[track_caller]
fn passes(source: &str) {
    assert_eq!(check(source).map_err(|problem| problem.code), Ok(()), "{source:.120}");
}

#[track_caller]
fn refuses(source: &str, code: &str) {
    assert_eq!(check(source).map_err(|problem| problem.code), Err(code), "{source:.120}");
}

#[test]
fn ordinary_sources_pass() {
    passes("");
    passes("#!/usr/bin/env node `\nconst a = 1");
    passes("const schema = z.object({ a: z.string().regex(/[/'\"`({[]\\/(/i), b: 1 / 2 / 3 });");
    passes("const text = `a ${b ? `c ${d}` : '}'} e`; // ' ` ( {\n/* ` */ const x = a / b;");
    passes("const half = (a + b) / 2; const c = f(x) / g(y) / h('z');");
    passes("const a = s.refine((v) => /^[`'\"(]/.test(v)); if (a) /[`]/.test(b)");
    passes("const a = b! / c; let x = i++ / 2; const r = v.return / 2 / 3;");
}

#[test]
fn many_statements_are_not_depth() {
    passes(&"const a = { b: [1, 2, 3], c: (d) => d };\n".repeat(20_000));
    passes(&"const a = { b: [1, 2, 3], c: (d) => d }\n".repeat(20_000));
    passes(&"const a = { b: [1, 2] } as const;\n".repeat(20_000));
    passes(&format!("const all = [{}]", "z.string().min(1), ".repeat(20_000)));
    passes(&"const a: Map<string, Array<Set<number>>> = new Map<string, Array<Set<number>>>()\n".repeat(9_000));
}

#[test]
fn depth_of_every_kind_is_refused() {
    let units = [
        "(",
        "[",
        "{ a: ",
        "!",
        "- ",
        "typeof ",
        "a => ",
        "a ? b : ",
        "a = ",
        "if (a) ",
        "a.b",
        "`${",
        "A<",
        "A<B, ",
        "new ",
        "x: ",
        "if (a); else ",
        "if (a) {} else ",
        "a ? b as const : ",
        "<const>",
        "function () {",
        "class extends ",
        "do ",
    ];
    for unit in units {
        refuses(&unit.repeat(10_000), "nested_too_deeply");
    }
    refuses(&format!("z.string(){}", ".min(1)".repeat(10_000)), "nested_too_deeply");
    refuses(&format!("const a = {}1", "1 + ".repeat(10_000)), "nested_too_deeply");
}

#[test]
fn literals_do_not_count() {
    passes(&format!("const a = '{}'", "((([[[".repeat(10_000)));
    passes(&format!("const a = `{}`", "((([[[\n".repeat(10_000)));
    passes(&format!("/* {} */", "((([[[\n".repeat(10_000)));
    passes(&format!("const a = /{}/", "\\(\\[".repeat(10_000)));
}

#[test]
fn a_slash_that_could_hide_depth_is_refused() {
    for source in ["x = {} /'/ 1", "await /[`]/", "++/`/", "f<T> /(/ 2", "a! /(/ 2", "1. /(/ 2"] {
        refuses(source, "ambiguous_slash");
    }
}

#[test]
fn text_that_only_looks_skippable_is_scanned() {
    let deep = "(".repeat(10_000);
    for hidden in ["a. return /", "// x\r", "// x\u{2028}", "return\u{a0}/`/;", "'\n", "if (a) /`/; "] {
        refuses(&format!("{hidden}{deep}"), "nested_too_deeply");
    }
}

#[test]
fn a_huge_source_is_refused_without_reading_it() {
    refuses(&" ".repeat(100 * 1024 * 1024), "source_too_long");
}
