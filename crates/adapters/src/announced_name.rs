//! The names in the catalogue of what a server announces: the tools of an MCP server, the agent behind an A2A server.
//!
//! A tool is called `<server>-<tool>`, with `-` for every character that a name of ARK cannot have. A server's tools
//! always have the prefix, so that adding another server renames none. A name of more than 64 characters, which model
//! APIs refuse, and a name that two tools would share, end with a hash of the server's own name of the tool.

use std::collections::HashMap;

use bosun_core::ContentHash;

/// The longest name that every model API accepts.
const LONGEST: usize = 64;
const HASH_DIGITS: usize = 8;

/// The names of these tools of a server, in the same order. A name depends on the other tools only if it would be
/// the same as that of one of them.
#[must_use]
pub fn in_catalogue(server: &str, tools: &[&str]) -> Vec<String> {
    let plain: Vec<String> = tools.iter().map(|tool| format!("{server}-{}", spelled(tool))).collect();
    let mut sharing: HashMap<&str, usize> = HashMap::new();
    for name in &plain {
        *sharing.entry(name).or_default() += 1;
    }
    let name = |(tool, plain): (&&str, &String)| {
        let is_exact = plain.len() == server.len() + 1 + tool.len() && plain.ends_with(*tool);
        let is_shared = sharing.get(plain.as_str()).is_some_and(|tools| *tools > 1);
        if plain.len() <= LONGEST && (!is_shared || is_exact) { plain.clone() } else { with_hash(plain, tool) }
    };
    tools.iter().zip(&plain).map(name).collect()
}

/// A name as Kubernetes spells names: lower case, digits and `-`, without one at the ends.
fn spelled(tool: &str) -> String {
    let letter = |letter: char| {
        let letter = letter.to_ascii_lowercase();
        if letter.is_ascii_alphanumeric() { letter } else { '-' }
    };
    let spelled: String = tool.chars().map(letter).collect();
    match spelled.trim_matches('-') {
        "" => "tool".to_owned(),
        name => name.to_owned(),
    }
}

fn with_hash(plain: &str, tool: &str) -> String {
    let hash = ContentHash::of(tool.as_bytes()).to_string();
    let digits = hash.get(..HASH_DIGITS).unwrap_or(&hash);
    // Every character is one byte.
    let kept = plain.get(..LONGEST - HASH_DIGITS - 1).unwrap_or(plain).trim_end_matches('-');
    format!("{kept}-{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_server_and_the_tool_in_arks_spelling() {
        for (tool, expect) in [
            ("read_file", "files-read-file"),
            ("read-file", "files-read-file"),
            ("getTinyImage", "files-gettinyimage"),
            ("fs.read", "files-fs-read"),
            ("日本", "files-tool"),
        ] {
            assert_eq!(in_catalogue("files", &[tool]), [expect]);
        }
    }

    #[test]
    fn a_name_that_two_tools_would_share_gets_a_hash_unless_it_is_exact() {
        let names = in_catalogue("s", &["a-b", "a_b", "a.b", "c"]);
        assert_eq!(names[0], "s-a-b");
        assert_eq!(names[3], "s-c");
        assert!(names[1].starts_with("s-a-b-") && names[2].starts_with("s-a-b-") && names[1] != names[2], "{names:?}");
        assert_eq!(in_catalogue("s", &["c", "a.b", "a-b", "a_b"])[3], names[1]);
    }

    #[test]
    fn a_long_name_is_cut_to_what_models_accept_and_keeps_its_difference() {
        let (one, other) = ("x".repeat(80), format!("{}y", "x".repeat(80)));
        let names = in_catalogue("files", &[&one, &other]);
        assert!(names.iter().all(|name| name.len() == LONGEST), "{names:?}");
        assert_ne!(names[0], names[1]);
        assert_eq!(in_catalogue("files", &[&other]), names[1..]);
    }
}
