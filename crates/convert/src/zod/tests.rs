//! Tests of the converter through its public interface.

mod corpus;
mod hostile;
mod tools;
