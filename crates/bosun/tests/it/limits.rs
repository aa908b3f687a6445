//! The price ceilings: their page, and a case for every row of their table.

mod page;
