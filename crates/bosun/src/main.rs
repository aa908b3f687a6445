//! The executable: [`bosun::main`] with its allocator.

use std::process::ExitCode;

/// A query is made of many small texts that one thread makes and another drops, which the system's
/// allocator is slow at: it was a fifth of all that a server did.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    bosun::main()
}
