//! Runners: they run the inside calls of each kind of binding.

pub mod a2a;
pub mod builtin;
pub mod functions;
pub mod http;
pub mod nango;
