//! Tests of the converter from the outside.

mod corpus;
mod hostile;
mod tools;
