//! The engine from its public side, on the memory store, with tokio's time paused.

mod admission;
mod ceilings;
mod crash;
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
