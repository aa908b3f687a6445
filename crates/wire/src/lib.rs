//! Wire formats that several crates read or write, as serde structs.
//!
//! Each module mirrors the spelling of one specification. Fields are public and there is no behaviour: what a value means,
//! which of them are refused and with which words, is decided by the crates that use them.

pub mod a2a;
pub mod chat;
