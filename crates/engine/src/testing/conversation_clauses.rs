//! The clauses of the store's contract about conversations.

#![expect(clippy::expect_used, reason = "compiled for tests only: a failure here is a failed test")]

use std::{sync::Arc, time::Duration};

use bosun_core::{
    Actor, QueryUid, Timestamp,
    audit::{Action, AuditRecord},
    conversation::ConversationKey,
    machine,
    transcript::Message,
};

use super::{
    query_writer::{QueryWriter, document},
    store_contract::{StorePlace, conflicts, durable, namespace, removal},
};
use crate::store::{
    Append, PAGE_BYTES, Position, RecordSearch, Removal, Store, StoreError,
    conversations::{
        ConversationPart, ConversationTurn, Exchange, Frame, Joining, Listing, Size, WantedConversations, outdated,
    },
};

const KEPT: Duration = Duration::from_secs(60);

fn key(memory: &str, id: &str) -> ConversationKey {
    ConversationKey { memory: memory.into(), id: id.into() }
}

fn joining(key: ConversationKey, alone: bool, after: Option<QueryUid>) -> Option<ConversationPart> {
    Some(ConversationPart::Joins(Joining { key, alone, after, history: None }))
}

/// A question and its answer.
fn exchange(writer: &QueryWriter, key: ConversationKey, answer: &str) -> Exchange {
    let head = writer.head();
    Exchange {
        key,
        query: head.uid,
        name: head.name.clone(),
        at: head.updated_at,
        kept_until: head.updated_at.after(KEPT),
        messages: Arc::from([
            Message::User("and?".into()),
            Message::Assistant { text: Some(answer.into()), calls: Vec::new(), provider: None },
        ]),
    }
}

/// A query that joins the conversation and waits.
fn open(store: &dyn Store, writer: &mut QueryWriter, key: ConversationKey, alone: bool) -> Position {
    open_after(store, writer, key, alone, None)
}

/// The same with a history that ends with the query `after`.
fn open_after(
    store: &dyn Store,
    writer: &mut QueryWriter,
    key: ConversationKey,
    alone: bool,
    after: Option<QueryUid>,
) -> Position {
    let append = Append { conversation: joining(key, alone, after), ..writer.create() };
    writer.send(store, append)
}

/// Completes the query with `answer`.
fn complete(store: &dyn Store, writer: &mut QueryWriter, key: ConversationKey, answer: &str) -> Position {
    writer.append(store, machine::advance(writer.head()));
    let append = writer.write(writer.reply(Vec::new()));
    let added = exchange(writer, key, answer);
    writer.send(store, Append { conversation: Some(ConversationPart::Adds(added)), ..append })
}

/// A whole query of a conversation.
async fn complete_query(store: &dyn Store, number: u32, key: ConversationKey, answer: &str) -> QueryUid {
    let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
    open(store, &mut writer, key.clone(), false);
    let position = complete(store, &mut writer, key, answer);
    durable(store, position).await;
    writer.uid()
}

fn all() -> Frame {
    Frame::new(Size { messages: u64::MAX, tokens: u64::MAX, bytes: u64::MAX })
}

fn answers(turns: &[ConversationTurn]) -> Vec<String> {
    let text = |turn: &ConversationTurn| match turn.messages.last() {
        Some(Message::Assistant { text: Some(text), .. }) => text.clone(),
        other => format!("{other:?}"),
    };
    turns.iter().map(text).collect()
}

async fn history(store: &dyn Store, key: &ConversationKey, frame: Frame) -> Vec<String> {
    answers(&store.history(&namespace("default"), key, frame).await.expect("readable"))
}

async fn conversation_turns(store: &dyn Store, wanted: WantedConversations) -> Listing<ConversationTurn> {
    store.conversation_turns(&namespace("default"), &wanted, None, 100).await.expect("readable")
}

pub async fn messages_are_in_the_order_in_which_their_queries_completed(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let conversation = key("default", "talk");
    let mut writers: Vec<_> =
        (1..=3).map(|number| QueryWriter::new("default", &format!("q{number}"), number)).collect();
    for writer in &mut writers {
        open(&*store, writer, conversation.clone(), false);
    }
    assert_eq!(history(&*store, &conversation, all()).await, [""; 0], "an open query adds nothing");
    // In another order than they were created in; the second is cancelled and adds nothing.
    complete(&*store, &mut writers[2], conversation.clone(), "third");
    let cancelled = machine::cancel(writers[1].head(), None, &Actor::local());
    writers[1].append(&*store, cancelled);
    let position = complete(&*store, &mut writers[0], conversation.clone(), "first");
    durable(&*store, position).await;
    assert_eq!(history(&*store, &conversation, all()).await, ["third", "first"]);
    drop(store);
    let store = place.open();
    let listed = conversation_turns(&*store, WantedConversations::default()).await;
    assert_eq!((answers(&listed.items), listed.total), (vec!["third".into(), "first".into()], 4));
    assert_eq!(listed.items.iter().map(|turn| turn.first).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(listed.items[0].messages, exchange(&writers[2], conversation.clone(), "third").messages);
    assert_eq!(listed.items[0].name, writers[2].head().name);
    let elsewhere = store.history(&namespace("other"), &conversation, all()).await.expect("readable");
    assert!(elsewhere.is_empty(), "namespaces are separate");
}

pub async fn an_append_that_is_not_kept_adds_no_messages(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let conversation = key("default", "talk");
    let mut writer = QueryWriter::new("default", "q", 1);
    open(&*store, &mut writer, conversation.clone(), false);
    let mut rival = writer.clone();
    complete(&*store, &mut writer, conversation.clone(), "kept");
    let lost = complete(&*store, &mut rival, conversation.clone(), "lost");
    assert!(conflicts(&*store, lost).await);
    assert_eq!(history(&*store, &conversation, all()).await, ["kept"]);
}

pub async fn a_history_is_cut_between_queries(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let key = key("default", "talk");
    for number in 1..=4 {
        complete_query(&*store, number, key.clone(), &format!("answer {number}")).await;
    }
    let frame = |messages, tokens| Frame::new(Size { messages, tokens, bytes: u64::MAX });
    for (messages, shown) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (7, 3), (8, 4), (99, 4)] {
        let found = history(&*store, &key, frame(messages, u64::MAX)).await;
        let expect: Vec<_> = (5 - shown..5).map(|number| format!("answer {number}")).collect();
        assert_eq!(found, expect, "{messages} messages");
    }
    // A question is worth 5 tokens and an answer 6 or 7.
    assert_eq!(history(&*store, &key, frame(u64::MAX, 24)).await.len(), 2);
    let bytes = Frame::new(Size { messages: u64::MAX, tokens: u64::MAX, bytes: 1 });
    assert_eq!(history(&*store, &key, bytes).await, ["answer 4"], "the last query is always included");
}

pub async fn a_query_that_must_be_alone_in_a_conversation_is(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let (conversation, other) = (key("default", "talk"), key("other", "talk"));
    let writer = |number: u32| QueryWriter::new("default", &format!("q{number}"), number);
    let (mut first, mut second) = (writer(1), writer(2));
    let busy = async |position: Position| matches!(store.durable(position).await, Err(StoreError::ConversationBusy(_)));
    // In one commit, and in two.
    let kept = open(&*store, &mut first, conversation.clone(), true);
    let lost = open(&*store, &mut second, conversation.clone(), true);
    assert!(busy(lost).await);
    durable(&*store, kept).await;
    let lost = open(&*store, &mut writer(3), conversation.clone(), true);
    assert!(busy(lost).await);
    // Another memory has another conversation, and so has another namespace.
    let position = open(&*store, &mut writer(4), other, true);
    durable(&*store, position).await;
    let position = open(&*store, &mut QueryWriter::new("elsewhere", "q", 5), conversation.clone(), true);
    durable(&*store, position).await;
    // A query that need not be alone is not refused.
    let mut easy = writer(6);
    let position = open(&*store, &mut easy, conversation.clone(), false);
    durable(&*store, position).await;
    complete(&*store, &mut first, conversation.clone(), "done");
    let lost = open(&*store, &mut writer(7), conversation.clone(), true);
    assert!(busy(lost).await, "the one that need not be alone is still open");
    // Ended and joined in one commit.
    let cancelled = machine::cancel(easy.head(), None, &Actor::local());
    easy.append(&*store, cancelled);
    let mut next = writer(8);
    let position = open_after(&*store, &mut next, conversation.clone(), true, Some(first.uid()));
    durable(&*store, position).await;
    // A history that was read before the last query ended is incomplete: in one commit, and in two.
    complete(&*store, &mut next, conversation.clone(), "done, too");
    let lost = open_after(&*store, &mut writer(10), conversation.clone(), true, Some(first.uid()));
    assert!(busy(lost).await);
    let lost = open_after(&*store, &mut writer(11), conversation.clone(), true, None);
    assert!(busy(lost).await);
    let position = open_after(&*store, &mut writer(12), conversation.clone(), true, Some(next.uid()));
    durable(&*store, position).await;
    drop(store);
    let store = place.open();
    let lost = open(&*store, &mut writer(9), conversation, true);
    assert!(matches!(store.durable(lost).await, Err(StoreError::ConversationBusy(id)) if id == "talk"));
}

pub async fn conversations_are_listed_in_pages_the_latest_first(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let keys = [key("default", "a"), key("default", "b"), key("other", "a")];
    for (number, key) in (1..).zip(&keys) {
        complete_query(&*store, number, key.clone(), "one").await;
    }
    let latest = complete_query(&*store, 4, keys[0].clone(), "two").await;
    let list = async |wanted: &WantedConversations, after: Option<QueryUid>, limit: usize| {
        store.conversations(&namespace("default"), wanted, after, limit).await.expect("readable")
    };
    let everything = list(&WantedConversations::default(), None, 10).await;
    let found: Vec<_> = everything.items.iter().map(|item| item.key.clone()).collect();
    assert_eq!(found, [keys[0].clone(), keys[2].clone(), keys[1].clone()]);
    assert_eq!((everything.items[0].messages, everything.items[0].latest), (4, latest));
    assert_eq!((everything.more, everything.total), (false, 3));
    let first = list(&WantedConversations::default(), None, 2).await;
    assert_eq!((first.items.len(), first.more, first.total), (2, true, 3));
    let rest = list(&WantedConversations::default(), first.items.last().map(|item| item.latest), 2).await;
    assert_eq!((rest.items[0].key.clone(), rest.items.len(), rest.more), (keys[1].clone(), 1, false));
    let of_other =
        list(&WantedConversations { memory: Some("other".into()), ..WantedConversations::default() }, None, 10).await;
    assert_eq!((of_other.items.len(), of_other.total), (1, 1));
    let called_a =
        list(&WantedConversations { id: Some("a".into()), ..WantedConversations::default() }, None, 10).await;
    assert_eq!(called_a.items.len(), 2);

    // And so are messages, in their order.
    let page = async |after: Option<QueryUid>| {
        store
            .conversation_turns(&namespace("default"), &WantedConversations::default(), after, 3)
            .await
            .expect("readable")
    };
    let first = page(None).await;
    assert_eq!((first.items.len(), first.more, first.total), (3, true, 8));
    let rest = page(first.items.last().map(|turn| turn.query)).await;
    assert_eq!((answers(&rest.items), rest.more), (vec!["two".into()], false));
    for query in ["q4".to_owned(), latest.to_string()] {
        let of_query =
            conversation_turns(&*store, WantedConversations { query: Some(query), ..WantedConversations::default() })
                .await;
        assert_eq!((of_query.items.len(), of_query.total), (1, 2));
    }
}

pub async fn deleted_messages_are_gone_and_numbers_are_not_reused(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let (a, b) = (key("default", "a"), key("default", "b"));
    for (number, key) in (1..).zip([&a, &a, &a, &b]) {
        complete_query(&*store, number, key.clone(), &format!("answer {number}")).await;
    }
    let delete = async |wanted: WantedConversations| {
        let record = AuditRecord::of_act(Timestamp(0), Action::ConversationDeleted, None, None);
        let removal = Removal::Conversations(namespace("default"), wanted, Some(Box::new(record)));
        store.remove(removal, Timestamp(0)).await.expect("writable")
    };
    let of_a = |query: &str| WantedConversations {
        id: Some("a".into()),
        query: Some(query.into()),
        ..WantedConversations::default()
    };
    assert_eq!(delete(of_a("q4")).await, 0, "it belongs to another conversation");
    assert_eq!(delete(of_a("q3")).await, 1);
    assert_eq!(history(&*store, &a, all()).await, ["answer 1", "answer 2"]);
    complete_query(&*store, 5, a.clone(), "answer 5").await;
    let numbers: Vec<_> =
        conversation_turns(&*store, WantedConversations { id: Some("a".into()), ..WantedConversations::default() })
            .await
            .items;
    assert_eq!(numbers.iter().map(|turn| turn.first).collect::<Vec<_>>(), [1, 3, 7]);
    assert_eq!(delete(WantedConversations { id: Some("b".into()), ..WantedConversations::default() }).await, 1);
    assert_eq!(delete(WantedConversations { id: Some("b".into()), ..WantedConversations::default() }).await, 0);
    assert_eq!(delete(WantedConversations { memory: Some("other".into()), ..WantedConversations::default() }).await, 0);
    assert_eq!(delete(WantedConversations::default()).await, 1);
    assert_eq!(conversation_turns(&*store, WantedConversations::default()).await, Listing::default());
    // A conversation is removed with its last exchange.
    complete_query(&*store, 6, b.clone(), "answer 6").await;
    assert_eq!(delete(WantedConversations { query: Some("q6".into()), ..WantedConversations::default() }).await, 1);
    let left =
        store.conversations(&namespace("default"), &WantedConversations::default(), None, 9).await.expect("readable");
    assert_eq!(left, Listing::default());
    let search = RecordSearch { action: Some(Action::ConversationDeleted), limit: 9, ..RecordSearch::default() };
    let recorded = store.search(&namespace("default"), &search).await.expect("readable").records;
    assert_eq!(recorded.len(), 4, "only what was deleted is recorded");
}

pub async fn a_conversation_is_deleted_at_the_end_of_its_retention(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let (old, young) = (key("default", "old"), key("default", "young"));
    for (number, key) in [(1, &old), (2, &old), (9, &young)] {
        complete_query(&*store, number, key.clone(), "x").await;
    }
    let listed = conversation_turns(&*store, WantedConversations::default()).await.items;
    let until = |index: usize| listed[index].at.after(KEPT);
    let left = async |now: Timestamp| {
        while store.remove(Removal::Outdated, now).await.expect("writable") > 0 {}
        conversation_turns(&*store, WantedConversations::default()).await.items.len()
    };
    assert_eq!(left(until(0)).await, 3, "the second query has extended its retention");
    assert_eq!(left(until(1)).await, 1);
    assert_eq!(left(until(2)).await, 0);
    let search = RecordSearch { action: Some(Action::ConversationDeleted), limit: 9, ..RecordSearch::default() };
    let found = store.search(&namespace("default"), &search).await.expect("readable").records;
    let recorded: Vec<_> = found.into_iter().rev().map(|numbered| numbered.record).collect();
    assert_eq!(recorded, [outdated(&old, until(1)), outdated(&young, until(2))], "it is recorded");
}

pub async fn a_query_with_a_short_retention_does_not_shorten_that_of_its_conversation(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let conversation = key("default", "talk");
    let (mut lasting, mut brief) = (QueryWriter::new("default", "q1", 1), QueryWriter::new("default", "q2", 2));
    let kept_until = Timestamp(0).after(Duration::from_secs(1_000_000_000_000));
    for (writer, kept_until) in [(&mut lasting, kept_until), (&mut brief, Timestamp(1))] {
        open(&*store, writer, conversation.clone(), false);
        writer.append(&*store, machine::advance(writer.head()));
        let append = writer.write(writer.reply(Vec::new()));
        let added = Exchange { kept_until, ..exchange(writer, conversation.clone(), "x") };
        let position = writer.send(&*store, Append { conversation: Some(ConversationPart::Adds(added)), ..append });
        durable(&*store, position).await;
    }
    let left = async |store: &dyn Store, now: Timestamp| {
        while store.remove(Removal::Outdated, now).await.expect("writable") > 0 {}
        conversation_turns(store, WantedConversations::default()).await.items.len()
    };
    let before = Timestamp(kept_until.0 - 1);
    assert_eq!(left(&*store, before).await, 2);
    drop(store);
    let store = place.open();
    assert_eq!(left(&*store, before).await, 2, "nor after a restart");
    assert_eq!(left(&*store, kept_until).await, 0);
}

pub async fn a_page_of_large_messages_is_short(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let (long, text) = (key("default", "talk"), "a".repeat(PAGE_BYTES / 3));
    for number in 1..=7 {
        complete_query(&*store, number, long.clone(), &text).await;
    }
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = store
            .conversation_turns(&namespace("default"), &WantedConversations::default(), after, 100)
            .await
            .expect("readable");
        assert_eq!(page.total, 14);
        pages.push(page.items.len());
        after = page.items.last().map(|turn| turn.query);
        if !page.more {
            break;
        }
    }
    assert_eq!(pages, [3, 3, 1], "none is missing, and none is too large to be listed");
}

pub async fn a_history_is_deleted_with_the_last_query_that_refers_to_it(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let shared = document("{\"messages\":[]}");
    let mut writers: Vec<_> =
        (1..=2).map(|number| QueryWriter::new("default", &format!("q{number}"), number)).collect();
    for writer in &mut writers {
        let joins = Joining { key: key("default", "talk"), alone: false, after: None, history: Some(shared.clone()) };
        let append = Append { conversation: Some(ConversationPart::Joins(joins)), ..writer.create() };
        writer.send(&*store, append);
    }
    for (writer, left) in writers.iter().zip([true, false]) {
        store.remove(removal(writer), Timestamp(1)).await.expect("writable");
        assert_eq!(store.document(shared.hash).await.expect("readable").is_some(), left);
    }
}

pub async fn a_namespace_is_in_use_while_a_conversation_is_in_it(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut writer = QueryWriter::new("default", "q1", 1);
    open(&*store, &mut writer, key("default", "talk"), false);
    let position = complete(&*store, &mut writer, key("default", "talk"), "yes");
    durable(&*store, position).await;
    let used = async || {
        let listed = store.namespaces().await.expect("readable");
        let is_used = store.is_in_use(&namespace("default")).await.expect("readable");
        assert_eq!(listed, if is_used { vec![namespace("default")] } else { Vec::new() });
        is_used
    };
    assert!(used().await);
    store.remove(removal(&writer), Timestamp(1)).await.expect("writable");
    assert!(used().await, "its messages can still be listed");
    let all = Removal::Conversations(namespace("default"), WantedConversations::default(), None);
    store.remove(all, Timestamp(1)).await.expect("writable");
    assert!(!used().await);
}
