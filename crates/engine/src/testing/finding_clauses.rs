//! The clauses of the store's contract about finding queries: in lists, by deadline, and by work.

#![expect(clippy::expect_used, reason = "compiled for tests only: a failure here is a failed test")]

use std::{collections::BTreeMap, time::Duration};

use bosun_core::{
    Actor, CallId, Entry, Event, Head, Namespace, Outcome, Status, Timestamp,
    event::Changed,
    machine::{self, CallDecision, CallDisposition, Decision, ModelTurnReply, Takeover},
    query::{AskedLimits, Spec, TargetKind},
    tool::label_selector::LabelSelector,
};

use super::{
    query_writer::{QueryWriter, spec},
    store_contract::{LONG, StorePlace, durable, namespace},
};
use crate::store::{PAGE_BYTES, QueryPage, Runnable, Store, WantedQueries};

pub async fn a_list_has_pages_newest_first_with_total_and_filter(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    // Created out of order: the id decides which one is newer.
    for number in [3, 1, 5, 2, 4] {
        let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
        writer.start_and_pause(&*store, LONG);
        let position = if number % 2 == 0 { writer.resolve_and_complete(&*store) } else { writer.position() };
        durable(&*store, position).await;
    }
    let names = async |page: QueryPage| {
        let listed = store.list(&namespace("default"), &page).await.expect("readable");
        let names: Vec<_> = listed.queries.iter().map(|(head, _)| head.name.to_string()).collect();
        for (head, entries) in &listed.queries {
            let (created, latest) = entries.split_first().expect("a journal has a beginning");
            assert_eq!((created.seq, created.at), (1, head.created_at));
            assert!(matches!(created.event, Event::Created { .. }), "lists show the input");
            assert!(has_all_open_calls(head, latest), "lists show the open calls: {latest:?}");
            if head.status().is_final() {
                let shows_end = matches!(latest, [.., answer, end] if end.seq == head.seq
                    && matches!(answer.event, Event::TurnEnded { .. }) && end.event == Event::Completed);
                assert!(shows_end, "lists show how it ended: {latest:?}");
            }
        }
        (names.join(" "), listed.next.is_some(), listed.total)
    };
    let uid = |number| Some(QueryWriter::new("default", "any", number).uid());
    let (all, waiting, done) = (None, Some(Status::Waiting), Some(Status::Completed));
    let cases = [
        (9, None, all, ("q5 q4 q3 q2 q1", false, 5)),
        (5, None, all, ("q5 q4 q3 q2 q1", false, 5)),
        (2, None, all, ("q5 q4", true, 5)),
        (2, uid(4), all, ("q3 q2", true, 5)),
        (2, uid(2), all, ("q1", false, 5)),
        (2, uid(1), all, ("", false, 5)),
        (0, None, all, ("", false, 5)),
        (2, None, waiting, ("q5 q3", true, 3)),
        (2, uid(4), waiting, ("q3 q1", false, 3)),
        (9, None, done, ("q4 q2", false, 2)),
    ];
    for (limit, before, status, (expect, more, total)) in cases {
        let page = QueryPage { limit, before, status, ..QueryPage::default() };
        assert_eq!(names(page.clone()).await, (expect.to_owned(), more, total), "{page:?}");
    }
}

pub async fn queries_are_found_by_label_session_target_and_time(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let labels = |text: &str| {
        let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<BTreeMap<_, _>>()
    };
    let mut writers = Vec::new();
    for (number, text, session, target) in [
        (1, "team=red tier=gold", Some("s1"), (TargetKind::Agent, "clerk")),
        (2, "team=red", Some("s2"), (TargetKind::Model, "clerk")),
        (3, "team=blue tier=", None, (TargetKind::Agent, "clerk")),
        (4, "", Some("s1"), (TargetKind::Agent, "pilot")),
    ] {
        let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
        let spec = Spec {
            labels: labels(text),
            session_id: session.map(str::to_owned),
            target_kind: target.0,
            target: target.1.to_owned(),
            ..spec()
        };
        let created = writer.create_as(spec);
        writer.send(&*store, created);
        writer.append(&*store, machine::advance(writer.head()));
        writers.push(writer);
    }
    let mut elsewhere = QueryWriter::new("other", "q5", 5);
    let created = elsewhere.create_as(Spec { labels: labels("team=red"), session_id: Some("s1".into()), ..spec() });
    let position = elsewhere.send(&*store, created);
    durable(&*store, position).await;
    let names = async |store: &dyn Store, page: QueryPage| {
        let listed = store.list(&namespace("default"), &page).await.expect("readable");
        assert_eq!(listed.total, listed.queries.len() as u64, "{page:?}");
        listed.queries.iter().map(|(head, _)| head.name.to_string()).collect::<Vec<_>>().join(" ")
    };
    let all = || QueryPage { limit: 9, ..QueryPage::default() };
    let with = |text: &str| QueryPage { labels: LabelSelector::parse(text).expect("a selector"), ..all() };
    for (selector, expect) in [
        ("team=red", "q2 q1"),
        ("team=red,tier=gold", "q1"),
        ("team!=red", "q4 q3"),
        ("team in (red, blue)", "q3 q2 q1"),
        ("team notin (red)", "q4 q3"),
        ("tier", "q3 q1"),
        ("!tier", "q4 q2"),
        ("tier=", "q3"),
        ("team=red,!tier", "q2"),
        ("team=red,team=blue", ""),
        ("team=green", ""),
        ("session=s1", ""),
    ] {
        assert_eq!(names(&*store, with(selector)).await, expect, "{selector}");
    }
    let session = |id: &str| QueryPage { session: Some(id.to_owned()), ..all() };
    assert_eq!(names(&*store, session("s1")).await, "q4 q1");
    assert_eq!(names(&*store, session("s9")).await, "");
    let target = |kind, name: &str| QueryPage { target: Some((kind, name.to_owned())), ..all() };
    assert_eq!(names(&*store, target(TargetKind::Agent, "clerk")).await, "q3 q1");
    assert_eq!(names(&*store, target(TargetKind::Model, "clerk")).await, "q2");
    let mut page = session("s1");
    page.target = Some((TargetKind::Agent, "clerk".to_owned()));
    page.labels = LabelSelector::parse("tier").expect("a selector");
    assert_eq!(names(&*store, page.clone()).await, "q1");
    page.status = Some(Status::Completed);
    assert_eq!(names(&*store, page).await, "");
    let at = |index: usize| Some(writers[index].head().created_at);
    assert_eq!(names(&*store, QueryPage { since: at(1), until: at(3), ..all() }).await, "q3 q2");
    assert_eq!(names(&*store, QueryPage { since: at(1), ..session("s1") }).await, "q4");
    assert_eq!(names(&*store, QueryPage { until: at(1), ..with("team=red") }).await, "q1");

    // A change of labels replaces them; a page continues where the last one ended; ends and deletions are seen.
    let changed = Changed { labels: Some(labels("team=blue").into()), ..Changed::default() };
    let position = writers[0].append(&*store, vec![Event::Changed(Box::new(changed))]);
    durable(&*store, position).await;
    assert_eq!(names(&*store, with("team=red")).await, "q2");
    assert_eq!(names(&*store, with("tier")).await, "q3");
    assert_eq!(names(&*store, session("s1")).await, "q4 q1");
    let page = QueryPage { limit: 1, ..with("team=blue") };
    let listed = store.list(&namespace("default"), &page).await.expect("readable");
    assert_eq!((listed.total, listed.next), (2, Some(writers[2].uid())));
    let listed = store.list(&namespace("default"), &QueryPage { before: listed.next, ..page }).await.expect("readable");
    assert_eq!((&*listed.queries[0].0.name.to_string(), listed.next), ("q1", None));
    let events = machine::cancel(writers[3].head(), None, &Actor::local());
    let position = writers[3].append(&*store, events);
    durable(&*store, position).await;
    assert_eq!(names(&*store, QueryPage { status: Some(Status::Cancelled), ..session("s1") }).await, "q4");
    assert_eq!(names(&*store, QueryPage { status: Some(Status::Cancelled), ..all() }).await, "q4");
    assert_eq!(names(&*store, QueryPage { status: Some(Status::Running), ..all() }).await, "q3 q2 q1");
    drop(store);
    let store = place.open();
    assert_eq!(names(&*store, with("team=blue")).await, "q3 q1");
    store.remove(super::store_contract::removal(&writers[2]), Timestamp(1)).await.expect("writable");
    assert_eq!(names(&*store, with("team=blue")).await, "q1");
}

pub async fn queries_with_open_approvals_are_listed_whatever_else_they_wait_for(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let approval = || CallDisposition::Approval { repeatable: false, timeout: LONG };
    let outside = CallDisposition::Outside { timeout: LONG };
    let mut writers = Vec::new();
    for (number, ways) in
        (1..).zip([vec![approval()], vec![outside.clone()], vec![outside, approval(), approval()], vec![approval()]])
    {
        let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
        writer.start(&*store);
        writer.append(&*store, machine::advance(writer.head()));
        let events = writer.reply(ways);
        durable(&*store, writer.append(&*store, events)).await;
        writers.push(writer);
    }
    let names = async |limit: usize, before| {
        let page = QueryPage { limit, before, approvals: true, ..QueryPage::default() };
        let listed = store.list(&namespace("default"), &page).await.expect("readable");
        for (head, entries) in &listed.queries {
            assert!(has_all_open_calls(head, &entries[1..]), "lists show the open calls: {entries:?}");
        }
        let names: Vec<_> = listed.queries.iter().map(|(head, _)| head.name.to_string()).collect();
        (names.join(" "), listed.next.is_some(), listed.total)
    };
    assert_eq!(names(9, None).await, ("q4 q3 q1".to_owned(), false, 3));
    assert_eq!(names(1, None).await, ("q4".to_owned(), true, 3));
    assert_eq!(names(9, Some(writers[2].uid())).await, ("q1".to_owned(), false, 3));
    let decision = Decision::Rejected { reason: None };
    let call = writers[0].head().calls[0].id;
    let decision = CallDecision { call, decision, seen: None };
    let (events, _) = machine::decide(writers[0].head(), writers[0].head().updated_at, decision, &Actor::local());
    durable(&*store, writers[0].append(&*store, events)).await;
    assert_eq!(names(9, None).await, ("q4 q3".to_owned(), false, 2), "a decided call is open no longer");
}

/// Whether the answer that asked for the open calls is included, with all of them.
fn has_all_open_calls(head: &Head, latest: &[Entry]) -> bool {
    let asked = |id: CallId| {
        let is_it = |entry: &Entry| matches!(&entry.event, Event::CallAsked(asked) if asked.call == id);
        latest.iter().skip_while(|entry| !matches!(entry.event, Event::TurnEnded { .. })).any(is_it)
    };
    head.waits().filter_map(|wait| wait.call).all(|call| asked(call.id))
}

pub async fn a_list_shows_every_open_call(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    for (number, calls) in (1..).zip([1, 2, 7, 8, 10]) {
        let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
        writer.start(&*store);
        writer.append(&*store, machine::advance(writer.head()));
        let events = writer.reply(vec![CallDisposition::Outside { timeout: LONG }; calls]);
        let position = writer.append(&*store, events);
        durable(&*store, position).await;
    }
    let page = QueryPage { limit: 9, ..QueryPage::default() };
    let listed = store.list(&namespace("default"), &page).await.expect("readable");
    let waiting: Vec<_> = listed.queries.iter().map(|(head, _)| head.outside_calls().count()).collect();
    assert_eq!(waiting, [10, 8, 7, 2, 1]);
    for (head, entries) in &listed.queries {
        assert!(has_all_open_calls(head, &entries[1..]), "{entries:?}");
        assert_eq!(
            entries.len(),
            2 + head.outside_calls().count(),
            "the creation, the answer, and its calls: {entries:?}"
        );
    }
}

pub async fn a_page_of_large_answers_is_short(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let text = Some("a".repeat(PAGE_BYTES / 3));
    for number in 1..=7 {
        let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
        writer.start(&*store);
        writer.append(&*store, machine::advance(writer.head()));
        let reply = ModelTurnReply { text: text.clone(), ..ModelTurnReply::default() };
        let position = writer.append(&*store, machine::end_turn(writer.head(), Timestamp(1), reply));
        durable(&*store, position).await;
    }
    let mut page = QueryPage { limit: 100, ..QueryPage::default() };
    let mut pages = Vec::new();
    loop {
        let listed = store.list(&namespace("default"), &page).await.expect("readable");
        pages.push(listed.queries.len());
        assert_eq!(listed.total, 7);
        page.before = listed.next;
        if listed.next.is_none() {
            break;
        }
    }
    assert_eq!(pages, [3, 3, 1], "none is missing, and none is too large to be listed");
}

pub async fn a_namespace_is_in_use_while_a_query_is_in_it(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    assert!(!store.is_in_use(&namespace("default")).await.expect("readable"));
    assert_eq!(store.namespaces().await.expect("readable"), []);
    for (number, name) in [(1, "b"), (2, "a"), (3, "b"), (4, "c-d")] {
        let mut writer = QueryWriter::new(name, &format!("q{number}"), number);
        writer.start_and_pause(&*store, LONG);
        durable(&*store, writer.position()).await;
    }
    assert_eq!(store.namespaces().await.expect("readable"), ["a", "b", "c-d"].map(namespace));
    for (name, expect) in [("a", true), ("b", true), ("c-d", true), ("c", false), ("default", false)] {
        assert_eq!(store.is_in_use(&namespace(name)).await.expect("readable"), expect, "{name}");
    }
}

pub async fn due_queries_are_listed_most_overdue_first(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    assert_eq!(store.next_deadline().await.expect("readable"), None);
    let mut writers: Vec<_> = [(1, 300), (2, 100), (3, 200)]
        .map(|(number, seconds)| {
            let mut writer = QueryWriter::new("default", &format!("q{number}"), number);
            writer.start_and_pause(&*store, Duration::from_secs(seconds));
            writer
        })
        .into();
    let running = QueryWriter::new("default", "running", 4).start(&*store);
    durable(&*store, running).await;
    let deadlines: Vec<_> = writers.iter().map(|writer| writer.head().deadline().expect("it waits")).collect();
    let due = async |now: Timestamp, limit: usize| {
        let due = store.due(now, limit).await.expect("readable");
        due.into_iter().map(|(_, name)| name.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(store.next_deadline().await.expect("readable"), Some(deadlines[1]));
    assert_eq!(due(Timestamp(deadlines[1].0 - 1), 9).await, "");
    assert_eq!(due(deadlines[1], 9).await, "q2");
    assert_eq!(due(deadlines[0], 9).await, "q2 q3 q1");
    assert_eq!(due(deadlines[0], 2).await, "q2 q3");

    // A result ends the wait, a hold begins another, and the end of a query ends all.
    let position = writers[1].resolve_and_complete(&*store);
    durable(&*store, position).await;
    assert_eq!(due(deadlines[0], 9).await, "q3 q1");
    let events = writers[2].deliver(&Outcome::success("held"), true);
    let position = writers[2].append(&*store, events);
    durable(&*store, position).await;
    assert_eq!(store.next_deadline().await.expect("readable"), Some(deadlines[0]));
    let held_until = writers[2].head().deadline().expect("it is held");
    assert_eq!(due(held_until, 9).await, "q1 q3");
    for index in [0, 2] {
        let events = machine::cancel(writers[index].head(), None, &Actor::local());
        let position = writers[index].append(&*store, events);
        durable(&*store, position).await;
    }
    assert_eq!(store.next_deadline().await.expect("readable"), None);
    assert_eq!(due(Timestamp(i64::MAX), 9).await, "");
}

pub async fn a_mixed_turn_has_a_deadline_and_work(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut writer = QueryWriter::new("default", "a", 1);
    writer.start(&*store);
    writer.append(&*store, machine::advance(writer.head()));
    let ways = vec![CallDisposition::Outside { timeout: LONG }, CallDisposition::Inside { repeatable: true }];
    let position = writer.append(&*store, writer.reply(ways));
    durable(&*store, position).await;
    drop(store);
    let store = place.open();
    assert_eq!(store.next_deadline().await.expect("readable"), writer.head().deadline());
    assert_eq!(runnable(&*store, WantedQueries { limit: 9, ..WantedQueries::default() }).await, "a*");
}

pub async fn open_calls_of_workers_are_found_until_they_are_claimed(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let worker = || CallDisposition::Worker { timeout: LONG, repeatable: true };
    let mut writers: Vec<_> = [("default", 1), ("default", 2), ("other", 3)]
        .map(|(namespace, number)| QueryWriter::new(namespace, &format!("q{number}"), number))
        .into();
    for writer in &mut writers {
        writer.start(&*store);
        writer.append(&*store, machine::advance(writer.head()));
        let events = writer.reply(vec![worker(), CallDisposition::Outside { timeout: LONG }, worker()]);
        let position = writer.append(&*store, events);
        durable(&*store, position).await;
    }
    let found = async |store: &dyn Store, of: &str, tool: &str, limit: usize| {
        let found = store.claimable(&namespace(of), &["none".to_owned(), tool.to_owned()], limit).await;
        found.expect("readable").into_iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found(&*store, "default", "look_up", 9).await, "q1 q1 q2 q2");
    assert_eq!(found(&*store, "default", "look_up", 3).await, "q1 q1 q2");
    assert_eq!(found(&*store, "default", "other", 9).await, "");
    assert_eq!(found(&*store, "other", "look_up", 9).await, "q3 q3");
    // Claimed, resolved, released, and ended.
    let call = |writer: &QueryWriter| writer.head().calls[0].id;
    let claim = |writer: &QueryWriter| {
        let lease = std::sync::Arc::from("lease");
        machine::claim(writer.head(), Timestamp(0), call(writer), &lease, Timestamp(9), &Actor::local())
    };
    let events = claim(&writers[0]);
    let position = writers[0].append(&*store, events);
    durable(&*store, position).await;
    assert_eq!(found(&*store, "default", "look_up", 9).await, "q1 q2 q2");
    let events = vec![Event::CallReleased { call: call(&writers[0]) }];
    let position = writers[0].append(&*store, events);
    durable(&*store, position).await;
    assert_eq!(found(&*store, "default", "look_up", 9).await, "q1 q1 q2 q2");
    let events = writers[0].deliver(&Outcome::success("done"), false);
    writers[0].append(&*store, events);
    let events = machine::cancel(writers[2].head(), None, &Actor::local());
    let position = writers[2].append(&*store, events);
    durable(&*store, position).await;
    assert_eq!(found(&*store, "default", "look_up", 9).await, "q2 q2");
    assert_eq!(found(&*store, "other", "look_up", 9).await, "");
    drop(store);
    let store = place.open();
    assert_eq!(found(&*store, "default", "look_up", 9).await, "q2 q2");
    store.remove(super::store_contract::removal(&writers[1]), Timestamp(1)).await.expect("writable");
    assert_eq!(found(&*store, "default", "look_up", 9).await, "");
}

/// The names in order; a star marks those that are inherited.
async fn runnable(store: &dyn Store, wanted: WantedQueries) -> String {
    let found = store.runnable(wanted).await.expect("readable");
    let word = |Runnable { key, inherited }| format!("{}{}", key.1, if inherited { "*" } else { "" });
    found.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

pub async fn a_query_with_work_is_runnable_and_marked_if_inherited(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    let mut queued: Vec<_> = [3, 1, 2].map(|number| QueryWriter::new("default", &format!("q{number}"), number)).into();
    for writer in &mut queued {
        writer.start(&*store);
    }
    let mut waiting = QueryWriter::new("default", "waiting", 4);
    waiting.start_and_pause(&*store, LONG);
    let mut done = QueryWriter::new("default", "done", 5);
    done.start_and_pause(&*store, LONG);
    done.resolve_and_complete(&*store);
    let mut thinking = QueryWriter::new("default", "thinking", 6);
    thinking.start(&*store);
    let position = thinking.append(&*store, machine::advance(thinking.head()));
    durable(&*store, position).await;
    let wanted = |limit: usize, except: &[&QueryWriter]| WantedQueries {
        limit,
        except: except.iter().map(|writer| (writer.head().namespace.clone(), writer.head().name.clone())).collect(),
        after: None,
    };
    assert_eq!(runnable(&*store, wanted(9, &[])).await, "q1 q2 q3 thinking");
    assert_eq!(store.count_runnable().await.expect("readable"), [(Namespace::default(), 4)]);
    drop(store);

    let store = place.open();
    assert_eq!(runnable(&*store, wanted(9, &[])).await, "q1* q2* q3* thinking*");
    assert_eq!(runnable(&*store, wanted(2, &[])).await, "q1* q2*");
    assert_eq!(runnable(&*store, wanted(2, &[&queued[1], &queued[0]])).await, "q2* thinking*");
    assert_eq!(runnable(&*store, wanted(0, &[])).await, "");
    // Queries that this process creates or advances are its own.
    QueryWriter::new("default", "new", 7).start(&*store);
    queued[0].reload(&*store).await;
    let events = machine::recover(queued[0].head(), Takeover::Inherited);
    let position = queued[0].append(&*store, events);
    durable(&*store, position).await;
    assert_eq!(runnable(&*store, wanted(9, &[])).await, "q1* q2* q3 thinking* new");
    assert_eq!(store.count_runnable().await.expect("readable"), [(Namespace::default(), 5)]);
    // Changing a query does not advance it.
    thinking.reload(&*store).await;
    let limits = AskedLimits { max_tool_calls: Some(1), ..AskedLimits::default() };
    let position = thinking.append(&*store, machine::change(Changed { limits, ..Changed::default() }));
    durable(&*store, position).await;
    assert_eq!(runnable(&*store, wanted(9, &[])).await, "q1* q2* q3 thinking* new");
}

pub async fn namespaces_are_served_round_robin(mut place: Box<dyn StorePlace>) {
    let store = place.open();
    for (namespace, name, number) in
        [("a", "a1", 1), ("a", "a2", 2), ("a", "a3", 3), ("a", "a4", 4), ("b", "b1", 5), ("c", "c1", 6), ("c", "c2", 7)]
    {
        QueryWriter::new(namespace, name, number).start(&*store);
    }
    durable(&*store, store.last_position()).await;
    let counts = [(namespace("a"), 4), (namespace("b"), 1), (namespace("c"), 2)];
    assert_eq!(store.count_runnable().await.expect("readable"), counts);
    let cases = [
        (None, 12, "a1 b1 c1 a2 c2 a3 a4"),
        (None, 9, "a1 b1 c1 a2 c2 a3"),
        (None, 4, "a1 b1 c1 a2"),
        (Some("a"), 4, "b1 c1 a1 c2"),
        (Some("b"), 2, "c1 a1"),
        (Some("c"), 1, "a1"),
        (Some("z"), 1, "a1"),
    ];
    for (after, limit, expect) in cases {
        let found =
            runnable(&*store, WantedQueries { after: after.map(namespace), limit, ..WantedQueries::default() }).await;
        assert_eq!(found, expect, "{after:?} {limit}");
    }
}
