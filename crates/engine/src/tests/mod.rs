//! The engine from its public side, on the memory store, with tokio's time paused.

mod admission;
mod approvals;
mod blocks;
mod caching;
mod ceilings;
mod clocks;
mod crash;
mod crashes;
mod faulty;
mod large;
mod limits;
mod orphans;
mod pending;
mod refusing;
mod resources;
mod running;
mod stalling;
mod stopping;
mod trees;
mod updating;
mod waiting;
mod watching;
mod workers;
mod world;
