//! The collection of `--tools`: files, folders and URLs in every format that `convert` reads.
//!
//! Each file and each URL is a source of its own: one that is faulty keeps the tools that it last had, and the others
//! are read as usual. Between two sources with a tool of the same name, the first one wins.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    str::FromStr,
};

use bosun_adapters::{
    manifests::CollectedTool,
    outbound::{Pool, RemoteDocument, fetch},
};
use bosun_convert::{CheckedDocument, ConvertOptions, Severity, ToolProblem, document::MAX_SIZE};
use bosun_core::{audit::hide_in_urls, tool::ToolOrigin};
use bosun_engine::resource::ResourceOrigin;
use bosun_reading::Fault;
use futures_util::future::join_all;
use url::{Host, Url};

use crate::commands::{check, folder::SourceFolder, input};

/// One value of `--tools`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolSource {
    Path(PathBuf),
    Url(Url),
}

impl FromStr for ToolSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.starts_with("https://") && !text.starts_with("http://") {
            return Ok(Self::Path(text.into()));
        }
        let url: Url = text.parse().map_err(|error| format!("not a URL: {error}"))?;
        let is_own_machine = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        if url.scheme() == "https" || is_own_machine {
            Ok(Self::Url(url))
        } else {
            Err("tools are fetched over https only: plain http can be tampered with on the way".to_owned())
        }
    }
}

/// The sources, and what was last read from them.
#[derive(Debug)]
pub(super) struct Collection {
    sources: Vec<ToolSource>,
    pool: Pool,
    fetched: HashMap<Url, Fetched>,
    /// The tools of each file and URL that are in effect.
    good: Tools,
}

/// The tools of each file and URL, in the order of the sources.
pub(super) type Tools = Vec<(PathBuf, Vec<CollectedTool>)>;

#[derive(Clone, Debug, Default)]
struct Fetched {
    document: Option<RemoteDocument>,
    /// Why the last fetch failed.
    failure: Option<String>,
}

/// The content of all sources at one moment.
#[derive(Debug, Default)]
pub(super) struct SourceContents {
    /// In the order of the sources, without duplicates.
    pub(super) tools: Vec<CollectedTool>,
    /// To be put in effect with [`Collection::keep`].
    pub(super) good: Tools,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
}

impl Collection {
    pub(super) fn new(sources: Vec<ToolSource>) -> Self {
        Self { sources, pool: Pool::default(), fetched: HashMap::new(), good: Tools::new() }
    }

    pub(super) fn has_urls(&self) -> bool {
        self.urls().next().is_some()
    }

    fn urls(&self) -> impl Iterator<Item = &Url> {
        self.sources.iter().filter_map(|source| match source {
            ToolSource::Url(url) => Some(url),
            ToolSource::Path(_) => None,
        })
    }

    /// The files and folders.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let path = |source: &ToolSource| match source {
            ToolSource::Path(path) => Some(path.clone()),
            ToolSource::Url(_) => None,
        };
        self.sources.iter().filter_map(path).collect()
    }

    /// Fetches the URLs, concurrently, and says whether anything is different from before.
    pub(super) async fn fetch(&mut self) -> bool {
        let one = async |url: &Url| {
            let known = self.fetched.get(url).and_then(|fetched| fetched.document.as_ref());
            (url.clone(), fetch(&self.pool, url, known, MAX_SIZE).await)
        };
        let answers = join_all(self.urls().map(one)).await;
        let mut is_different = false;
        for (url, answer) in answers {
            let fetched = self.fetched.entry(url).or_default();
            let before = fetched.clone();
            match answer {
                Ok(document) => {
                    fetched.document = document.or(fetched.document.take());
                    fetched.failure = None;
                }
                Err(error) => fetched.failure = Some(error.to_string()),
            }
            let content = |of: &Fetched| of.document.as_ref().map(|document| document.content.clone());
            is_different |= content(&before) != content(fetched) || before.failure != fetched.failure;
        }
        is_different
    }

    /// The current content of the sources: files as they are on the disk, URLs as they were last fetched.
    pub(super) fn gather(&self) -> SourceContents {
        let mut gathered = SourceContents::default();
        let mut sources: HashMap<String, String> = HashMap::new();
        for source in &self.sources {
            match source {
                ToolSource::Path(path) => self.gather_path(path, &mut gathered),
                ToolSource::Url(url) => self.gather_url(url, &mut gathered),
            }
        }
        for (location, tools) in &gathered.good {
            for collected in tools {
                let (name, here) = (&collected.tool.name, shown(location));
                match sources.get(name) {
                    Some(first) => gathered
                        .warnings
                        .push(format!("tool `{name}` of {here} has no effect, since {first} has one of that name")),
                    None => {
                        sources.insert(name.clone(), here);
                        gathered.tools.push(collected.clone());
                    }
                }
            }
        }
        gathered
    }

    fn gather_path(&self, path: &Path, gathered: &mut SourceContents) {
        let files = match input::sources(&[path.to_owned()]) {
            Ok(files) => files,
            Err(error) => {
                gathered.faults.push(Fault::of_file(path, "unreadable_file", error.to_string()));
                gathered.good.extend(self.good.iter().filter(|(file, _)| file.starts_with(path)).cloned());
                return;
            }
        };
        for file in files {
            let origin = ResourceOrigin::File(file.path.clone());
            match file.read() {
                Ok(bytes) => {
                    let folder = SourceFolder::of(&file);
                    let checked = check::read(&bytes, folder.options());
                    if !file.is_incidental() || !check::is_something_else(&checked) {
                        self.take(&file.path, checked, &origin, gathered);
                    }
                }
                Err(error) => {
                    gathered.faults.push(Fault::of_file(&file.path, "unreadable_file", error.to_string()));
                    self.keep_last(&file.path, gathered);
                }
            }
        }
    }

    fn gather_url(&self, url: &Url, gathered: &mut SourceContents) {
        let location = PathBuf::from(hide_in_urls(url.as_str(), "…").into_owned());
        let fetched = self.fetched.get(url).cloned().unwrap_or_default();
        if let Some(failure) = fetched.failure {
            gathered.faults.push(Fault::of_file(&location, UNAVAILABLE, failure));
        }
        if let Some(document) = &fetched.document {
            let origin = ResourceOrigin::Url(location.display().to_string());
            let checked = check::read(&document.content, ConvertOptions::default());
            self.take(&location, checked, &origin, gathered);
        }
    }

    /// Takes the tools of one text, all or none.
    fn take(
        &self,
        location: &Path,
        checked: CheckedDocument<'_>,
        origin: &ResourceOrigin,
        gathered: &mut SourceContents,
    ) {
        let mut is_faulty = false;
        let of_templates = check::template_problems(&checked);
        for problem in checked.problems.iter().chain(&of_templates) {
            match problem.severity {
                // Manifests of kinds other than tools are read by `--manifests`.
                _ if problem.code == "not_a_tool" => {}
                Severity::Error => {
                    is_faulty = true;
                    gathered.faults.push(to_fault(location, problem));
                }
                Severity::Warning => {
                    gathered.warnings.push(format!("{}:{}: {}", shown(location), problem.place, problem.message));
                }
            }
        }
        if is_faulty {
            return self.keep_last(location, gathered);
        }
        let tools = checked.tools.into_iter().map(|found| {
            let mut tool = found.tool;
            tool.origin = ToolOrigin::Operator;
            CollectedTool { tool, origin: origin.clone() }
        });
        gathered.good.push((location.to_owned(), tools.collect()));
    }

    fn keep_last(&self, location: &Path, gathered: &mut SourceContents) {
        gathered.good.extend(self.good.iter().find(|(known, _)| known == location).cloned());
    }

    /// Remembers what is in effect now.
    pub(super) fn keep(&mut self, good: Tools) {
        self.good = good;
    }
}

/// The code of a source that could not be fetched: alone, it does not keep a server from starting.
pub(super) const UNAVAILABLE: &str = "source_unavailable";

fn shown(location: &Path) -> String {
    location.display().to_string()
}

fn to_fault(location: &Path, problem: &ToolProblem) -> Fault {
    let message = if problem.path.is_empty() {
        problem.message.clone()
    } else {
        format!("`{}`: {}", problem.path, problem.message)
    };
    let hint = problem.hint.clone().unwrap_or_default();
    Fault::of_file(location, problem.code, message).at(problem.place).hint(hint)
}
