//! The executable: [`bosun::main`] with its allocator.

use std::process::ExitCode;

/// A query allocates many small strings on one thread and frees them on another, which the system's allocator is slow
/// at: it took a fifth of a server's CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    bosun::main()
}
