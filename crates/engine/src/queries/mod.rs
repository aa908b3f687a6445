//! The queries that are in memory, and their subscribers.
//!
//! [`live`] is the table of them and the one lock that orders all changes of a query; [`fan_out`] notifies the
//! subscribers of what is durable, [`watch`] is one subscriber, and [`journal_log`] writes the program's log.

pub(crate) mod append;
pub(crate) mod fan_out;
pub(crate) mod journal_log;
pub(crate) mod live;
pub(crate) mod state;
pub(crate) mod watch;
