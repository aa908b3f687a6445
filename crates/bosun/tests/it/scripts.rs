//! The scripts around the program, as far as they can be tried without what they install and build.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::program::workspace;

/// The scripts below a directory, each with the shell that its first line names. What was installed there is not ours.
fn scripts(directory: &Path, found: &mut Vec<(PathBuf, &'static str)>) {
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            let ours = path.file_name().is_some_and(|name| name != "node_modules" && name != "target");
            if ours {
                scripts(&path, found);
            }
            continue;
        }
        let text = std::fs::read(&path).unwrap();
        let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        match first {
            b"#!/bin/sh" => found.push((path, "sh")),
            b"#!/usr/bin/env bash" | b"#!/bin/bash" => found.push((path, "bash")),
            _ => {}
        }
    }
}

#[test]
fn every_script_can_be_read_by_its_shell() {
    let mut found = Vec::new();
    for directory in [".ci", "bench", "fuzz", "interop"] {
        scripts(&workspace().join(directory), &mut found);
    }
    assert!(found.iter().any(|(path, _)| path.ends_with("bench/release")), "{found:?}");
    for (path, shell) in found {
        let output = Command::new(shell).arg("-n").arg(&path).output().unwrap();
        assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
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
