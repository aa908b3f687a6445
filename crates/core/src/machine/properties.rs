//! Invariants of the machine under any sequence of events.
//!
//! A random script of replies, starts, finishes, results and decisions (early, late, duplicated, out of order), polls,
//! deadlines, cancels, holds, steps of the wall clock and crashes is run against the machine, with calls that wait in
//! each of the possible ways. A crash discards everything that is not in the journal; the head is folded from it again.

mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::{collection::vec, prelude::*, strategy::ValueTree as _, test_runner::TestRunner};

use self::world::MachineWorld;
use super::tests::spec;
use crate::{
    Actor, CallId, Entry, Event, Head, QueryLimits, Status, Timestamp, Transcript, head::WaitingOn,
    result_rendering::ResultRenderer, transcript::SentMessages,
};

const MAX_CALLS: u32 = 6;

#[derive(Clone, Debug)]
enum MachineAct {
    /// The driver does what is next.
    Drive(Vec<CallKind>),
    /// A running inside call ends.
    Finish(usize, u8),
    /// A running inside call continues elsewhere.
    Leave(usize),
    /// A running inside call continues elsewhere, with a question for a person.
    Question(usize),
    /// A running inside call gets a query of its own; the process may stop before that is recorded.
    Delegate {
        call: usize,
        recorded: bool,
    },
    /// A query of a call ends, or its end is reported again.
    ChildEnds(usize, u8),
    /// A person decides about the `n`th call that ever existed.
    Decide {
        call: usize,
        approve: bool,
        edit: bool,
        saw: Saw,
    },
    /// A client posts a result for the `n`th call that ever existed, by id or by name.
    Post {
        call: usize,
        by_name: bool,
        content: u8,
        hold: bool,
    },
    Pass(u16),
    /// The wall clock steps by this many seconds.
    Step(i16),
    Sweep,
    /// A worker claims the first open call.
    Claim,
    Cancel,
    Resume,
    Change(u32),
    /// Another process takes over; the first one either announced its shutdown or crashed.
    Restart {
        orderly: bool,
    },
}

/// Which arguments the person who decides says to have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saw {
    /// The client does not say.
    Unsaid,
    TheCall,
    Others,
}

#[derive(Clone, Copy, Debug)]
enum CallKind {
    Outside,
    Inside { repeatable: bool },
    Approval { repeatable: bool },
    Parameters,
    Refused,
    Cached { outside: bool },
    Worker { repeatable: bool },
}

fn kind() -> impl Strategy<Value = CallKind> {
    prop_oneof![
        4 => Just(CallKind::Outside),
        2 => any::<bool>().prop_map(|repeatable| CallKind::Inside { repeatable }),
        2 => any::<bool>().prop_map(|repeatable| CallKind::Approval { repeatable }),
        1 => Just(CallKind::Parameters),
        1 => Just(CallKind::Refused),
        2 => any::<bool>().prop_map(|outside| CallKind::Cached { outside }),
        2 => any::<bool>().prop_map(|repeatable| CallKind::Worker { repeatable }),
    ]
}

fn saw() -> impl Strategy<Value = Saw> {
    prop_oneof![2 => Just(Saw::Unsaid), 2 => Just(Saw::TheCall), 1 => Just(Saw::Others)]
}

fn act() -> impl Strategy<Value = MachineAct> {
    prop_oneof![
        8 => vec(kind(), 0..4).prop_map(MachineAct::Drive),
        4 => (0..8usize, 0..3u8).prop_map(|(call, content)| MachineAct::Finish(call, content)),
        4 => (0..8usize).prop_map(MachineAct::Leave),
        4 => (0..8usize).prop_map(MachineAct::Question),
        3 => (0..8usize, prop::bool::weighted(0.8))
            .prop_map(|(call, recorded)| MachineAct::Delegate { call, recorded }),
        4 => (0..8usize, 0..3u8).prop_map(|(call, content)| MachineAct::ChildEnds(call, content)),
        6 => (0..8usize, any::<bool>(), prop::bool::weighted(0.3), saw())
            .prop_map(|(call, approve, edit, saw)| MachineAct::Decide { call, approve, edit, saw }),
        8 => (0..8usize, any::<bool>(), 0..3u8, prop::bool::weighted(0.1))
            .prop_map(|(call, by_name, content, hold)| MachineAct::Post { call, by_name, content, hold }),
        2 => (0..400u16).prop_map(MachineAct::Pass),
        1 => (-400..400i16).prop_map(MachineAct::Step),
        2 => Just(MachineAct::Sweep),
        3 => Just(MachineAct::Claim),
        1 => Just(MachineAct::Cancel),
        1 => Just(MachineAct::Resume),
        1 => (0..=MAX_CALLS).prop_map(MachineAct::Change),
        2 => any::<bool>().prop_map(|orderly| MachineAct::Restart { orderly }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_keeps_the_invariants(acts in vec(act(), 0..60)) {
        let mut world = MachineWorld::new();
        for act in acts {
            world.perform(act);
            world.check();
        }
        world.finish();
        world.check();
        prop_assert!(matches!(world.head.status(), Status::Completed | Status::Failed | Status::Cancelled));
    }
}

/// The kind of each wait that is open, by the call that waits.
fn open_waits(head: &Head) -> BTreeMap<CallId, &'static str> {
    let kind = |on: WaitingOn| match on {
        WaitingOn::Client => "client",
        WaitingOn::Approval { .. } => "approval",
        WaitingOn::Parameters => "parameters",
        WaitingOn::Runner { .. } => "runner",
        WaitingOn::Answer { .. } => "answer",
        WaitingOn::Child => "child",
    };
    head.waits().filter_map(|wait| Some((wait.call?.id, kind(wait.waiting.on)))).collect()
}

/// The scripts above are worth something only if they meet all of this.
#[test]
fn waits_of_every_kind_meet_each_other_crashes_cancellations_and_their_deadlines() {
    const KINDS: [&str; 6] = ["answer", "approval", "child", "client", "parameters", "runner"];
    let mut runner = TestRunner::deterministic();
    let scripts = vec(act(), 0..60);
    let mut met: BTreeSet<(&str, &str)> = BTreeSet::new();
    for _ in 0..20_000 {
        let mut world = MachineWorld::new();
        for act in scripts.new_tree(&mut runner).expect("a script").current() {
            let open = open_waits(&world.head);
            let event = match act {
                MachineAct::Restart { orderly: false } => Some("crash"),
                MachineAct::Cancel => Some("cancellation"),
                _ => None,
            };
            met.extend(open.values().flat_map(|one| open.values().map(|other| (*one, *other))));
            met.extend(open.values().flat_map(|kind| event.map(|event| (*kind, event))));
            let before = world.journal.len();
            world.perform(act);
            for entry in &world.journal[before..] {
                if let Event::CallExpired { call } = &entry.event {
                    met.extend(open.get(call).map(|kind| (*kind, "deadline")));
                }
            }
        }
    }
    for kind in KINDS {
        let events = ["crash", "cancellation", "deadline"].into_iter();
        // A child has none: everything that it waits for itself has one.
        let events = events.filter(|event| kind != "child" || *event != "deadline");
        for other in KINDS.into_iter().chain(events) {
            assert!(met.contains(&(kind, other)), "no script has a wait for {kind} and {other}");
        }
    }
}

/// A query with these answers, turn by turn.
fn answered(texts: &[&str]) -> Transcript {
    let created = Event::Created { spec: Arc::new(spec(QueryLimits::default())), by: Actor::local() };
    let mut transcript = Transcript::new(&Entry { seq: 1, at: Timestamp(0), event: created }).unwrap();
    for (seq, text) in (2..).zip(texts) {
        let event = format!(r#"{{"v":1,"kind":"turn_ended","turn":1,"text":"{text}","calls":0}}"#);
        transcript.apply(&Entry { seq, at: Timestamp(0), event: Event::decode(&event).unwrap() });
    }
    transcript
}

#[test]
fn a_diverged_turn_is_rendered_again() {
    let extend = |transcript: &Transcript, sent| transcript.extend_sent(sent, &[], &ResultRenderer::default()).messages;
    let render =
        |transcript: &Transcript| transcript.extend_sent(SentMessages::default(), &[], &ResultRenderer::default());
    let (lost, shorter, longer) = (answered(&["lost"]), answered(&["one"]), answered(&["one", "two"]));
    assert_eq!(render(&longer).messages.len(), 3);
    // As after a failed write, when the query was loaded again and may have been driven on.
    assert_eq!(extend(&shorter, render(&longer)), render(&shorter).messages);
    assert_eq!(extend(&longer, render(&lost)), render(&longer).messages);
}
