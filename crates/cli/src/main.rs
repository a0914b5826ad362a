//! The program `heliox`; all of it is in `lib.rs`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    heliox_cli::main()
}
