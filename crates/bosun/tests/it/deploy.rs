//! The deployment examples match the program's settings, and are as hardened as they claim.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::program::{bosun, program, run, stdout, workspace};

fn read(name: &str) -> String {
    std::fs::read_to_string(workspace().join("examples/deploy").join(name)).unwrap()
}

/// The variables that settings are read from.
async fn variables() -> Vec<String> {
    let settings: Value = serde_json::from_str(&stdout(&run(bosun().args(["config", "--json"])).await)).unwrap();
    let variable = |name: &String| format!("BOSUN_{}", name.rsplit('.').next().unwrap().to_uppercase());
    settings.as_object().unwrap().keys().map(variable).collect()
}

/// Every `BOSUN_X=` of a file.
fn set_in(text: &str) -> Vec<&str> {
    let words = text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    words
        .filter_map(|word| {
            let name = word.split('=').find(|part| part.starts_with("BOSUN_"))?;
            word.contains('=').then_some(name)
        })
        .collect()
}

#[tokio::test]
async fn the_unit_is_hardened_and_sets_what_exists() {
    let text = read("bosun.service");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let entries: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once('=')).collect();
    for (name, value) in [
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateDevices", "yes"),
        ("User", "bosun"),
        ("CapabilityBoundingSet", ""),
        ("MemoryDenyWriteExecute", "yes"),
        ("RestrictNamespaces", "yes"),
        ("StateDirectory", "bosun"),
        ("ExecReload", "/bin/kill -HUP $MAINPID"),
    ] {
        assert_eq!(entries.get(name), Some(&value), "{name}");
    }
    let stop: u64 = entries["TimeoutStopSec"].parse().unwrap();
    assert!(stop > 40, "systemd would kill a server that is shutting down gracefully");
    let known = variables().await;
    let set = set_in(&text);
    assert!(set.len() >= 4, "{set:?}");
    for variable in set {
        assert!(known.iter().any(|known| known == variable), "{variable} is not a setting");
    }
    verify_with_systemd();
}

/// systemd's own check, where it is installed.
fn verify_with_systemd() {
    let present = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|directory: PathBuf| directory.join("systemd-analyze").exists());
    if !present {
        return;
    }
    // The unit names the installed path of the program; here it is somewhere else.
    let directory = tempfile::tempdir().unwrap();
    let unit = directory.path().join("bosun.service");
    std::fs::write(&unit, read("bosun.service").replace("/usr/local/bin/bosun", &program().to_string_lossy())).unwrap();
    let output =
        std::process::Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    let about_us: Vec<_> = messages.lines().filter(|line| line.contains("bosun.service")).collect();
    assert!(about_us.is_empty(), "{about_us:?}");
}

#[tokio::test]
async fn the_container_is_not_root_and_sets_what_exists() {
    let text = read("Containerfile");
    let instruction = |name: &str| {
        let found = text.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("there is no {name}"))
    };
    assert!(instruction("USER").parse::<u32>().is_ok_and(|id| id > 0), "a number, which Kubernetes can check");
    assert_eq!(instruction("VOLUME"), "/data");
    assert_eq!(instruction("ENTRYPOINT"), r#"["/usr/local/bin/bosun"]"#);
    assert_eq!(instruction("STOPSIGNAL"), "SIGTERM");
    assert!(text.contains("/ready") && text.contains("HEALTHCHECK"));
    assert!(text.contains("--read-only") && text.contains("--cap-drop all"), "how to run it");
    // A mount of a single file keeps showing the old one when it is replaced: a revoked key would stay in force.
    assert!(text.contains(":/etc/bosun:ro") && !text.contains("keys.toml:"), "the directory of the keys is mounted");
    let known = variables().await;
    let set = set_in(&text);
    assert!(set.contains(&"BOSUN_AUTH"), "it listens on all addresses: {set:?}");
    for variable in set {
        assert!(known.iter().any(|known| known == variable), "{variable} is not a setting");
    }
    let rust = include_str!("../../../../Cargo.toml").lines().find_map(|line| line.strip_prefix("rust-version = "));
    assert!(text.contains(&format!("rust:{}-", rust.unwrap().trim_matches('"'))), "{rust:?}");
}

/// The files that the sources of the program take in from elsewhere, by their paths in the workspace.
fn included_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        let is_test = path.file_stem().is_some_and(|name| name == "tests");
        if path.is_dir() && !is_test {
            included_files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") && !is_test {
            let text = std::fs::read_to_string(&path).unwrap();
            let product = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            let names = product.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next());
            let file = |name: &str| path.parent().unwrap().join(name).canonicalize().unwrap();
            found.extend(names.map(file));
        }
    }
}

#[test]
fn the_container_is_built_of_what_the_program_needs_and_of_nothing_else() {
    let text = read("Containerfile");
    let root = workspace().canonicalize().unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("COPY ")).filter(|line| !line.starts_with("--from"));
    let copied: Vec<_> = lines
        .flat_map(|line| {
            let (sources, _) = line.rsplit_once(' ').unwrap();
            sources.split(' ').map(|source| root.join(source).canonicalize().unwrap()).collect::<Vec<_>>()
        })
        .collect();
    assert!(!copied.contains(&root), "keys, secrets and data may be next to the sources");
    let mut needed = vec![root.join("Cargo.toml"), root.join("Cargo.lock")];
    for package in std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path()) {
        needed.push(package.join("Cargo.toml"));
        included_files(&package.join("src"), &mut needed);
    }
    assert!(needed.iter().any(|path| path.starts_with(root.join("examples"))), "the demo takes its agents in");
    for path in needed {
        assert!(copied.iter().any(|copied| path.starts_with(copied)), "{} is not copied", path.display());
    }
}
