//! Any text as the export of an n8n workflow, checked and written in every format.
#![no_main]

use bosun_convert::{ConvertOptions, Format, NodeTypes, check, write};
use libfuzzer_sys::fuzz_target;

/// Types of the nodes that a workflow is most likely to have.
const TYPES: &str = r#"[
    {"name": "n8n-nodes-base.httpRequestTool", "version": [4, 4.2], "defaults": {"name": "HTTP Request"}, "description": "Makes a request"},
    {"name": "slack", "version": [2, 2.3], "defaults": {"name": "Slack"}, "properties": [
        {"name": "resource", "default": "message", "displayOptions": {"show": {"@version": [2]}}},
        {"name": "operation", "default": "post", "displayOptions": {"show": {"resource": ["message"]}}, "options": [{"value": "post", "action": "Send a message"}]}
    ]},
    {"name": "@n8n/n8n-nodes-langchain.toolThink", "version": 1.1, "properties": [{"name": "description", "default": "Thinks"}]}
]"#;

fuzz_target!(|text: &str| {
    // The text is a file of node types too, if it can be read as one.
    let given = [NodeTypes::read(TYPES).ok(), NodeTypes::read(text).ok(), None];
    for types in &given {
        let options =
            ConvertOptions { from: Some(Format::N8n), n8n_nodes: types.as_ref(), ..ConvertOptions::default() };
        let checked = check(text, options);
        for target in Format::TARGETS {
            let written = write(&checked.tools, target);
            assert!(written.is_ok_and(|written| written.documents.to_yaml().is_ok()));
        }
    }
});
