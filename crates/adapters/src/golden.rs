//! Golden files: what the code does is what they say. `BLESS=1` writes them anew, to be read before
//! they are committed.

use std::path::Path;

#[track_caller]
pub(crate) fn check(file: &Path, actual: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, actual).unwrap();
    }
    let expect = std::fs::read_to_string(file).unwrap_or_default();
    assert!(actual == expect, "{} says\n{expect}\nand the code\n{actual}", file.display());
}
