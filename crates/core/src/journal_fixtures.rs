//! Journals of earlier versions fold to the same heads forever.
//!
//! `fixtures/journals/v<N>/<name>.jsonl` has one line for each entry: its sequence number, its time and its stored
//! text. `<name>.head.json` is their fold. A file is never changed; when the format grows, a directory is added.

use std::{fs, path::Path};

use crate::{Entry, Event, Head, Timestamp, event::VERSION};

fn read(path: &Path) -> Vec<Entry> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| {
            let (seq, rest) = line.split_once(' ').unwrap();
            let (at, body) = rest.split_once(' ').unwrap();
            let (seq, at) = (seq.parse().unwrap(), Timestamp(at.parse().unwrap()));
            Entry { seq, at, event: Event::decode(body).unwrap() }
        })
        .collect()
}

fn fold(expected: &Head, entries: &[Entry]) -> Head {
    let (namespace, name) = (expected.namespace.clone(), expected.name.clone());
    let mut head = Head::new(expected.uid, namespace, name, &entries[0]).unwrap();
    entries[1..].iter().for_each(|entry| head.apply(entry).unwrap());
    head
}

#[test]
fn journals_of_every_version_fold_to_the_heads_they_always_had() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/journals");
    for version in 1..=VERSION {
        let mut folded = 0;
        for file in fs::read_dir(root.join(format!("v{version}"))).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "jsonl") {
                continue;
            }
            let expected = fs::read_to_string(path.with_extension("head.json")).unwrap();
            let expected: Head = serde_json::from_str(&expected).unwrap();
            assert_eq!(fold(&expected, &read(&path)), expected, "{}", path.display());
            folded += 1;
        }
        assert!(folded > 0, "there is no journal of version {version}");
    }
}
