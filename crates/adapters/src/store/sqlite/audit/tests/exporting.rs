//! An exported file is verified by itself: no change of it goes unnoticed.

use super::*;

/// An export of a log of two namespaces, its key, and their directory.
async fn exported() -> (TempDir, AuditKeys, String) {
    let dir = written(8).await;
    let key_file = dir.path().join(KEY_FILE);
    rotate(&key_file).unwrap();
    add_to(dir.path(), 8..12).await;
    let keys = AuditKeys::load(&key_file).unwrap();
    let mut lines = Vec::new();
    let exported = export(dir.path(), Some(&keys), None, &mut lines).unwrap();
    assert_eq!(exported, Exported { namespaces: 2, records: 50, is_sealed: true });
    (dir, keys, String::from_utf8(lines).unwrap())
}

fn verified(dir: &TempDir, keys: &AuditKeys, bytes: impl AsRef<[u8]>) -> Verified {
    let file = dir.path().join("export.jsonl");
    fs::write(&file, bytes).unwrap();
    verify_file(&file, keys).unwrap()
}

#[tokio::test]
async fn an_untouched_export_is_verified_without_its_store() {
    let (dir, keys, text) = exported().await;
    fs::remove_file(dir.path().join("bosun.db")).unwrap();
    let whole = verified(&dir, &keys, &text);
    assert_eq!(whole, Verified { namespaces: 2, records: 50, heads: 0, faults: Vec::new() });
}

/// One tampering with a file by an attacker without the key.
fn tamper(text: &str, rng: &mut AuditRng) -> (Vec<u8>, String) {
    let lines: Vec<&str> = text.lines().collect();
    let mut pick = || usize::try_from(rng.below(lines.len() as u64)).unwrap();
    let (one, other) = (pick(), pick());
    let join = |lines: &[&str]| (lines.join("\n") + "\n").into_bytes();
    match rng.below(8) {
        0 | 1 => {
            let mut bytes = text.as_bytes().to_vec();
            let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            bytes[at] ^= 1 << rng.below(8);
            (bytes, format!("a bit of byte {at}"))
        }
        2 => {
            let mut lines = lines;
            lines.remove(one);
            (join(&lines), format!("line {one} removed"))
        }
        3 if one != other => {
            let mut lines = lines;
            lines.swap(one, other);
            (join(&lines), format!("lines {one} and {other} swapped"))
        }
        4 => {
            let mut lines = lines;
            lines.insert(other, lines[one]);
            (join(&lines), format!("line {one} repeated before {other}"))
        }
        5 => (join(&lines[..one]), format!("cut before line {one}")),
        6 => {
            let at = usize::try_from(rng.below(text.len() as u64)).unwrap();
            (text.as_bytes()[..at].to_vec(), format!("cut at byte {at}"))
        }
        _ => {
            // A whole namespace left out.
            let namespace = if rng.below(2) == 0 { r#"{"namespace":"default""# } else { r#"{"namespace":"other""# };
            let left: Vec<_> = lines.into_iter().filter(|line| !line.starts_with(namespace)).collect();
            (join(&left), format!("without {namespace}"))
        }
    }
}

#[tokio::test]
async fn a_thousand_tamperings_with_an_export_are_found() {
    let (dir, keys, text) = exported().await;
    let mut rng = AuditRng(0x2545_f491_4f6c_dd1d);
    for round in 0..1_000 {
        let (bytes, what) = tamper(&text, &mut rng);
        let found = verified(&dir, &keys, &bytes);
        assert!(!found.faults.is_empty(), "round {round}: {what} was not found");
    }
}

#[tokio::test]
async fn another_spelling_of_a_number_is_a_change() {
    let (dir, keys, text) = exported().await;
    let mut spelled = 0;
    for (at, letter) in text.char_indices().filter(|(_, letter)| matches!(letter, 'a'..='f')) {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] = bytes[at].to_ascii_uppercase();
        // Records are covered byte by byte; this is about the rest of each line.
        let line = text[..at].lines().count();
        if text.lines().nth(line.saturating_sub(1)).is_some_and(|line| !line.contains(r#","record":"#)) {
            spelled += 1;
            assert!(!verified(&dir, &keys, &bytes).faults.is_empty(), "`{letter}` at byte {at} of line {line}");
        }
    }
    assert!(spelled > 100, "{spelled}");
}

#[tokio::test]
async fn without_the_key_an_export_says_that_it_may_lack_a_namespace() {
    let (dir, keys, _) = exported().await;
    let mut lines = Vec::new();
    export(dir.path(), None, None, &mut lines).unwrap();
    assert_eq!(verified(&dir, &keys, &lines).faults, [AuditFault::Unsealed]);
    let other = dir.path().join("other.key");
    rotate(&other).unwrap();
    let strangers = AuditKeys::load(&other).unwrap();
    let found = verified(&dir, &strangers, &lines).faults;
    assert!(matches!(found.as_slice(), [AuditFault::Key { seq: 1, .. }]), "{found:?}");
}
