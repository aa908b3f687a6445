//! The program, driven from outside.

mod chaos;
mod commits;
mod races;
mod sse;
mod support;
