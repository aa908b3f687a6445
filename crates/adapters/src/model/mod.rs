//! Models: each one a module that speaks one wire format, or none.

pub mod openai;
mod retry;
pub mod scripted;
mod sse;
