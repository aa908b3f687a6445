//! The scripts around the program, as far as they can be tried without what they install and build.

use std::process::Command;

use crate::program::workspace;

/// Files that git keeps as executable.
fn scripts() -> Vec<String> {
    let output = Command::new("git").args(["ls-files", "--stage"]).current_dir(workspace()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).unwrap();
    listed
        .lines()
        .filter(|line| line.starts_with("100755"))
        .filter_map(|line| line.split('\t').nth(1))
        .map(Into::into)
        .collect()
}

#[test]
fn every_script_can_be_read_by_its_shell() {
    let scripts = scripts();
    assert!(scripts.iter().any(|script| script == "bench/release"), "{scripts:?}");
    for script in scripts {
        let text = std::fs::read_to_string(workspace().join(&script)).unwrap();
        let shell = match text.lines().next() {
            Some("#!/bin/sh") => "sh",
            Some("#!/usr/bin/env bash" | "#!/bin/bash") => "bash",
            first => panic!("{script} begins with {first:?}"),
        };
        let output = Command::new(shell).args(["-n", &script]).current_dir(workspace()).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn what_cannot_be_installed_is_named_with_its_purpose() {
    let output = Command::new(workspace().join(".ci/apt"))
        .args(["they put the program in order", "llvm-19", "bolt-19"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "please install llvm-19 bolt-19: they put the program in order\n"
    );
}
