//! The edge from its public side: requests into the real router, answers out of it.

mod a2a;
mod agents;
mod asking;
mod auditing;
mod authorization;
mod bounds;
mod caching;
mod conversations;
mod delivering;
mod described;
mod effects;
mod evaluating;
mod figures;
mod large;
mod malformed;
mod parameters;
mod queries;
mod refusals;
mod rfc;
mod serving;
mod streaming;
mod traces;
mod updating;
mod world;
