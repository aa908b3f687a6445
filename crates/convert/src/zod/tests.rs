//! Tests of the converter from the outside.

mod corpus;
mod hostile;
mod seed;
mod tools;
