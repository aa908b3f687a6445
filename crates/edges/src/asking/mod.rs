//! What every edge does with queries, independent of any protocol.
//!
//! [`compile`]: schemas of tools, before they are checked; [`wait`]: how long a request waits for the next state;
//! [`cursor`]: where a stream resumes; [`decisions`]: what a person decides, and the verdicts; [`follow`]: a query as it runs; [`list`]: the part of a journal that lists show;
//! [`person`]: what a query waits for from a person; [`results`]: delivering results of tools, and the verdicts; [`tree`]: what
//! the queries below one wait for.

pub(crate) mod compile;
pub(crate) mod cursor;
pub(crate) mod decisions;
pub(crate) mod follow;
pub(crate) mod list;
pub(crate) mod person;
pub(crate) mod results;
pub(crate) mod tree;
pub(crate) mod wait;
