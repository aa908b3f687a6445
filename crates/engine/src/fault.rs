//! Fault injection: named points at which a test may make the process abort or panic.
//!
//! Every commit of the main path has a point before it and a point after it. They are always compiled in, so that what
//! is tested is what is shipped; without a plan, a point is one atomic load.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// All points: those of the main path, in its order, and those of opening a store.
pub const POINTS: &[&str] = &[
    "submit.appended",
    "submit.durable",
    "turn.started",
    "turn.replied",
    "turn.ended",
    "call.starting",
    "call.started",
    "call.pending",
    "child.appended",
    "child.durable",
    "call.delegated",
    "child.reported",
    "settle.appended",
    "call.ran",
    "call.finished",
    "deliver.appended",
    "deliver.durable",
    "decide.appended",
    "decide.durable",
    "expire.appended",
    "claim.appended",
    "claim.durable",
    "extend.appended",
    "cancel.appended",
    "update.appended",
    "delete.appended",
    "resume.appended",
    "resource.durable",
    "recover.appended",
    "blob.written",
    "blob.named",
    "blob.sealed",
    "store.commit",
    "store.committed",
    "store.remove",
    "store.removed",
    "store.resource",
    "store.resource_kept",
    "store.webhook",
    "store.webhook_kept",
    "store.maintain",
    "store.maintained",
    "open.commit",
    "open.committed",
    "upgrade.commit",
    "upgrade.committed",
];

struct FaultPlan {
    end: FaultEnd,
    point: &'static str,
    passes_left: AtomicU64,
}

/// What happens at the point.
enum FaultEnd {
    /// The process aborts, as if killed.
    Abort,
    /// The task at the point panics, and the process has to recover.
    Panic,
}

static PLAN: OnceLock<FaultPlan> = OnceLock::new();

/// The plan was not `<point>` or `<point>:<pass>`, optionally after `panic@`.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` names no fault point; write `<point>`, `<point>:<pass>` or `panic@<point>:<pass>`, with a point of {POINTS:?}"
)]
pub struct UnknownPoint(String);

/// Makes the process abort, as if killed, the `n`th time it passes a point (`turn.ended:3`), or makes the task that
/// passes it panic (`panic@turn.ended:3`).
///
/// # Errors
/// If the plan names no point.
pub fn plan(text: &str) -> Result<(), UnknownPoint> {
    let (end, place) = text.strip_prefix("panic@").map_or((FaultEnd::Abort, text), |place| (FaultEnd::Panic, place));
    let (name, pass) = place.split_once(':').unwrap_or((place, "1"));
    let point = POINTS.iter().find(|point| **point == name).ok_or_else(|| UnknownPoint(text.into()))?;
    let passes: u64 = pass.parse().map_err(|_| UnknownPoint(text.into()))?;
    // A second plan is ignored: the process dies once.
    let _ = PLAN.set(FaultPlan { end, point, passes_left: AtomicU64::new(passes) });
    Ok(())
}

/// Aborts or panics here, if that is the plan.
#[expect(clippy::panic, reason = "that is the plan")]
pub fn point(name: &'static str) {
    debug_assert!(POINTS.contains(&name), "fault point `{name}` is not listed");
    if let Some(plan) = PLAN.get()
        && plan.point == name
        && plan.passes_left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        match plan.end {
            FaultEnd::Abort => std::process::abort(),
            FaultEnd::Panic => panic!("planned at `{name}`"),
        }
    }
}
