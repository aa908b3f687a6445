//! What the engine returns, as ARK's API writes it.

pub(crate) mod audit;
pub(crate) mod convert;
pub(crate) mod messages;
pub(crate) mod stream;
pub(crate) mod tree;
pub(crate) mod usage;
