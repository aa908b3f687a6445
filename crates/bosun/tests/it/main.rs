//! The program, driven from outside.

mod chaos;
mod races;
mod sse;
mod support;
