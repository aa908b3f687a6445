//! A script: scenes, their turns, and how a request is answered.

use std::{path::Path, time::Duration};

use bosun_core::{query::Usage, text::clip};
use bosun_reading::Faults;

use super::{
    read,
    template::{Missing, ScriptTemplate},
};

/// Characters of an input that an error shows.
const SHOWN: usize = 120;

/// Everything that a scripted model can say.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Script {
    pub(super) scenes: Vec<ScriptScene>,
    /// What is played for an input without a scene.
    pub(super) otherwise: Vec<ScriptTurn>,
}

/// The turns for one kind of input.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScriptScene {
    pub(super) when: ScriptWhen,
    pub(super) turns: Vec<ScriptTurn>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptWhen {
    Contains(String),
    Exactly(String),
}

/// One answer of the model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScriptTurn {
    pub(super) act: ScriptAct,
    pub(super) delay: Duration,
    pub(super) faults: Option<Box<WireFaults>>,
}

/// How an API misbehaves during an answer. Only a stand-in for an API does: in the program itself there is no wire.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct WireFaults {
    /// The fault occurs this often for the same request, and then no more.
    pub times: Option<u32>,
    /// An error instead of the answer.
    pub fail: Option<WireFailure>,
    /// The connection is closed after this many bytes of the body.
    pub cut_at: Option<usize>,
    /// No further data is sent after this many bytes of the body.
    pub silent_at: Option<usize>,
    /// Bytes are sent one by one, with this pause.
    pub drip: Option<Duration>,
    /// The event with this number is not JSON; of a plain answer, the whole body.
    pub garbage: Option<usize>,
    /// A `finish_reason` other than the right one, as the API spells it.
    pub finish: Option<String>,
    /// All calls have the same id.
    pub same_ids: bool,
    pub no_usage: bool,
}

/// An error of an API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireFailure {
    pub status: u16,
    pub message: String,
    pub retry_after: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScriptAct {
    Speak(Box<ScriptedAnswer>),
    Fail { status: u16, message: String },
}

#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct ScriptedAnswer {
    /// Thinking before the answer, where the API supports it.
    pub(super) think: Option<String>,
    pub(super) say: Option<ScriptTemplate>,
    /// Tools by their real names, with arguments as compact JSON.
    pub(super) calls: Vec<(String, Box<str>)>,
    /// `Some` streams the text word by word, with this pause between two words.
    pub(super) words: Option<Duration>,
    pub(super) usage: Usage,
}

/// One message of the conversation, as far as a script reads it.
#[derive(Clone, Copy, Debug)]
pub enum ScriptLine<'a> {
    User(&'a str),
    Assistant,
    Result { alias: &'a str, content: &'a str },
}

/// The script's answer to one request.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedReply<'s> {
    /// For each earlier turn, whether it had thinking.
    pub thoughts_before: Vec<bool>,
    pub thought: Option<&'s str>,
    pub text: Option<String>,
    /// Aliases and arguments.
    pub calls: Vec<(String, &'s str)>,
    pub usage: Usage,
    /// The delay before the answer.
    pub delay: Duration,
    /// Whether the text is streamed word by word.
    pub by_words: bool,
    /// The pause between two words.
    pub pace: Duration,
    pub faults: Option<&'s WireFaults>,
}

/// Why a script has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    #[error("the script has no scene for `{0}` and no `otherwise`")]
    NoScene(String),
    #[error("the script's scene for `{input}` has {turns} turns, and turn {wanted} was asked for")]
    NoTurn { input: String, turns: usize, wanted: usize },
    #[error("the conversation has no user message")]
    NoInput,
    #[error("the script wants the result of {0}, and there is none yet")]
    NoResult(String),
    /// The script lets the model API fail here.
    #[error("{status}: {message}")]
    Failed { status: u16, message: String },
}

impl Script {
    /// Reads a script; `file` is its path, for the messages.
    ///
    /// # Errors
    /// With every fault of the file, each with its position.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Faults> {
        read::script(file, text)
    }

    /// The model's answer to this conversation. `alias` returns the name by which the model knows a tool.
    ///
    /// # Errors
    /// If the script has no answer, or lets the model API fail.
    pub fn play(
        &self,
        lines: &[ScriptLine<'_>],
        alias: impl Fn(&str) -> String,
    ) -> Result<ScriptedReply<'_>, ScriptError> {
        let is_input = |line: &ScriptLine<'_>| matches!(line, ScriptLine::User(_));
        let start = lines.iter().rposition(is_input).ok_or(ScriptError::NoInput)?;
        let (ScriptLine::User(input), since) = (lines[start], &lines[start + 1..]) else {
            return Err(ScriptError::NoInput);
        };
        let scene = self.scenes.iter().find(|scene| scene.when.matches(input));
        let turns = scene.map_or(&self.otherwise, |scene| &scene.turns);
        if turns.is_empty() {
            return Err(ScriptError::NoScene(clip(input, SHOWN)));
        }
        let index = since.iter().filter(|line| matches!(line, ScriptLine::Assistant)).count();
        let Some(turn) = turns.get(index) else {
            return Err(ScriptError::NoTurn { input: clip(input, SHOWN), turns: turns.len(), wanted: index + 1 });
        };
        match &turn.act {
            ScriptAct::Fail { status, message } => {
                Err(ScriptError::Failed { status: *status, message: message.clone() })
            }
            ScriptAct::Speak(speech) => {
                let thought =
                    |turn: &ScriptTurn| matches!(&turn.act, ScriptAct::Speak(speech) if speech.think.is_some());
                let thoughts_before = turns[..index].iter().map(thought).collect();
                Ok(ScriptedReply { thoughts_before, ..speech.play(turn, input, since, alias)? })
            }
        }
    }
}

impl ScriptedAnswer {
    fn play<'s>(
        &'s self,
        turn: &'s ScriptTurn,
        input: &str,
        since: &[ScriptLine<'_>],
        alias: impl Fn(&str) -> String,
    ) -> Result<ScriptedReply<'s>, ScriptError> {
        let results = since.iter().filter_map(|line| match line {
            ScriptLine::Result { alias, content } => Some((*alias, *content)),
            ScriptLine::User(_) | ScriptLine::Assistant => None,
        });
        let fill = |say: &ScriptTemplate| say.fill(input, &results.collect::<Vec<_>>(), &alias);
        let text = self.say.as_ref().map(fill).transpose();
        Ok(ScriptedReply {
            text: text.map_err(|Missing(what)| ScriptError::NoResult(what))?,
            calls: self.calls.iter().map(|(tool, arguments)| (alias(tool), &**arguments)).collect(),
            thoughts_before: Vec::new(),
            thought: self.think.as_deref(),
            usage: self.usage,
            delay: turn.delay,
            faults: turn.faults.as_deref(),
            by_words: self.words.is_some(),
            pace: self.words.unwrap_or_default(),
        })
    }
}

impl ScriptedReply<'_> {
    /// The text in the parts in which it is streamed; together they are the text.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        let text = self.text.as_deref().unwrap_or_default();
        let whole = (!self.by_words && !text.is_empty()).then_some(text);
        let words = self.by_words.then(|| text.split_inclusive(' '));
        whole.into_iter().chain(words.into_iter().flatten())
    }
}

impl ScriptWhen {
    fn matches(&self, input: &str) -> bool {
        match self {
            Self::Contains(part) => input.contains(part),
            Self::Exactly(whole) => input == whole,
        }
    }
}
