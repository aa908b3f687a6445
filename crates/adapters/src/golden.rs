//! Golden files: the expected output of the code. `BLESS=1` rewrites them, to be reviewed before they are committed.

use std::path::Path;

#[track_caller]
pub(crate) fn check(file: &Path, actual: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, actual).unwrap();
    }
    let expect = std::fs::read_to_string(file).unwrap_or_default();
    assert!(actual == expect, "{}: expected\n{expect}\nbut the code gives\n{actual}", file.display());
}
