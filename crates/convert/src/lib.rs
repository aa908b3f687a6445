//! Foreign tool formats: text in, tools and warnings out.
//!
//! Every converter is a pure function. It reads no file, runs no code and never guesses silently:
//! what it could not carry over is a [`Warning`], what it cannot read is an error with its place.

pub mod document;
pub mod source;
mod warning;
pub mod zod;

pub use warning::Warning;
