//! Tool definitions that are as costly as their size allows.
//!
//! A schema may have 256 KiB, so a body of 1 MiB has four of them. Each function fills them with one kind
//! of keyword.

use serde_json::{Map, Value, json};

/// Schemas of one body, and bytes of each.
const TOOLS: usize = 4;
const SCHEMA: usize = 240 << 10;
/// Just below the limits of one schema.
const SUBSCHEMAS: usize = 1_900;

type Tools = fn() -> Value;

/// Lists of tools, by the keyword that they are full of.
pub(super) const ALL: &[(&str, Tools)] = &[
    ("patterns", || pattern_bomb(1_600, "[^b]{500}")),
    ("patterns of classes", || pattern_bomb(1_600, "\\p{L}{60}")),
    ("patterns of repeats", || pattern_bomb(1_600, "(a{1,60}){1,60}")),
    ("patterns of words", || pattern_bomb(1_000, &alternatives(60))),
    ("patterns with look-ahead", || pattern_bomb(1_600, "(?=.*a{9})(?!.*b{9})")),
    ("a pattern for each tool", patterns_of_many_tools),
    ("pattern properties", || filled(|index| ("patternProperties", format!("^k{index}[^b]{{90}}"), json!({})))),
    ("properties", || {
        filled(|index| ("properties", format!("p{index}"), json!({"type": "string", "description": "d"})))
    }),
    ("properties beyond the limit", || packed(|| members("properties", 20_000, |_| json!({})))),
    ("names of properties", || packed(|| json!({"properties": {"n".repeat(SCHEMA): {}}}))),
    ("required names", || packed(|| json!({"required": (0..20_000).map(|name| name.to_string()).collect::<Vec<_>>()}))),
    ("values of enums", || {
        filled(|index| ("properties", format!("p{index}"), json!({"enum": [1, 2, 3, 4, 5, 6, 7, 8]})))
    }),
    ("one long enum", || packed(|| json!({"properties": {"p": {"enum": (0..40_000).collect::<Vec<_>>()}}}))),
    ("an enum of long texts", || packed(|| json!({"properties": {"p": {"enum": vec!["x".repeat(240); 900]}}}))),
    ("a large constant", || packed(|| json!({"properties": {"p": {"const": vec![0; SCHEMA / 2]}}}))),
    ("a large default", || packed(|| json!({"properties": {"p": {"default": vec![vec![0; 10]; SCHEMA / 24]}}}))),
    ("large examples", || packed(|| json!({"properties": {"p": {"examples": vec!["x"; SCHEMA / 4]}}}))),
    ("all of", || packed(|| json!({"allOf": vec![json!({"minProperties": 1}); SUBSCHEMAS]}))),
    ("any of", || packed(|| json!({"properties": {"p": {"anyOf": vec![json!({"type": "string"}); SUBSCHEMAS]}}}))),
    ("one of", || packed(|| json!({"properties": {"p": {"oneOf": vec![json!({"minLength": 1}); SUBSCHEMAS]}}}))),
    ("references that double", || packed(|| doubling(40))),
    ("references that add up", || packed(|| adding_up(440))),
    ("a chain of references", || packed(|| chain(SUBSCHEMAS))),
    ("references in a circle", || {
        packed(|| json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}))
    }),
    ("references to one place", || filled(|index| ("properties", format!("p{index}"), json!({"$ref": "#"})))),
    ("long references", || packed(|| json!({"properties": {"p": {"$ref": format!("#/{}", "a/".repeat(SCHEMA / 2))}}}))),
    ("anchors", || filled(|index| ("$defs", format!("d{index}"), json!({"$anchor": format!("a{index}")})))),
    ("references to anchors", || packed(|| anchors(900))),
    ("dynamic references", || filled(|index| ("properties", format!("p{index}"), json!({"$dynamicRef": "#x"})))),
    ("conditions", || {
        packed(
            || json!({"allOf": vec![json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {}}); 450]}),
        )
    }),
    ("negations", || packed(|| nested("not", 60))),
    ("nested arrays", || packed(|| nested("items", 60))),
    ("deeper than the limit", || packed(|| nested("not", 120))),
    ("dependent schemas", || filled(|index| ("dependentSchemas", format!("p{index}"), json!({"required": ["a"]})))),
    ("dependent names", || packed(|| members("dependentRequired", 8_000, |_| json!(["a", "b"])))),
    ("tuples", || {
        packed(|| json!({"properties": {"p": {"prefixItems": vec![json!({"type": "string"}); SUBSCHEMAS]}}}))
    }),
    ("tuples of draft 7", || {
        packed(|| json!({"properties": {"p": {"items": vec![json!({"type": "string"}); SUBSCHEMAS]}}}))
    }),
    ("references into tuples", || packed(tuple_of_references)),
    ("boolean bounds", || {
        filled(|index| ("properties", format!("p{index}"), json!({"minimum": index, "exclusiveMinimum": true})))
    }),
    ("unevaluated properties", || {
        filled(|index| ("properties", format!("p{index}"), json!({"unevaluatedProperties": false})))
    }),
    ("divisors", || {
        filled(|index| ("properties", format!("p{index}"), json!({"multipleOf": 1e-300 * (index + 1) as f64})))
    }),
    ("formats", || filled(|index| ("properties", format!("p{index}"), json!({"format": format!("f{index}")})))),
    ("unknown keywords", || {
        packed(|| Value::Object((0..16_000).map(|index| (format!("k{index}"), json!(0))).collect()))
    }),
    ("misspelled keywords", || {
        packed(|| Value::Object((0..12_000).map(|index| (format!("requried{index}"), json!(0))).collect()))
    }),
    ("contradictions", || {
        filled(|index| ("properties", format!("p{index}"), json!({"optional": "no", "nullable": 7})))
    }),
    ("prompts", || filled(|index| ("properties", format!("p{index}"), json!({"prompt": "p", "hint": "h"})))),
    ("invalid types", || filled(|index| ("properties", format!("p{index}"), json!({"type": format!("t{index}")})))),
    ("zeros for schemas", || filled(|index| ("properties", format!("p{index}"), json!(0)))),
    ("titles", || packed(|| json!({"title": "t".repeat(SCHEMA), "$comment": "c"}))),
    ("many tools", || tools(1_000, |_| json!({"type": "object", "properties": {"a": {"type": "string"}}}))),
    ("too many tools", || tools(8_000, |_| json!({}))),
    ("one name for many tools", || json!(vec![json!({"name": "same", "parameters": {"type": "object"}}); 1_000])),
    ("a long name", || json!([{"name": "n".repeat(1_000_000)}])),
    ("invisible names", || named(|index| format!("tool\u{200b}{index}"))),
    ("names in two scripts", || named(|index| format!("tоol{index}"))),
    ("names that need an alias", || named(|index| format!("werkzeug für {index} 🔧"))),
    ("a long description", || json!([{"name": "t", "description": "d".repeat(1_000_000)}])),
    ("invisible descriptions", || json!(vec![json!({"name": "t", "description": "\u{2062}".repeat(300)}); 1_000])),
    ("annotations", || {
        json!(vec![json!({"name": "t", "annotations": {"title": "x".repeat(500)}, "timeout": "x", "cache": []}); 1_000])
    }),
    ("parameters that are no object", || json!(vec![json!({"name": "t", "parameters": [[]]}); 1_000])),
    ("functions in envelopes", || {
        json!(vec![json!({"type": "function", "function": {"name": 0, "parameters": 0}}); 1_000])
    }),
];

/// Tools with `count` parameters that each have a pattern of their own.
pub(super) fn pattern_bomb(count: usize, pattern: &str) -> Value {
    let mut tools = Vec::new();
    for (number, first) in (0..count).step_by(SUBSCHEMAS / TOOLS).enumerate() {
        let last = count.min(first + SUBSCHEMAS / TOOLS);
        let patterns: Map<String, Value> = (first..last)
            .map(|index| (format!("p{index}"), json!({"pattern": format!("z{index}{pattern}")})))
            .collect();
        tools.push(json!({"name": format!("t{number}"), "parameters": {"type": "object", "properties": patterns}}));
    }
    Value::Array(tools)
}

fn alternatives(words: usize) -> String {
    let words: Vec<String> = (0..words).map(|word| format!("w{word}x{{9}}")).collect();
    format!("({})", words.join("|"))
}

fn tools(count: usize, parameters: impl Fn(usize) -> Value) -> Value {
    (0..count).map(|index| json!({"name": format!("t{index}"), "parameters": parameters(index)})).collect()
}

/// As many tools as fit, each with this schema.
fn packed(schema: impl Fn() -> Value) -> Value {
    let schema = schema();
    let length = schema.to_string().len();
    tools((SCHEMA * TOOLS / length.max(1)).clamp(1, 200), |index| {
        let mut parameters = schema.clone();
        parameters["type"] = json!("object");
        // All tools are different, so that no cached one is reused.
        parameters["$comment"] = json!(index);
        parameters
    })
}

/// Schemas full of members of one keyword: its name, the name of each member, and the member.
fn filled(member: fn(usize) -> (&'static str, String, Value)) -> Value {
    packed(|| {
        let (mut members, mut length, mut keyword) = (Map::new(), 0, "");
        for index in 0..SUBSCHEMAS / 2 {
            let (name, key, value) = member(index);
            keyword = name;
            length += key.len() + value.to_string().len() + 4;
            if length > SCHEMA {
                break;
            }
            members.insert(key, value);
        }
        json!({keyword: members})
    })
}

fn members(keyword: &str, count: usize, member: fn(usize) -> Value) -> Value {
    let members: Map<String, Value> = (0..count).map(|index| (format!("p{index}"), member(index))).collect();
    json!({keyword: members})
}

/// Each definition refers to the next one twice.
fn doubling(levels: usize) -> Value {
    let definitions: Map<String, Value> = (0..levels)
        .map(|level| {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            (format!("d{level}"), json!({"allOf": [next, next], "properties": {"a": next, "b": next}}))
        })
        .chain([(format!("d{levels}"), json!({}))])
        .collect();
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

/// Each definition adds a parameter to those of the next one, and every parameter is the whole again.
fn adding_up(levels: usize) -> Value {
    let definitions: Map<String, Value> = (0..levels)
        .map(|level| {
            let parameter = json!({format!("p{level}"): {"$ref": "#"}});
            (format!("d{level}"), json!({"$ref": format!("#/$defs/d{}", level + 1), "properties": parameter}))
        })
        .chain([(format!("d{levels}"), json!({}))])
        .collect();
    json!({"allOf": [{"$ref": "#/$defs/d0"}], "$defs": definitions})
}

fn chain(links: usize) -> Value {
    let definitions: Map<String, Value> = (0..links)
        .map(|link| (format!("d{link}"), json!({"$ref": format!("#/$defs/d{}", link + 1)})))
        .chain([(format!("d{links}"), json!({}))])
        .collect();
    json!({"properties": {"p": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
}

fn anchors(count: usize) -> Value {
    let of = |make: &dyn Fn(usize) -> Value| {
        (0..count).map(|index| (format!("p{index}"), make(index))).collect::<Map<_, _>>()
    };
    let properties = of(&|index| json!({"$ref": format!("#a{index}")}));
    json!({"properties": properties, "$defs": of(&|index| json!({"$anchor": format!("a{index}")}))})
}

/// References that have to be rewritten when the tuple is translated to a later draft.
fn tuple_of_references() -> Value {
    let places: Vec<Value> = (0..900)
        .map(|index| {
            if index == 0 {
                json!({"type": "string"})
            } else {
                json!({"$ref": format!("#/properties/p/items/{}", index - 1)})
            }
        })
        .collect();
    json!({"properties": {"p": {"items": places, "additionalItems": {"$ref": "#/properties/p/items/899"}}}})
}

fn nested(keyword: &str, depth: usize) -> Value {
    let nested = (0..depth).fold(json!({}), |inner, _| json!({keyword: inner}));
    json!({"properties": {"p": nested}})
}

fn patterns_of_many_tools() -> Value {
    tools(900, |index| json!({"type": "object", "properties": {"p": {"pattern": format!("z{index}[^b]{{500}}")}}}))
}

fn named(name: fn(usize) -> String) -> Value {
    (0..1_000).map(|index| json!({"name": name(index), "description": "d", "parameters": {"type": "object"}})).collect()
}
