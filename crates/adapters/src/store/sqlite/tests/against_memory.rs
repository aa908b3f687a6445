//! Random sequences of operations on SQLite and on the memory store: no reader can tell them apart.

use std::collections::BTreeMap;

use bosun_core::Status;
use bosun_engine::memory::MemoryStore;
use proptest::{collection::vec, prelude::*};

use super::*;

const QUERIES: usize = 6;
/// Fewer than queries, so that they compete for them.
const NAMES: usize = 4;

#[derive(Clone, Debug)]
enum StoreStep {
    Create {
        query: usize,
        name: usize,
        elsewhere: bool,
    },
    /// The query advances, as its own writer sees it.
    Advance {
        query: usize,
        choice: u32,
    },
    /// The same by a writer with an outdated state.
    AdvanceFromThePast {
        query: usize,
        choice: u32,
    },
    Remember {
        query: usize,
    },
    Reload {
        query: usize,
    },
    Await {
        query: usize,
    },
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<StoreStep>> {
    let query = 0..QUERIES;
    let step = prop_oneof![
        3 => (query.clone(), 0..NAMES, prop::bool::weighted(0.2))
            .prop_map(|(query, name, elsewhere)| StoreStep::Create { query, name, elsewhere }),
        12 => (query.clone(), any::<u32>()).prop_map(|(query, choice)| StoreStep::Advance { query, choice }),
        3 => (query.clone(), any::<u32>()).prop_map(|(query, choice)| StoreStep::AdvanceFromThePast { query, choice }),
        2 => query.clone().prop_map(|query| StoreStep::Remember { query }),
        2 => query.clone().prop_map(|query| StoreStep::Reload { query }),
        2 => query.prop_map(|query| StoreStep::Await { query }),
        1 => Just(StoreStep::Reopen),
    ];
    vec(step, 1..80)
}

/// The writers of one store. Two worlds that take the same steps have the same writers.
struct StorePair<S> {
    store: S,
    writers: Vec<QueryWriter>,
    past: BTreeMap<usize, QueryWriter>,
    fates: Vec<Position>,
    /// The result of every append, as text.
    results: Vec<String>,
}

impl<S: Store> StorePair<S> {
    fn new(store: S) -> Self {
        let writers = (0..QUERIES as u32).map(|number| QueryWriter::new("default", "unnamed", number)).collect();
        Self { store, writers, past: BTreeMap::new(), fates: Vec::new(), results: Vec::new() }
    }

    async fn take(&mut self, step: &StoreStep) {
        match *step {
            StoreStep::Create { query, name, elsewhere } => {
                let (namespace, first) = if elsewhere { ("elsewhere", QUERIES) } else { ("default", 0) };
                let mut writer = QueryWriter::new(namespace, &format!("name{name}"), (first + query) as u32);
                self.fates.push(writer.start(&self.store));
                self.writers[query] = writer;
            }
            StoreStep::Advance { query, choice } => {
                let writer = &mut self.writers[query];
                if let Some(append) = writer.exists().then(|| writer.step(choice)).flatten() {
                    self.fates.push(writer.send(&self.store, append));
                }
            }
            StoreStep::AdvanceFromThePast { query, choice } => {
                if let Some(writer) = self.past.get_mut(&query)
                    && let Some(append) = writer.step(choice)
                {
                    self.fates.push(writer.send(&self.store, append));
                }
            }
            StoreStep::Remember { query } => {
                if self.writers[query].exists() {
                    self.past.insert(query, self.writers[query].clone());
                }
            }
            StoreStep::Reload { query } => {
                self.settle().await;
                self.writers[query].reload(&self.store).await;
            }
            StoreStep::Await { query } => {
                let position = self.writers[query].position();
                self.results.push(text_of(self.store.durable(position).await));
            }
            // The caller provides the new store.
            StoreStep::Reopen => {}
        }
    }

    async fn settle(&mut self) {
        for position in std::mem::take(&mut self.fates) {
            self.results.push(text_of(self.store.durable(position).await));
        }
    }

    /// A new process knows only what is in the store, and its positions start again.
    async fn reopened(mut self, open: impl FnOnce(S) -> S) -> Self {
        self.settle().await;
        self.store = open(self.store);
        self.past.clear();
        for writer in &mut self.writers {
            writer.reload(&self.store).await;
        }
        self
    }

    /// All that can be read, as text.
    async fn view(&self) -> Vec<String> {
        let mut view = Vec::new();
        for namespace in ["default", "elsewhere", "nowhere"].map(|name| name.parse::<Namespace>().unwrap()) {
            for name in (0..NAMES).map(|name| format!("name{name}").parse::<QueryName>().unwrap()) {
                let stored = self.store.load(&namespace, &name).await.unwrap();
                if let Some(stored) = &stored {
                    assert_eq!(fold(stored), stored.head, "a head is the fold of its journal");
                }
                view.push(format!("{stored:?}"));
            }
            let search = RecordSearch { limit: 999, ..RecordSearch::default() };
            let log = self.store.search(&namespace, &search).await.unwrap().records;
            view.extend(log.iter().map(|numbered| format!("{} {:?}", numbered.seq, numbered.record)));
            view.push(format!("{:?}", self.store.usage(&namespace, Hour(0)).await.unwrap()));
            for status in [None, Some(Status::Waiting), Some(Status::Running), Some(Status::Completed)] {
                for limit in [1, 99] {
                    let page = QueryPage { limit, before: Some(self.writers[3].uid()), status, ..QueryPage::default() };
                    view.push(format!("{:?}", self.store.list(&namespace, &page).await.unwrap()));
                    let page = QueryPage { ..page };
                    view.push(format!("{:?}", self.store.list(&namespace, &page).await.unwrap()));
                }
            }
        }
        for (limit, after) in [(99, None), (2, Some(Namespace::default()))] {
            let wanted = WantedQueries { limit, after, ..WantedQueries::default() };
            view.push(format!("{:?}", self.store.runnable(wanted).await.unwrap()));
        }
        view.push(format!("{:?}", self.store.count_runnable().await.unwrap()));
        view.push(format!("{:?}", self.store.count_waiting().await.unwrap()));
        let next = self.store.next_deadline().await.unwrap();
        view.push(format!("{next:?}"));
        for now in [next.unwrap_or_default(), Timestamp(i64::MAX)] {
            let mut due = self.store.due(now, 99).await.unwrap();
            // The order of two that are equally overdue is unspecified.
            due.sort();
            view.push(format!("{due:?}"));
        }
        view
    }
}

fn text_of(result: Result<(), StoreError>) -> String {
    result.map_or_else(|error| error.to_string(), |()| "kept".into())
}

async fn live(steps: &[StoreStep]) {
    let directory = TestDirectory::new();
    let mut sqlite = StorePair::new(directory.store());
    let mut memory = StorePair::new(MemoryStore::new());
    for step in steps {
        if matches!(step, StoreStep::Reopen) {
            sqlite = sqlite
                .reopened(|store| {
                    drop(store);
                    directory.store()
                })
                .await;
            memory = memory.reopened(|store| store.reopen()).await;
        } else {
            sqlite.take(step).await;
            memory.take(step).await;
        }
    }
    sqlite.settle().await;
    memory.settle().await;
    assert_eq!(sqlite.results, memory.results);
    for (sqlite, memory) in sqlite.view().await.into_iter().zip(memory.view().await) {
        assert_eq!(sqlite, memory);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_and_memory_behave_alike(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(live(&steps));
    }
}
