//! Which tools are found, how names are resolved, and what is rejected, with its position.

use serde_json::json;

use std::collections::BTreeMap;

use super::super::{Converted, ToolForm, ZodIo, ZodOptions, ZodVersion, convert, schema_to_json};
use crate::FolderFiles;

/// `line:column code` of every fault.
fn faults(source: &str) -> Vec<String> {
    match convert(source, "tools.ts", ZodOptions::default()) {
        Ok(converted) if converted.faults.is_empty() => panic!("converted to {:?}", converted.tools),
        Ok(Converted { faults, .. }) | Err(faults) => {
            faults.iter().map(|fault| format!("{}:{} {}", fault.line, fault.column, fault.code)).collect()
        }
    }
}

#[track_caller]
fn refuses(source: &str, expect: &[&str]) {
    assert_eq!(faults(source), expect, "{source}");
}

/// `name form` of every tool.
#[track_caller]
fn finds(source: &str, expect: &[(&str, ToolForm)]) {
    let converted = convert(source, "tools.ts", ZodOptions::default()).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let found: Vec<(&str, ToolForm)> =
        converted.tools.iter().map(|found| (found.tool.name.as_str(), found.form)).collect();
    assert_eq!(found, expect, "{source}");
}

#[track_caller]
fn warns(source: &str, expect: &[&str]) {
    let converted = convert(source, "tools.ts", ZodOptions::default()).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let found: Vec<String> =
        converted.warnings.iter().map(|warning| format!("{} {}", warning.path, warning.code)).collect();
    assert_eq!(found, expect, "{source}");
}

#[track_caller]
fn parameters(source: &str, expect: serde_json::Value) {
    let converted = convert(source, "tools.ts", ZodOptions::default()).unwrap_or_else(|faults| panic!("{faults:#?}"));
    assert_eq!(*converted.tools[0].tool.parameters, expect, "{source}");
}

#[track_caller]
fn schema(source: &str, expect: serde_json::Value) {
    match schema_to_json(source, ZodVersion::V3, ZodIo::Input) {
        Ok(converted) => assert_eq!(converted.schema, expect, "{source}"),
        Err(faults) => panic!("{source}\n{faults:#?}"),
    }
}

#[test]
fn every_form_of_tool_is_found_in_the_order_of_the_source() {
    finds(
        r#"
        import { DynamicStructuredTool as Structured, tool as make, DynamicTool, StructuredTool } from "@langchain/core/tools";
        import * as tools from "@langchain/core/tools";
        import { z } from "zod";
        export const a = new Structured({ name: "a", description: "A", schema: z.object({}), func: async () => "" });
        const b = make(async ({ x }) => x, { name: "b", description: "B", schema: z.object({ x: z.string() }) });
        export default [a, b, { name: "c", description: "C", schema: z.object({}), call() {} }];
        class D extends StructuredTool { name = "d"; description = "D"; schema = z.object({}); async _call() { return ""; } }
        module.exports = { e: new DynamicTool({ name: "e", description: "E", func: run }) };
        function more() {
            const schema = z.object({ y: z.number() });
            return [new tools.DynamicTool({ name: "f", description: "F", func: run }), make(run, { name: "g", description: "G", schema })];
        }
        "#,
        &[
            ("a", ToolForm::DynamicStructuredTool),
            ("b", ToolForm::ToolFunction),
            ("c", ToolForm::Object),
            ("d", ToolForm::Class),
            ("e", ToolForm::DynamicTool),
            ("f", ToolForm::DynamicTool),
            ("g", ToolForm::ToolFunction),
        ],
    );
}

#[test]
fn options_written_as_a_constant_are_one_tool() {
    finds(
        "const options = { name: 'a', description: 'A', schema: z.object({}) }; const t = tool(run, options); tool(run, { ...options, name: 'b' });",
        &[("a", ToolForm::ToolFunction), ("b", ToolForm::ToolFunction)],
    );
}

#[test]
fn a_shape_with_the_names_of_a_tool_is_not_a_tool() {
    finds(
        "const t = { name: 'a', description: 'A', schema: z.object({ o: z.object({ name: z.string(), description: z.string(), schema: z.any() }) }) };
         const shape = { name: z.string(), description: z.string(), call: z.string() };",
        &[("a", ToolForm::Object)],
    );
}

#[test]
fn langchain_gives_a_tool_without_a_schema_one_string() {
    let expected = json!({ "type": "object", "properties": { "input": { "type": "string" } } });
    parameters("new DynamicTool({ name: 'a', description: 'A', func })", expected.clone());
    parameters("tool(run, { name: 'a', description: 'A' })", expected);
    parameters("const t = { name: 'a', description: 'A', call() {} }", json!({ "type": "object", "properties": {} }));
}

#[test]
fn a_json_schema_is_kept_as_it_is() {
    parameters(
        "tool(run, { name: 'a', description: 'A', schema: { type: 'object', properties: { x: { type: 'string' } }, required: ['x'] } })",
        json!({ "type": "object", "properties": { "x": { "type": "string" } }, "required": ["x"] }),
    );
}

#[test]
fn constants_are_followed() {
    schema(
        "const a = z.string(); const b = { a, ...{ c: z.number() } }; z.object(b)",
        json!({
            "type": "object", "properties": { "a": { "type": "string" }, "c": { "type": "number" } }, "required": ["a", "c"],
        }),
    );
    schema("const LIMITS = { max: 5 }; z.string().max(LIMITS.max)", json!({ "type": "string", "maxLength": 5 }));
    schema("const { max } = { max: 5 }; z.string().max(max)", json!({ "type": "string", "maxLength": 5 }));
    schema(
        "const names = ['a', 'b'] as const; z.string().describe(`one of ${names.join(', ')}`)",
        json!({ "type": "string", "description": "one of a, b" }),
    );
    schema("const more = ['c']; z.enum(['a', ...more])", json!({ "type": "string", "enum": ["a", "c"] }));
    schema(
        "z.enum(Object.keys({ a: 1, b: 2 }) as [string, ...string[]])",
        json!({ "type": "string", "enum": ["a", "b"] }),
    );
    schema("enum E { A = 'a', B = 'b' } z.literal(E.B)", json!({ "type": "string", "const": "b" }));
    schema(
        "const Colour = z.enum(['red', 'blue']); z.literal(Colour.enum.red)",
        json!({ "type": "string", "const": "red" }),
    );
    schema("const text = z.string; text().min(1)", json!({ "type": "string", "minLength": 1 }));
    schema("(z.string() as any)!.min(1)", json!({ "type": "string", "minLength": 1 }));
    schema("z.number().max(60 * 60 * 24 - 1)", json!({ "type": "number", "maximum": 86_399 }));
}

#[test]
fn the_innermost_declaration_wins() {
    finds(
        "const name = 'outer';
         function f() { const name = 'inner'; return tool(run, { name, description: 'd' }); }
         const g = tool(run, { name, description: 'd' });",
        &[("inner", ToolForm::ToolFunction), ("outer", ToolForm::ToolFunction)],
    );
}

#[test]
fn zod_is_found_however_it_is_imported() {
    for import in [
        "import { z } from 'zod';",
        "import z from 'zod';",
        "import * as z from 'zod';",
        "import { z as zed } from 'zod'; const z = zed;",
        "import zod from 'zod'; const z = zod.z;",
        "const { z } = require('zod');",
        "const z = require('zod').z;",
        "import { z } from 'zod/v3';",
    ] {
        let source = format!("{import} tool(run, {{ name: 'a', description: 'A', schema: z.object({{}}) }})");
        let converted =
            convert(&source, "tools.ts", ZodOptions::default()).unwrap_or_else(|faults| panic!("{import} {faults:?}"));
        assert_eq!(converted.warnings, [], "{import}");
    }
    finds(
        "import { object, string } from 'zod'; tool(run, { name: 'a', description: 'A', schema: object({ a: string() }) })",
        &[("a", ToolForm::ToolFunction)],
    );
}

#[test]
fn the_import_and_the_option_choose_the_version() {
    let tool = "tool(run, { name: 'a', description: 'A', schema: z.object({}) })";
    let strict = |import: &str, version: Option<ZodVersion>| {
        let converted =
            convert(&format!("{import} {tool}"), "tools.ts", ZodOptions { version, ..ZodOptions::default() }).unwrap();
        let codes: Vec<&str> = converted.warnings.iter().map(|warning| warning.code).collect();
        (converted.tools[0].tool.parameters.get("$schema").is_some(), codes.join(","))
    };
    assert_eq!(strict("import { z } from 'zod';", None), (false, String::new()));
    assert_eq!(strict("import { z } from 'zod';", Some(ZodVersion::V4)), (true, String::new()));
    assert_eq!(strict("import { z } from 'zod/v4';", None), (true, String::new()));
    assert_eq!(strict("import { z } from 'zod/v4';", Some(ZodVersion::V3)), (false, "zod_version_differs".to_owned()));
    assert_eq!(strict("", None), (false, "zod_not_imported".to_owned()));
    let installed = |import: &str| {
        let options = ZodOptions { installed: Some(ZodVersion::V4), ..ZodOptions::default() };
        let converted = convert(&format!("{import} {tool}"), "tools.ts", options).unwrap();
        converted.tools[0].tool.parameters.get("$schema").is_some()
    };
    assert!(installed("import { z } from 'zod';") && !installed("import { z } from 'zod/v3';"));
    refuses(
        "import * as z from 'zod/mini'; tool(run, { name: 'a', description: 'A', schema: z.object({}) })",
        &["1:81 unsupported_zod"],
    );
}

#[test]
fn a_computed_value_is_rejected_with_its_position() {
    let tool = |schema: &str| {
        format!(
            "import {{ z }} from 'zod';\nimport {{ other }} from './other';\nconst t = tool(run, {{\n  name: 'a', description: 'A',\n  schema: {schema},\n}});"
        )
    };
    refuses(&tool("buildSchema()"), &["5:11 unknown_name"]);
    refuses(&tool("other"), &["5:11 imported_value"]);
    refuses(&tool("z.object({ a: other.shape.a })"), &["5:25 imported_value"]);
    refuses(&tool("z.string().frobnicate()"), &["5:22 unknown_method"]);
    refuses(&tool("z.frobnicate()"), &["5:13 unknown_function"]);
    refuses(&tool("z.enum(flag ? ['a'] : ['b'])"), &["5:18 computed_value"]);
    refuses(&tool("z.string().min(other.length)"), &["5:26 imported_value"]);
    refuses(&tool("z.object({ a: await other() })"), &["5:25 computed_value"]);
    refuses(&tool("z.lazy(() => other)"), &["5:24 imported_value"]);
    refuses(&tool("5"), &["5:3 schema_unreadable"]);
    refuses("function f(x) {\n  return tool(run, { name: x, description: 'A' });\n}", &["2:28 computed_value"]);
    refuses(
        "let x = z.string();\nx = z.number();\ntool(run, { name: 'a', description: 'A', schema: z.object({ x }) })",
        &["3:61 changed_value"],
    );
    refuses(
        "const s = { a: z.string() };\ns.b = z.number();\ntool(run, { name: 'a', description: 'A', schema: z.object(s) })",
        &["3:59 changed_value"],
    );
    refuses(
        "const a = z.object({ b: a });\ntool(run, { name: 'a', description: 'A', schema: a })",
        &["1:25 used_before_definition"],
    );
    refuses(
        "tool(run, { name: 'a', description: 'A', schema: z.object({ __proto__: z.string() }) })",
        &["1:61 prototype_key"],
    );
    refuses("tool(run, options)", &["1:11 unknown_name"]);
    refuses("new DynamicTool()", &["1:1 options_missing"]);
    refuses("tool(run, { description: 'A' })", &["1:1 name_missing"]);
}

#[test]
fn all_faults_come_at_once() {
    refuses(
        "import { a } from './a';\ntool(run, { name: b, description: a, schema: z.object({ x: c, y: z.string().nope(), z: z.number().min('1') }) });\ntool(run, { name: 'x', description: d });",
        &[
            "2:19 unknown_name",
            "2:35 imported_value",
            "2:60 unknown_name",
            "2:77 unknown_method",
            "2:99 wrong_argument",
            "3:37 unknown_name",
        ],
    );
}

#[test]
fn irrelevant_values_need_not_be_readable() {
    schema(
        "z.string().min(1, message()).email({ message: t('x') }).refine(check, other)",
        json!({ "type": "string", "minLength": 1, "format": "email" }),
    );
    schema(
        "z.object({ a: z.string().transform(parse) }).superRefine(check)",
        json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] }),
    );
    finds(
        "tool(run, { name: 'a', description: 'A', schema: z.object({}), metadata: load(), ...undefined })",
        &[("a", ToolForm::ToolFunction)],
    );
}

#[test]
fn assumptions_are_reported() {
    warns(
        "import { z } from 'zod';\ntool(run, { name: 'a', schema: z.string() })",
        &["tools.ts:2:1 description_missing"],
    );
    warns(
        "import { z } from 'zod';\nconst n = z.object({ n: z.lazy(() => n) }); tool(run, { name: 'a', description: 'A', schema: n })",
        &["tools.ts:2:13 recursive_schema"],
    );
    warns(
        "import { z } from 'zod';\ntool(run, { name: 'a', description: 'A', schema: z.object({ a: z.string().optional().refine(check) }) })",
        &["tools.ts:2:86 optional_assumed"],
    );
    warns(
        "import { z } from 'zod';\ntool(run, { name: 'a', description: 'A', schema: z.number() })",
        &["tools.ts:2:42 parameters_not_object"],
    );
    let source = "import { z } from 'zod/v4';\ntool(run, { name: 'a', description: 'A', schema: z.object({ a: z.string().default('x') }) })";
    let output = ZodOptions { io: ZodIo::Output, ..ZodOptions::default() };
    let converted = convert(source, "tools.ts", output).unwrap();
    assert_eq!(converted.warnings[0].code, "default_is_required");
    warns(source, &[]);
    warns(
        "import { z } from 'zod';\nconst t = (x) => ({ name: x.name, description: 'A', schema: x.schema });",
        &["tools.ts:2:19 tool_not_read"],
    );
}

#[test]
fn the_forms_of_mcp_servers_are_found() {
    finds(
        r#"
        import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
        import { z } from "zod";
        const server = new McpServer({ name: "demo", version: "1" });
        const Shape = { city: z.string() };
        server.registerTool("a", { title: "A", description: "First", inputSchema: { x: z.number() } }, async () => {});
        server.registerTool("b", { description: "B", inputSchema: z.object(Shape), annotations: { readOnlyHint: true } }, run);
        server.registerTool("c", { description: "C" }, async () => {});
        this.server.tool("d", "D", Shape, async ({ city }) => city);
        server.tool("e", async () => {});
        server.tool("f", Shape, { destructiveHint: true }, run);
        server.tool("g", "G", async () => {});
        other.tool(3, run); other.registerTool();
        "#,
        &[
            ("a", ToolForm::RegisterTool),
            ("b", ToolForm::RegisterTool),
            ("c", ToolForm::RegisterTool),
            ("d", ToolForm::ServerTool),
            ("e", ToolForm::ServerTool),
            ("f", ToolForm::ServerTool),
            ("g", ToolForm::ServerTool),
        ],
    );
    let source = "import { z } from 'zod';\nserver.registerTool('a', { title: 'T', description: 'A', inputSchema: { x: z.number().optional() }, annotations: { readOnlyHint: true } }, run);\nserver.tool('b', 'B', run);";
    let converted = convert(source, "tools.ts", ZodOptions::default()).unwrap();
    let first = &converted.tools[0].tool;
    assert_eq!(*first.parameters, json!({"type": "object", "properties": {"x": {"type": "number"}}}));
    assert_eq!((first.display_name.as_deref(), first.annotations.read_only_hint), (Some("T"), Some(true)));
    assert_eq!(*converted.tools[1].tool.parameters, json!({"type": "object", "properties": {}}));
}

#[test]
fn the_forms_of_the_ai_sdk_and_of_mastra_are_found() {
    finds(
        r#"
        import { tool, generateText } from "ai";
        import { createTool } from "@mastra/core/tools";
        import { z } from "zod";
        const weather = tool({ description: "W", inputSchema: z.object({ city: z.string() }), execute: async () => {} });
        await generateText({ model, tools: { weather, time: tool({ description: "T", parameters: z.object({}) }), 'to-do': tool({ description: "D", inputSchema: z.object({}) }) } });
        export const search = createTool({ id: "web-search", description: "S", inputSchema: z.object({ q: z.string() }), execute });
        const named = tool({ name: "own", description: "N", parameters: z.object({}), execute });
        "#,
        &[
            ("weather", ToolForm::ToolObject),
            ("time", ToolForm::ToolObject),
            ("to-do", ToolForm::ToolObject),
            ("web-search", ToolForm::CreateTool),
            ("own", ToolForm::ToolObject),
        ],
    );
    warns(
        "import { tool } from 'ai';\nimport { z } from 'zod';\nconst weather = tool({ description: 'W', inputSchema: z.object({}) });",
        &["tools.ts:3:17 name_assumed"],
    );
    refuses(
        "import { tool } from 'ai';\nexport default tool({ description: 'W', inputSchema: 5 });",
        &["2:16 name_missing", "2:41 schema_unreadable"],
    );
}

#[test]
fn a_json_schema_of_the_ai_sdk_is_taken_as_it_is() {
    let source = r#"
        import { tool, jsonSchema as schemaOf, zodSchema } from "ai";
        import { z } from "zod";
        export const tools = {
            city: tool({ description: "C", inputSchema: schemaOf<{ city: string }>({ type: "object", properties: { city: { type: "string" } } }) }),
            day: tool({ description: "D", inputSchema: zodSchema(z.object({ day: z.number() })) }),
        };
    "#;
    let converted = convert(source, "tools.ts", ZodOptions::default()).unwrap();
    let [city, day] = converted.tools.as_slice() else { panic!("{:?}", converted.faults) };
    assert_eq!(*city.tool.parameters, json!({"type": "object", "properties": {"city": {"type": "string"}}}));
    assert_eq!(day.tool.parameters["properties"], json!({"day": {"type": "number"}}));
    refuses(
        "import { jsonSchema } from './own';\nexport const a = tool({ description: 'A', inputSchema: jsonSchema({}) });",
        &["2:56 imported_value"],
    );
}

#[test]
fn one_unreadable_tool_does_not_remove_the_others() {
    let source = "import { z } from 'zod';\ntool(run, { name: 'a', description: 'A', schema: z.object({ x: load() }) });\ntool(run, { name: 'b', description: 'B', schema: z.object({}) });";
    let converted = convert(source, "tools.ts", ZodOptions::default()).unwrap();
    assert_eq!(converted.tools.len(), 1);
    assert_eq!(converted.tools[0].tool.name, "b");
    let faults: Vec<_> = converted.faults.iter().map(|fault| (fault.line, fault.column, fault.code)).collect();
    assert_eq!(faults, [(2, 64, "unknown_name")]);
}

#[test]
fn a_fault_that_tools_share_names_them_all() {
    let source = "import { z } from 'zod';\nconst id = load();\ntool(run, { name: 'a', description: 'A', schema: z.object({ id }) });\ntool(run, { name: 'b', description: 'B', schema: z.object({ id }) });";
    let converted = convert(source, "tools.ts", ZodOptions::default()).unwrap();
    let messages: Vec<_> = converted.faults.iter().map(|fault| fault.message.as_str()).collect();
    let expect = "`load` is not declared in this file; the tools at lines 3, 4 are left out";
    assert_eq!(messages, [expect]);
}

#[test]
fn a_name_that_is_not_read_is_a_fault_at_each_use() {
    refuses(
        "import { id } from 'elsewhere';\nconst first = id;\ntool(run, { name: 'a', description: 'A', schema: id });\ntool(run, { name: 'b', description: 'B', schema: id });",
        &["3:50 imported_value", "4:50 imported_value"],
    );
    let mcp =
        "import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';\nimport { NAMES } from './names';\n";
    for (call, column) in [("server.tool(NAMES.b, 'B', run)", 13), ("server.registerTool(NAMES.b, {}, run)", 21)] {
        let source = format!("{mcp}log(NAMES.a);\nserver.registerTool(NAMES.a, {{}}, run);\n{call};");
        refuses(&source, &["4:21 imported_value", &format!("5:{column} imported_value")]);
    }
}

#[test]
fn a_server_tool_with_a_computed_name_is_a_fault() {
    for (source, expect) in [
        ("import { NAMES } from './names';\nserver.tool(NAMES.x, 'X', {}, async () => 1);", "2:13 imported_value"),
        ("server.tool(prefix + 'x', 'X', {}, function () {});", "1:13 unknown_name"),
        ("for (const t of tools) server.tool(t.name, t.description, t.shape, () => 1);", "1:36 computed_value"),
        (
            "import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';\nfunction add(server, t) { server.tool(t.name, t.run); }",
            "2:39 computed_value",
        ),
    ] {
        refuses(source, &[expect]);
    }
    warns("import { z } from 'zod';\nserver.tool(names.x, 'X', {}, run);", &["tools.ts:2:1 tool_not_read"]);
    warns("import { z } from 'zod';\nserver.tool({ x: 1 }, 'X', {}, run);", &[]);
}

#[test]
fn a_fault_in_a_file_with_both_versions_is_that_of_the_tools_own_version() {
    let source = "import * as z3 from 'zod/v3';\nimport * as z4 from 'zod/v4';\ntool(run, { name: 'a', description: 'A', schema: z4.object({ x: z4.string() }) });\ntool(run, { name: 'b', description: 'B', schema: z4.object({ x: load() }) });\ntool(run, { name: 'c', description: 'C', schema: z3.object({ x: load() }) });";
    let converted = convert(source, "tools.ts", ZodOptions::default()).unwrap();
    assert_eq!(converted.tools.len(), 1);
    let faults: Vec<_> = converted.faults.iter().map(|fault| (fault.line, fault.column, fault.code)).collect();
    assert_eq!(faults, [(4, 65, "unknown_name"), (5, 65, "unknown_name")]);
}

#[test]
fn both_versions_of_zod_may_be_in_one_file() {
    let source = "import * as z3 from 'zod/v3';\nimport * as z4 from 'zod/v4';\ntool(run, { name: 'a', description: 'A', schema: z3.object({ x: z3.string() }) });\ntool(run, { name: 'b', description: 'B', schema: z4.object({ x: z4.string() }) });\ntool(run, { name: 'c', description: 'C' });";
    let converted = convert(source, "tools.ts", ZodOptions::default()).unwrap();
    assert_eq!(converted.faults, []);
    let versions: Vec<_> = converted
        .tools
        .iter()
        .map(|found| (found.tool.name.as_str(), found.tool.parameters.get("$schema").is_some()))
        .collect();
    assert_eq!(versions, [("a", false), ("b", true), ("c", false)]);
    let mixed = source.replace("z4.object({ x: z4.string() })", "z4.object({ x: z3.string() })");
    let codes: Vec<_> =
        convert(&mixed, "tools.ts", ZodOptions::default()).unwrap().faults.iter().map(|fault| fault.code).collect();
    assert_eq!(codes, ["mixed_zod_versions", "mixed_zod_versions"]);
}

#[test]
fn zod_alone_is_the_installed_version_next_to_a_path_of_the_other() {
    let source = |named: &str| {
        format!(
            "import * as named from '{named}';\nimport * as z from 'zod';\ntool(run, {{ name: 'named', description: 'A', schema: named.object({{ x: named.string() }}) }});\ntool(run, {{ name: 'alone', description: 'B', schema: z.object({{ x: z.number().int() }}) }});"
        )
    };
    for (named, installed) in [("zod/v3", ZodVersion::V4), ("zod/v4", ZodVersion::V3), ("zod/v3", ZodVersion::V3)] {
        let options = ZodOptions { installed: Some(installed), ..ZodOptions::default() };
        let converted = convert(&source(named), "tools.ts", options).unwrap();
        assert_eq!(converted.faults, []);
        // Only Zod 4 writes `$schema`.
        let is_4: Vec<_> = converted.tools.iter().map(|found| found.tool.parameters.get("$schema").is_some()).collect();
        assert_eq!(is_4, [named == "zod/v4", installed == ZodVersion::V4], "{named} next to {installed:?}");
    }
}

/// Files by their paths.
#[derive(Debug)]
struct TestFiles(BTreeMap<&'static str, &'static str>);

impl FolderFiles for TestFiles {
    fn read(&self, path: &str) -> Result<String, String> {
        self.0.get(path).map(|text| (*text).to_owned()).ok_or_else(|| format!("there is no `{path}`"))
    }
}

#[test]
fn relative_imports_are_followed() {
    let files = TestFiles(BTreeMap::from([
        (
            "schemas.ts",
            "import { z } from 'zod';\nimport { LIMIT } from './lib/limits.js';\nexport const City = z.string().max(LIMIT);\nexport { Colour as Shade } from './lib/colour';\nexport * from './lib/more';\nexport const broken = z.object({ x: load() });\ntool(run, { name: 'not-here', description: 'N' });",
        ),
        ("lib/limits.ts", "export const LIMIT = 60;"),
        (
            "lib/colour/index.ts",
            "import z from 'zod';\nexport enum Names { Red = 'red' }\nexport const Colour = z.nativeEnum(Names);\nexport default { z: z.number() };",
        ),
        ("lib/more.js", "const z = require('zod').z;\nexport const Flag = z.boolean();"),
    ]));
    let options = ZodOptions { files: Some(&files), ..ZodOptions::default() };
    let source = "import { z } from 'zod';\nimport { City, Shade, Flag, broken, absent } from './schemas';\nimport * as all from './schemas';\nimport extra from './lib/colour';\nimport { gone } from './gone';\nimport { up } from '../../../etc/passwd';\ntool(run, { name: 'a', description: 'A', schema: z.object({ city: City, shade: Shade, flag: Flag, again: all.City, n: extra.z }) });\ntool(run, { name: 'b', description: 'B', schema: broken });\ntool(run, { name: 'c', description: 'C', schema: z.object({ gone, absent, up }) });";
    let converted = convert(source, "tools.ts", options).unwrap();
    assert_eq!(converted.tools.len(), 1, "{:?}", converted.faults);
    assert_eq!(
        converted.tools[0].tool.parameters["properties"],
        json!({
            "city": {"type": "string", "maxLength": 60}, "shade": {"type": "string", "enum": ["red"]},
            "flag": {"type": "boolean"}, "again": {"type": "string", "maxLength": 60}, "n": {"type": "number"},
        })
    );
    let faults: Vec<_> =
        converted.faults.iter().map(|fault| (fault.line, fault.code, fault.message.as_str())).collect();
    assert_eq!(
        faults,
        [
            (2, "unknown_name", "in `schemas.ts`, line 6: `load` is not declared in this file"),
            (9, "imported_value", "`gone` is imported from `./gone`, which is not read"),
            (9, "imported_value", "the file exports no `absent`"),
            (9, "imported_value", "`up` is imported from `../../../etc/passwd`, which is not read"),
        ]
    );
    let without = convert(source, "tools.ts", ZodOptions::default()).unwrap();
    assert_eq!(without.tools.len(), 0);
}

#[test]
fn imports_in_a_circle_end() {
    let files = TestFiles(BTreeMap::from([
        ("a.ts", "export * from './b';\nimport { y } from './b';\nexport const x = y;"),
        ("b.ts", "export * from './a';\nimport { x } from './a';\nexport const y = x;"),
    ]));
    let options = ZodOptions { files: Some(&files), ..ZodOptions::default() };
    let source = "import { x, never } from './a';\ntool(run, { name: 'a', description: 'A', schema: x });\ntool(run, { name: 'b', description: 'B', schema: never });";
    let codes: Vec<_> = convert(source, "tools.ts", options).unwrap().faults.iter().map(|fault| fault.code).collect();
    assert_eq!(codes, ["used_before_definition", "imported_value"]);
}

#[test]
fn a_program_may_begin_with_the_interpreter() {
    finds(
        "#!/usr/bin/env node\nimport { z } from 'zod';\ntool(run, { name: 'a', description: 'A', schema: z.object({}) });",
        &[("a", ToolForm::ToolFunction)],
    );
}

#[test]
fn syntax_errors_have_a_position() {
    refuses("const a = ;", &["1:11 syntax_error"]);
    refuses("tool(run, {\n  name: 'a'", &["2:12 syntax_error"]);
}

/// The files of `fixtures/zod/tools` as lists of ARK tools. `BLESS=1` rewrites the records.
#[test]
fn whole_files_give_the_recorded_tools() {
    let folder = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/zod/tools");
    for name in ["langchain.ts", "plain.js", "zod4.ts", "mcp-server.ts", "agents.ts"] {
        let source = std::fs::read_to_string(folder.join(name)).unwrap();
        let converted =
            convert(&source, name, ZodOptions::default()).unwrap_or_else(|faults| panic!("{name} {faults:#?}"));
        let tools: Vec<serde_json::Value> = converted
            .tools
            .iter()
            .map(|found| {
                json!({
                    "type": "custom",
                    "name": found.tool.name,
                    "description": found.tool.description,
                    "parameters": *found.tool.parameters,
                    "executionMode": "external",
                })
            })
            .collect();
        let given =
            serde_json::to_string_pretty(&json!({ "tools": tools, "warnings": converted.warnings })).unwrap() + "\n";
        let file = folder.join(format!("{name}.json"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&file, &given).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), given, "{name}");
    }
}
