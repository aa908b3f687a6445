//! Work that belongs to no single request: timers, retention, clock steps, and tasks that outlive their caller.

pub(crate) mod clock_step;
pub(crate) mod deadlines;
pub(crate) mod detached;
pub(crate) mod offload;
pub(crate) mod retention;
