//! The engine from its public side, on the memory store, with tokio's time paused.

mod admission;
mod clocks;
mod crash;
mod crashes;
mod faulty;
mod large;
mod orphans;
mod refusing;
mod running;
mod stopping;
mod updating;
mod waiting;
mod watching;
mod world;
