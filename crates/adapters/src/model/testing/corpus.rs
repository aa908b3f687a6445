//! Checks for the corpus of every wire format: its answers are read completely, however they are split, or not at all.

use std::path::{Path, PathBuf};

use bosun_engine::{Model, model::ModelError};
use bosun_standin::{self as standin, End};
use serde_json::Value;

use super::{KeptDeltas, assemble, fixtures, reply, shown, stand_in};
use crate::{
    golden,
    model::remote::{Failure, RemoteAnswer, Wire},
};

/// The recorded answers of one wire format, and their reader.
pub(crate) struct Corpus<W> {
    /// Its directory.
    pub(crate) name: &'static str,
    pub(crate) wire: W,
}

/// One recorded answer.
struct RecordedExchange {
    name: String,
    body: Vec<u8>,
    /// The file of the expected reply.
    reply: PathBuf,
}

fn expected(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn is_incomplete(result: &Result<RemoteAnswer, Failure>) -> bool {
    matches!(result, Err(Failure::Final(ModelError::Incomplete(_))))
}

impl<W: Wire> Corpus<W> {
    /// Every file of a directory, with the file of the reply next to it.
    fn read(&self, directory: &str, extension: &str) -> Vec<RecordedExchange> {
        let mut recorded = Vec::new();
        for entry in fixtures().join(self.name).join(directory).read_dir().unwrap() {
            let path = entry.unwrap().path();
            let text = path.to_str().unwrap();
            if text.ends_with(extension) {
                let reply = PathBuf::from(text.replace(extension, ".reply.json"));
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                recorded.push(RecordedExchange { name, body: std::fs::read(&path).unwrap(), reply });
            }
        }
        recorded.sort_by(|left, right| left.name.cmp(&right.name));
        recorded
    }

    fn streams(&self) -> Vec<RecordedExchange> {
        self.read("streams", ".sse")
    }

    fn assemble(&self, parts: &[&[u8]]) -> (Result<RemoteAnswer, Failure>, String) {
        assemble(self.wire.reader(), parts)
    }

    /// Every stream results in its reply, and shows its text.
    pub(crate) fn check_streams(&self, at_least: usize) {
        let streams = self.streams();
        assert!(streams.len() >= at_least, "{}", streams.len());
        for RecordedExchange { name, body, reply } in streams {
            let (answer, text) = self.assemble(&[&body]);
            let answer = shown(&answer.unwrap_or_else(|error| panic!("{name}: {error:?}")));
            golden::check(&reply, &format!("{answer:#}\n"));
            assert_eq!(text, answer["text"].as_str().unwrap_or_default(), "{name}");
        }
    }

    /// A stream has the same result in any two parts, and byte by byte.
    pub(crate) fn check_cuts(&self) {
        for RecordedExchange { name, body, reply } in self.streams() {
            let expect = expected(&reply);
            for cut in 0..body.len() {
                let (answer, _) = self.assemble(&[&body[..cut], &body[cut..]]);
                assert_eq!(shown(&answer.unwrap()), expect, "{name} cut at {cut}");
            }
            let bytes: Vec<_> = body.chunks(1).collect();
            assert_eq!(shown(&self.assemble(&bytes).0.unwrap()), expect, "{name} byte by byte");
        }
    }

    /// A stream that ends before `whole` is incomplete; what may follow is not part of it, but must be complete as
    /// well.
    pub(crate) fn check_early_ends(&self, whole: impl Fn(&[u8]) -> usize) {
        for RecordedExchange { name, body, reply } in self.streams() {
            let whole = whole(&body);
            for cut in 0..whole {
                let (answer, _) = self.assemble(&[&body[..cut]]);
                assert!(is_incomplete(&answer), "{name} ended at {cut}: {answer:?}");
            }
            assert_eq!(shown(&self.assemble(&[&body[..whole]]).0.unwrap()), expected(&reply), "{name}");
            let (answer, _) = self.assemble(&[&body[..whole], b"data: {"]);
            assert!(is_incomplete(&answer), "{name} ended in what follows it: {answer:?}");
        }
    }

    /// The same over a connection, which ends or is cut; and an answer that has begun is not requested again.
    pub(crate) async fn check_early_connections<M: Model>(&self, whole: &[u8], model: impl Fn(&str) -> M) {
        for end in [End::Clean, End::Cut] {
            let parts = (0..whole.len()).map(|cut| standin::Answer::sse(&whole[..cut]).then(end));
            let server = stand_in(parts.collect()).await;
            for cut in 0..whole.len() {
                // A new model each time: repeated failures would open the circuit breaker.
                let reply = reply(&model(&server.url())).await;
                assert!(matches!(reply, Err(ModelError::Incomplete(_))), "ended at {cut}: {reply:?}");
            }
            assert_eq!(server.requests().len(), whole.len());
        }
    }

    /// Every plain answer results in its reply, and no prefix of it does.
    pub(crate) fn check_plain(&self, at_least: usize) {
        let bodies = self.read("plain", ".body.json");
        assert!(bodies.len() >= at_least, "{}", bodies.len());
        for RecordedExchange { name, body, reply } in bodies {
            let deltas = KeptDeltas::default();
            let answer = self.wire.plain(&body, &deltas).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            golden::check(&reply, &format!("{:#}\n", shown(&answer)));
            assert_eq!(deltas.text(), expected(&reply)["text"].as_str().unwrap_or_default(), "{name}");
            for cut in 0..body.trim_ascii_end().len() {
                let answer = self.wire.plain(&body[..cut], &KeptDeltas::default());
                assert!(is_incomplete(&answer), "{name} ended at {cut}: {answer:?}");
            }
        }
    }
}
