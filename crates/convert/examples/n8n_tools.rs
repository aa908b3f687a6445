//! Prints the tools of n8n exports, by the nodes that they are.
//!
//! `n8n_tools NODES`, where NODES is the `nodes.json` of an n8n. Each line of standard input is the path of an export; each
//! answer is a line `{"tools": […], "faults": {…}}`, with the reason for each node that is left out.
//! `interop/n8n/compare.cjs` compares it with n8n's own packages.

use std::{env, error::Error, fs, io};

use bosun_convert::{ConvertOptions, Format, NodeTypes, document, read};
use serde_json::{Map, Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = env::args().nth(1).ok_or("which nodes.json?")?;
    let types = NodeTypes::read(&fs::read_to_string(nodes)?)?;
    for export in io::stdin().lines() {
        let answer = tools_of(&export?, &types)?;
        #[expect(clippy::print_stdout, reason = "an example that answers on standard output")]
        {
            println!("{answer}");
        }
    }
    Ok(())
}

fn tools_of(export: &str, types: &NodeTypes) -> Result<Value, Box<dyn Error>> {
    let bytes = fs::read(export)?;
    let text = document::decode(&bytes)?;
    let workflow: Value = serde_json::from_str(text)?;
    let options = ConvertOptions { from: Some(Format::N8n), n8n_nodes: Some(types), ..ConvertOptions::default() };
    let conversion = read(text, options)?;
    let node = |path: &str| {
        let path = path.strip_prefix("data.").unwrap_or(path);
        let index: usize = path.strip_prefix("nodes[")?.split(']').next()?.parse().ok()?;
        let nodes = workflow.get("nodes").or_else(|| workflow.get("data")?.get("nodes"))?;
        Some(nodes.get(index)?.get("name")?.as_str()?.to_owned())
    };
    let mut renamed = Map::new();
    let mut faults = Map::new();
    for warning in &conversion.warnings {
        if let Some(node) = node(&warning.path) {
            match warning.code {
                "renamed" => _ = renamed.insert(node, true.into()),
                "needs_n8n" => _ = faults.insert(node, warning.code.into()),
                _ => {}
            }
        }
    }
    for fault in &conversion.faults {
        if let Some(node) = node(fault.path.as_str()) {
            faults.insert(node, fault.code.into());
        }
    }
    let tools = conversion.tools.iter().map(|found| {
        let node = node(found.origin.path.as_str());
        let is_renamed = node.as_ref().is_some_and(|node| renamed.contains_key(node));
        json!({
            "node": node, "name": found.tool.name, "qualified": is_renamed.then_some(&found.tool.name),
            "description": found.tool.description, "parameters": found.tool.parameters,
        })
    });
    Ok(json!({"tools": tools.collect::<Vec<_>>(), "faults": faults}))
}
