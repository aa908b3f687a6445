//! What is journaled of a call that an agent works on: its task, and how it has gone so far.

use std::time::Duration;

use bosun_core::{ContentHash, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The delay before the first poll; it doubles with each further one.
const FIRST_POLL: Duration = Duration::from_millis(250);
const LONGEST_POLL: Duration = Duration::from_secs(5);
/// This many answers in a row that make no sense end a call.
const MOST_FAULTS: u32 = 5;

/// The handle of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TaskHandle {
    pub(super) task: String,
    pub(super) context: String,
    /// When the agent began to work: with the task, or with the last answer of a person.
    pub(super) since: Timestamp,
    #[serde(default)]
    polls: u32,
    /// Answers in a row that made no sense.
    #[serde(default)]
    faults: u32,
    /// How many answers of a person were passed on.
    #[serde(default)]
    pub(super) answers: u32,
    /// The identity of the question that the agent waits for an answer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) question: Option<ContentHash>,
}

impl TaskHandle {
    pub(super) fn new(task: String, context: String, since: Timestamp) -> Self {
        Self { task, context, since, polls: 0, faults: 0, answers: 0, question: None }
    }

    pub(super) fn read(handle: &Value) -> Option<Self> {
        serde_json::from_value(handle.clone()).ok()
    }

    pub(super) fn written(&self) -> Value {
        json!(self)
    }

    /// The handle after a poll that made sense, and the delay before the next one.
    pub(super) fn polled(mut self) -> (Self, Duration) {
        self.faults = 0;
        self.wait()
    }

    /// The same after one that did not; `None` if there were too many.
    pub(super) fn faulty(mut self) -> Option<(Self, Duration)> {
        self.faults += 1;
        (self.faults < MOST_FAULTS).then(|| self.wait())
    }

    /// The same after one that had no answer.
    pub(super) fn unanswered(self) -> (Self, Duration) {
        self.wait()
    }

    /// The handle of a task that waits for the answer to a question.
    pub(super) fn asking(self, question: ContentHash) -> Self {
        Self { faults: 0, question: Some(question), ..self }
    }

    /// The handle once an answer was passed on: the agent works again.
    pub(super) fn answered(self, now: Timestamp) -> Self {
        Self { since: now, polls: 0, faults: 0, answers: self.answers + 1, question: None, ..self }
    }

    fn wait(mut self) -> (Self, Duration) {
        let wait = FIRST_POLL.saturating_mul(1 << self.polls.min(8)).min(LONGEST_POLL);
        self.polls = self.polls.saturating_add(1);
        (self, wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_become_rarer_and_faults_in_a_row_end_a_call() {
        let mut handle = TaskHandle::new("t".into(), "c".into(), Timestamp(1));
        let mut waits = Vec::new();
        for _ in 0..6 {
            let (next, wait) = handle.polled();
            waits.push(wait.as_millis());
            handle = next;
        }
        assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 5_000]);
        for _ in 1..MOST_FAULTS {
            handle = handle.faulty().unwrap().0;
        }
        assert_eq!(handle.clone().faulty(), None);
        assert!(handle.polled().0.faulty().is_some(), "a poll that makes sense forgives");
    }

    #[test]
    fn a_handle_survives_the_journal() {
        let handle = TaskHandle::new("t".into(), "c".into(), Timestamp(1)).answered(Timestamp(2));
        assert_eq!(TaskHandle::read(&handle.written()), Some(handle));
        assert_eq!(TaskHandle::read(&json!({"task": 7})), None);
    }
}
