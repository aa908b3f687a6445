//! Prints the tools of an n8n export, by the nodes that they are.
//!
//! `n8n_tools EXPORT NODES`, where NODES is the `nodes.json` of an n8n. The answer is `{"tools": […], "faults": {…}}`, with
//! the reason for each node that is left out. `interop/n8n/compare.cjs` compares it with n8n's own packages.

use std::{env, error::Error, fs};

use bosun_convert::{ConvertOptions, Format, NodeTypes, document, read};
use serde_json::{Map, Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (export, nodes) = (arguments.next().ok_or("which export?")?, arguments.next().ok_or("which nodes.json?")?);
    let types = NodeTypes::read(&fs::read_to_string(nodes)?)?;
    let bytes = fs::read(export)?;
    let text = document::decode(&bytes)?;
    let workflow: Value = serde_json::from_str(text)?;
    let options = ConvertOptions { from: Some(Format::N8n), n8n_nodes: Some(&types), ..ConvertOptions::default() };
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
    let answer = json!({"tools": tools.collect::<Vec<_>>(), "faults": faults});
    #[expect(clippy::print_stdout, reason = "an example that answers on standard output")]
    {
        println!("{answer}");
    }
    Ok(())
}
