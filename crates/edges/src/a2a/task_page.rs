//! A page of tasks, the one that changed last first.
//!
//! The store lists queries in the order of their creation, so a page is selected in one pass over all of them. What is
//! kept meanwhile is bounded by the size of the page, in entries and in bytes; what does not fit is on the next page.

use std::collections::BTreeMap;

use bosun_core::{QueryUid, ceiling::PAGE_BYTES};

use super::wire::{Task, TaskPage};

/// Where a task is in the list: when it changed, and its uid.
pub(super) type TaskPosition = (i64, QueryUid);

/// The latest of the tasks that were added.
#[derive(Debug)]
pub(super) struct LatestTasks {
    page_size: usize,
    tasks: BTreeMap<TaskPosition, (Task, usize)>,
    bytes: usize,
    /// The latest task that is on a later page.
    latest_omitted: Option<TaskPosition>,
}

impl LatestTasks {
    pub(super) fn new(page_size: usize) -> Self {
        Self { page_size, tasks: BTreeMap::new(), bytes: 0, latest_omitted: None }
    }

    /// Adds a task, which is rendered only if it may be on this page.
    pub(super) fn add(&mut self, position: TaskPosition, render: impl FnOnce() -> Task) {
        // A page ends where the first task was omitted: the next one begins there.
        if self.latest_omitted.is_some_and(|omitted| position < omitted) {
            return;
        }
        let task = render();
        let bytes = serde_json::to_string(&task).map_or(0, |text| text.len());
        self.bytes += bytes;
        self.tasks.insert(position, (task, bytes));
        while self.tasks.len() > self.page_size || (self.bytes > PAGE_BYTES && self.tasks.len() > 1) {
            let Some((oldest, (_, bytes))) = self.tasks.pop_first() else { break };
            self.bytes -= bytes;
            self.latest_omitted = self.latest_omitted.max(Some(oldest));
        }
    }

    pub(super) fn finish(self, total_size: usize) -> TaskPage {
        let last = self.tasks.first_key_value().filter(|_| self.latest_omitted.is_some());
        let next_page_token = last.map(|((at, uid), _)| format!("{at}.{uid}")).unwrap_or_default();
        TaskPage {
            page_size: self.tasks.len(),
            tasks: self.tasks.into_values().rev().map(|(task, _)| task).collect(),
            next_page_token,
            total_size,
        }
    }
}
