//! What happens to the store when the disk fails, fills up, or keeps half of what was written.

mod failing;
mod full;
mod torn;
