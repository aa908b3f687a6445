//! Dependencies: the lists of `deny.toml`, checked without cargo-deny.
//!
//! cargo-deny checks more (advisories, yanked versions) and takes minutes to install; this takes a second and needs no
//! installation.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::program::workspace;

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn every_dependency_comes_from_crates_io() {
    let strange: Vec<_> = metadata()
        .packages()
        .filter(|package| package["source"].as_str().is_some_and(|source| source != CRATES_IO))
        .map(|package| package["id"].clone())
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}

#[test]
fn every_licence_is_one_that_was_decided_on() {
    let allowed = list("allow");
    let refused: Vec<_> = metadata()
        .packages()
        .filter(|package| !package["source"].is_null())
        .filter(|package| !licence(package).is_some_and(|licence| is_allowed(licence, &allowed)))
        .map(|package| format!("{}: {}", package["name"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn no_banned_crate_is_there() {
    let banned = list("deny");
    assert!(banned.contains("openssl"), "{banned:?}");
    let metadata = metadata();
    let found: Vec<_> = metadata
        .packages()
        .filter_map(|package| package["name"].as_str())
        .filter(|name| banned.contains(*name))
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn licence_expressions_are_read_as_spdx_means_them() {
    let allowed = ["MIT", "Apache-2.0", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for (expression, expect) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("MIT/GPL-3.0", true),
        ("MIT AND GPL-3.0", false),
        ("MIT AND ISC", true),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("(GPL-3.0 OR MIT) AND BSL-1.0", false),
        ("GPL-3.0 OR MIT AND ISC", true),
        ("GPL-3.0 AND MIT OR ISC", true),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
        ("Apache-2.0 WITH Other-exception", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expect, "{expression}");
    }
}

/// Cargo's metadata of the workspace.
pub(crate) struct Metadata(Value);

pub(crate) fn metadata() -> Metadata {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--all-features"])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Metadata(serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON"))
}

/// The crates that the program is built of with these features.
pub(crate) fn tree(features: &[&str]) -> BTreeSet<String> {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--package", "bosun", "--edges", "normal", "--prefix", "none", "--locked", "--offline"])
        .args(features)
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("names of crates");
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

impl Metadata {
    fn packages(&self) -> impl Iterator<Item = &Value> {
        self.0["packages"].as_array().into_iter().flatten()
    }

    fn name_of(&self, id: &Value) -> &str {
        self.packages().find(|package| package["id"] == *id).and_then(|package| package["name"].as_str()).unwrap()
    }

    /// The members of the workspace, and which members each is built with; tests may use more.
    pub(crate) fn workspace_arrows(&self) -> BTreeMap<String, BTreeSet<String>> {
        let members: BTreeSet<&str> =
            self.0["workspace_members"].as_array().into_iter().flatten().map(|id| self.name_of(id)).collect();
        let arrows = |package: &Value| {
            let all = package["dependencies"].as_array().into_iter().flatten();
            let built = all.filter(|dependency| dependency["kind"].is_null());
            let names = built.filter_map(|dependency| dependency["name"].as_str());
            names.filter(|name| members.contains(name)).map(str::to_owned).collect()
        };
        self.packages()
            .filter(|package| package["name"].as_str().is_some_and(|name| members.contains(name)))
            .map(|package| (package["name"].as_str().unwrap().to_owned(), arrows(package)))
            .collect()
    }

    /// Everything that a crate is built with, directly or not.
    pub(crate) fn reachable(&self, name: &str) -> BTreeSet<&str> {
        let nodes = self.0["resolve"]["nodes"].as_array().unwrap();
        let node = |id: &Value| nodes.iter().find(|node| node["id"] == *id).unwrap();
        let start = self.packages().find(|package| package["name"] == name).expect("a crate of that name");
        let mut reached = BTreeSet::new();
        let mut ahead = vec![&start["id"]];
        while let Some(id) = ahead.pop() {
            for dependency in node(id)["deps"].as_array().into_iter().flatten() {
                let kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
                let is_built = kinds.into_iter().any(|kind| kind["kind"].is_null());
                if is_built && reached.insert(self.name_of(&dependency["pkg"])) {
                    ahead.push(&dependency["pkg"]);
                }
            }
        }
        reached
    }
}

fn licence(package: &Value) -> Option<&str> {
    package["license"].as_str()
}

/// The texts of a list of `deny.toml`, or the crates where its entries are tables.
fn list(name: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(workspace().join("deny.toml")).unwrap();
    let after = text.split_once(&format!("\n{name} = [\n")).expect("the list is there").1;
    let lines = after.lines().take_while(|line| *line != "]").filter(|line| !line.trim_start().starts_with('#'));
    let first_text = |line: &str| line.split('"').nth(1).map(str::to_owned);
    lines.filter_map(first_text).collect()
}

/// Whether a licence expression can be met with the allowed licences alone. `AND` binds closer than `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let met = any(&mut rest, allowed);
    assert!(rest.is_empty(), "`{expression}` is not a licence expression");
    met
}

fn any(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut met = all(words, allowed);
    while take(words, "OR") {
        met |= all(words, allowed);
    }
    met
}

fn all(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, allowed);
    while take(words, "AND") {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    if take(words, "(") {
        let met = any(words, allowed);
        assert!(take(words, ")"), "a parenthesis is open");
        return met;
    }
    let (name, rest) = words.split_first().expect("a licence");
    *words = rest;
    if take(words, "WITH") {
        let (exception, rest) = words.split_first().expect("an exception");
        *words = rest;
        return allowed.contains(&format!("{name} WITH {exception}"));
    }
    allowed.contains(*name)
}

fn take(words: &mut &[&str], word: &str) -> bool {
    let found = words.first() == Some(&word);
    if found {
        *words = &words[1..];
    }
    found
}
