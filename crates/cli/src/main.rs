//! The program `heliox`; all of it is in `lib.rs`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Gives memory back that is no longer used; glibc's keeps some 20 MiB for each of its arenas.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    heliox_cli::main()
}
