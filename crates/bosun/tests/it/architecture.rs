//! The invariants of ARCHITECTURE.md that can be checked in the source.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    dependencies::{metadata, tree},
    program::workspace,
};

/// No file is longer, tests not counted.
const LONGEST_FILE: usize = 600;

/// The allowed dependencies between crates. A crate that is missing here, or a new edge, needs a decision.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "bosun",
        &[
            "bosun-adapters",
            "bosun-client",
            "bosun-convert",
            "bosun-core",
            "bosun-edges",
            "bosun-engine",
            "bosun-mcp",
            "bosun-reading",
            "bosun-standin",
        ],
    ),
    ("bosun-adapters", &["bosun-core", "bosun-engine", "bosun-reading", "bosun-wire"]),
    ("bosun-client", &["bosun-core", "bosun-reading", "bosun-wire"]),
    ("bosun-convert", &["bosun-core", "bosun-reading"]),
    ("bosun-core", &["bosun-wire"]),
    ("bosun-edges", &["bosun-core", "bosun-engine", "bosun-reading", "bosun-wire"]),
    ("bosun-engine", &["bosun-core"]),
    ("bosun-mcp", &["bosun-adapters", "bosun-core", "bosun-engine"]),
    ("bosun-reading", &["bosun-core"]),
    ("bosun-standin", &["bosun-adapters", "bosun-core", "bosun-engine", "bosun-reading", "bosun-wire"]),
    ("bosun-wire", &[]),
];

/// The crates that a feature of the program adds, and that no build without the feature has.
const BEHIND_FEATURES: &[(&str, &[&str])] = &[
    ("grpc", &["a2a-pb", "tonic"]),
    ("mcp", &["bosun-mcp", "rmcp"]),
    ("standin", &["bosun-standin"]),
    ("zod", &["oxc_parser"]),
];

/// The pure crates never depend on these, not even transitively.
const IMPURE: &[&str] = &["axum", "hyper", "mio", "reqwest", "rusqlite", "socket2", "tokio", "tower"];

/// Words of comments that postpone something.
const PUT_OFF: &[&str] = &["todo", "fixme", "xxx", "hack", "for now", "not implemented yet", "in a real system"];
/// Suffixes of names that hide what a thing is.
const VAGUE_NAMES: &[&str] = &["Manager", "Helper", "Util", "Utils", "Impl"];

#[test]
fn crates_depend_on_each_other_in_one_direction() {
    let mut expected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, uses) in ARROWS {
        expected.insert((*name).to_owned(), uses.iter().map(|name| (*name).to_owned()).collect());
    }
    let found = metadata().workspace_arrows();
    for (name, uses) in &found {
        let allowed = expected.get(name).unwrap_or_else(|| panic!("crate `{name}` is not in the map"));
        assert!(uses.is_subset(allowed), "`{name}` uses {:?}", uses.difference(allowed).collect::<Vec<_>>());
    }
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
}

#[test]
fn a_feature_that_is_left_out_leaves_out_its_crates() {
    let (none, all) = (tree(&["--no-default-features"]), tree(&["--all-features"]));
    for (feature, crates) in BEHIND_FEATURES {
        let with = tree(&["--no-default-features", "--features", feature]);
        for name in *crates {
            assert!(!none.contains(*name), "`{name}` is built without the feature `{feature}`");
            assert!(with.contains(*name) && all.contains(*name), "`{name}` does not come with the feature `{feature}`");
        }
    }
    assert!(!tree(&[]).contains("bosun-standin"), "a server has the stand-in by default");
}

#[test]
fn adapters_serve_no_http() {
    assert!(!metadata().reachable("bosun-adapters").contains("axum"));
}

#[test]
fn the_domain_has_no_runtime_no_http_and_no_sql() {
    let metadata = metadata();
    for name in ["bosun-wire", "bosun-core", "bosun-convert", "bosun-reading"] {
        let reached = metadata.reachable(name);
        let impure: Vec<_> = IMPURE.iter().filter(|impure| reached.contains(**impure)).collect();
        assert!(impure.is_empty(), "`{name}` reaches {impure:?}");
    }
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let long: Vec<_> = sources()
        .into_iter()
        .filter(|source| !source.is_test())
        .map(|source| (source.length_without_tests(), source.path))
        .filter(|(length, _)| *length > LONGEST_FILE)
        .collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn nothing_is_put_off_and_names_say_what_things_are() {
    let mut complaints = Vec::new();
    for source in sources().into_iter().filter(|source| !source.path.ends_with("tests/it/architecture.rs")) {
        for (number, line) in source.text.lines().enumerate() {
            let place = || format!("{}:{}", source.path.display(), number + 1);
            let comment = words(line.split_once("//").map_or("", |(_, comment)| comment));
            let put_off = PUT_OFF.iter().filter(|put_off| comment.contains(&format!(" {put_off} ")));
            complaints.extend(put_off.map(|put_off| format!("{}: `{put_off}`", place())));
            if let Some(name) = type_name(line)
                && VAGUE_NAMES.iter().any(|vague| name.ends_with(vague))
            {
                complaints.push(format!("{}: type `{name}`", place()));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Metaphors that once named modules and types of this workspace; the field has terms for all of them.
const METAPHORS: &[&str] = &[
    "desk",
    "herald",
    "chronicle",
    "outliving",
    "tellings",
    "tenure",
    "door",
    "doorstep",
    "errand",
    "shelf",
    "shelves",
    "shelved",
    "doomed",
    "talks",
    "lent",
    "pen",
    "book",
    "news",
    "heard",
    "aside",
    "asker",
    "begun",
    "census",
    "deed",
    "dice",
    "doorkeeper",
    "dying",
    "knobs",
    "manner",
    "nowhere",
    "office",
    "play",
    "played",
    "plays",
    "repertoire",
    "said",
    "scribe",
    "showing",
    "speech",
    "spelled",
    "stage",
    "standing",
    "talk",
    "talker",
    "told",
    "tone",
    "town",
    "trail",
    "untold",
    "way",
    "ways",
    "witness",
    "workplace",
];

#[test]
fn modules_and_types_are_not_named_by_metaphor() {
    let mut complaints = Vec::new();
    for source in sources() {
        let stem = source.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let types = source.text.lines().filter_map(type_name).map(str::to_owned);
        for name in std::iter::once(stem).chain(types) {
            if parts_of_name(&name).iter().any(|part| METAPHORS.contains(&part.as_str())) {
                complaints.push(format!("{}: `{name}`", source.path.display()));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Protocols and their words. What an edge needs to know again is opaque below it.
const EDGE_WORDS: [&str; 5] = ["ark", "rfc", "rpc", "sse", "view"];

#[test]
fn types_below_the_edges_belong_to_no_edge() {
    let is_below = |path: &str| path.contains("crates/core/src") || path.contains("crates/engine/src");
    let mut complaints = Vec::new();
    for source in sources().into_iter().filter(|source| is_below(&source.path.to_string_lossy())) {
        for name in source.text.lines().filter_map(type_name) {
            if parts_of_name(name).iter().any(|part| EDGE_WORDS.contains(&part.as_str())) {
                complaints.push(format!("{}: `{name}`", source.path.display()));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// `LiveQuery` and `live_query` as `live` and `query`.
fn parts_of_name(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for letter in name.chars() {
        if letter.is_uppercase() || letter == '_' {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| letter != '_') {
            part.extend(letter.to_lowercase());
        }
    }
    parts
}

/// Of the types outside `wire` modules, at most this percentage shares their name with another one.
const SHARED_NAMES_PERCENT: usize = 20;

#[test]
fn few_types_share_a_name() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // A wire type may have the name of the domain type that it mirrors.
    for source in sources().into_iter().filter(|source| !source.path.to_string_lossy().contains("wire")) {
        for name in source.text.lines().filter_map(type_name) {
            places.entry(name.to_owned()).or_default().push(source.path.display().to_string());
        }
    }
    let all: usize = places.values().map(Vec::len).sum();
    places.retain(|_, places| places.len() > 1);
    let shared: usize = places.values().map(Vec::len).sum();
    assert!(shared * 100 <= all * SHARED_NAMES_PERCENT, "{shared} of {all} definitions share a name: {places:#?}");
}

/// Pronouns in place of a role that has a name.
const PRONOUNS: &[&str] = &["whoever", "nobody", "somebody"];
const PRONOUNS_ALLOWED: usize = 10;

#[test]
fn comments_name_roles() {
    let mut found = Vec::new();
    for source in sources().into_iter().filter(|source| !source.path.ends_with("tests/it/architecture.rs")) {
        for (number, line) in source.text.lines().enumerate() {
            let words = words(line);
            let pronouns = PRONOUNS.iter().filter(|pronoun| words.contains(&format!(" {pronoun} ")));
            found.extend(pronouns.map(|_| format!("{}:{}: {}", source.path.display(), number + 1, line.trim())));
        }
    }
    assert!(found.len() <= PRONOUNS_ALLOWED, "{}:\n{}", found.len(), found.join("\n"));
}

/// Phrases of comments, messages and pages that are translated from another language, or that avoid a term of the field.
const CALQUES: &[&str] = &[
    "all the same",
    "dearer",
    "for ever",
    "for want of",
    "goes on",
    "is no part",
    "is taken to be",
    "mended",
    "put aside",
    "puts aside",
    "something else than",
    "stand twice",
    "stands twice",
    "taken for",
    "told apart",
    "told from",
    "was seen to",
    "went on without",
];

#[test]
fn texts_are_in_standard_english() {
    let pages = [workspace().join("docs"), workspace().join("docs/decisions")].into_iter().flat_map(|directory| {
        let entries = directory.read_dir().unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect::<Vec<_>>()
    });
    let pages = pages.chain(["README.md", "ARCHITECTURE.md"].map(|page| workspace().join(page)));
    let pages = pages.map(|path| Source { text: std::fs::read_to_string(&path).unwrap(), path });
    let mut found = Vec::new();
    for source in sources().into_iter().chain(pages).filter(|source| !source.path.ends_with("tests/it/architecture.rs"))
    {
        for (number, line) in source.text.lines().enumerate() {
            let words = words(line);
            let calques = CALQUES.iter().filter(|calque| words.contains(&format!(" {calque} ")));
            found.extend(calques.map(|calque| format!("{}:{}: `{calque}`", source.path.display(), number + 1)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Names of variables that say that there is a text, and not which one.
const VAGUE_VARIABLES: &[&str] = &["heard", "said", "told"];

#[test]
fn variables_are_named_by_what_they_hold() {
    let mut found = Vec::new();
    for source in sources() {
        for (number, line) in source.text.lines().enumerate() {
            let is_bound = |name: &&&str| {
                [format!("let {name} ="), format!("let {name}:"), format!("let mut {name} "), format!("|{name}|")]
                    .iter()
                    .any(|binding| line.contains(binding))
            };
            let vague = VAGUE_VARIABLES.iter().filter(is_bound);
            found.extend(vague.map(|name| format!("{}:{}: `{name}`", source.path.display(), number + 1)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_fault_point_is_listed_and_passed() {
    let listed: BTreeSet<_> = bosun_engine::fault::POINTS.iter().map(|point| (*point).to_owned()).collect();
    let mut passed = BTreeSet::new();
    for source in
        sources().into_iter().filter(|source| !source.is_test() && !source.path.ends_with("engine/src/fault.rs"))
    {
        // A point is passed by name, directly or through a function that takes the name along.
        for point in &listed {
            if source.text.contains(&format!("\"{point}\"")) {
                passed.insert(point.clone());
            }
        }
        for named in source.text.split("fault::point(\"").skip(1) {
            let name = named.split('"').next().unwrap_or_default();
            assert!(listed.contains(name), "{}: `{name}` is not listed", source.path.display());
        }
    }
    assert_eq!(listed.difference(&passed).collect::<Vec<_>>(), Vec::<&String>::new(), "listed, and passed nowhere");
}

#[test]
fn every_clause_of_the_store_contract_is_a_test() {
    let testing = workspace().join("crates/engine/src/testing");
    let contract = std::fs::read_to_string(testing.join("store_contract.rs")).unwrap();
    let mut clauses = 0;
    for source in sources().into_iter().filter(|source| source.path.to_string_lossy().ends_with("_clauses.rs")) {
        let module = source.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for clause in source.text.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
            let name = clause.split('(').next().unwrap_or_default();
            assert!(contract.contains(&format!("{module}::{name},")), "`{module}::{name}` is not listed");
            clauses += 1;
        }
    }
    assert!(clauses >= 40, "only {clauses} clauses were found");
}

#[test]
fn every_commit_has_a_fault_point_before_and_after_it() {
    let crates = workspace().join("crates");
    let mut commits = 0;
    for source in sources().into_iter().filter(|source| source.path.starts_with(&crates) && !source.is_test()) {
        let lines: Vec<_> = source.text.lines().map(str::trim).collect();
        let is_commit = |line: &str| line.contains(".commit()") || line.contains("\"COMMIT\"");
        for at in (1..lines.len() - 1).filter(|at| is_commit(lines[*at])) {
            commits += 1;
            let bare = [lines[at - 1], lines[at + 1]].iter().any(|line| !line.starts_with("fault::point(\""));
            assert!(!bare, "{}:{}: `{}` is not between fault points", source.path.display(), at + 1, lines[at]);
        }
    }
    assert!(commits >= 3, "only {commits} commits were found");
}

#[test]
fn every_module_begins_with_what_it_is() {
    let silent: Vec<_> = sources()
        .into_iter()
        .filter(|source| !source.is_test() && !source.text.starts_with("//!"))
        .map(|source| source.path)
        .collect();
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn the_map_names_places_that_exist() {
    let page = std::fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let mut missing = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| `crates/")) {
        let directory = workspace().join(quoted(line).next().unwrap());
        let files = quoted(last_column(line)).map(|file| directory.join("src").join(file));
        missing.extend(files.filter(|file| !file.exists()).map(|file| file.display().to_string()));
    }
    let (_, ideas) = page.split_once("## Where the ideas live").unwrap();
    let places = ideas.lines().flat_map(|line| quoted(last_column(line))).filter(|place| place.contains("::"));
    missing.extend(places.filter(|place| !is_place(place)).map(str::to_owned));
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_method_of_the_engine_is_in_its_list() {
    let folder = workspace().join("crates/engine/src/engine");
    let list = std::fs::read_to_string(folder.join("mod.rs")).unwrap();
    let listed: BTreeSet<&str> =
        list.lines().filter(|line| line.starts_with("//! |")).flat_map(|line| quoted(last_column(line))).collect();
    let mut written = BTreeSet::new();
    let is_engines = |source: &Source| source.path.starts_with(workspace().join("crates/engine/src"));
    let sources: Vec<_> = sources().into_iter().filter(is_engines).collect();
    for source in &sources {
        let has_methods = source.text.contains("\nimpl Engine {");
        assert!(!has_methods || source.path.starts_with(&folder), "{}: outside the folder", source.path.display());
        for block in source.text.split("\nimpl Engine {\n").skip(1) {
            let methods = block.lines().take_while(|line| *line != "}").filter_map(|line| {
                let signature = line.strip_prefix("    pub async fn ").or_else(|| line.strip_prefix("    pub fn "))?;
                signature.split(['(', '<']).next()
            });
            written.extend(methods);
        }
    }
    assert_eq!(listed, written);
}

fn last_column(line: &str) -> &str {
    line.rsplit('|').nth(1).unwrap_or_default()
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether `core::tool::toolset::ToolSources` is there: modules are files, and what follows is a word in them.
fn is_place(place: &str) -> bool {
    let mut segments = place.split("::").peekable();
    let mut module = workspace().join("crates").join(segments.next().unwrap_or_default()).join("src");
    let mut file = module.join("lib.rs");
    while let Some(segment) = segments.peek() {
        let inner = module.join(segment);
        let found = [inner.with_extension("rs"), inner.join("mod.rs")].into_iter().find(|file| file.exists());
        let Some(found) = found else { break };
        (module, file) = (inner, found);
        segments.next();
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let is_word =
        |word: &str| text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|found| found == word);
    !text.is_empty() && segments.all(is_word)
}

struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// Whether the whole file is a test.
    fn is_test(&self) -> bool {
        let path = self.path.to_string_lossy();
        let name = self.path.file_name().unwrap_or_default();
        path.contains("/tests/") || path.contains("/testing") || name == "tests.rs" || name == "properties.rs"
    }

    /// All lines but those of `#[cfg(test)]` modules and imports: a declaration is two lines, a block ends with its brace.
    fn length_without_tests(&self) -> usize {
        let mut lines = self.text.lines();
        let mut length = 0;
        while let Some(line) = lines.next() {
            if line != "#[cfg(test)]" {
                length += 1;
            } else if lines.next().is_some_and(|module| module.ends_with('{')) {
                lines.by_ref().take_while(|line| !matches!(*line, "}" | "};")).for_each(drop);
            }
        }
        length
    }
}

/// All Rust files of the workspace, and those of the measurements and the examples.
fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for directory in ["crates", "bench/src", "examples"] {
        collect(&workspace().join(directory), &mut sources);
    }
    assert!(sources.len() > 50, "only {} files found", sources.len());
    sources
}

fn collect(directory: &Path, sources: &mut Vec<Source>) {
    for entry in directory.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            sources.push(Source { path, text });
        }
    }
}

/// A text as lower-case words with a blank around each.
fn words(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(" ".to_owned(), |words, word| words + word + " ")
}

/// The name of a type that this line declares.
fn type_name(line: &str) -> Option<&str> {
    let rest = ["struct ", "enum ", "trait "].iter().find_map(|word| {
        let (before, after) = line.split_once(word)?;
        let before = before.trim();
        (before.is_empty() || before.starts_with("pub")).then_some(after)
    })?;
    rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}
