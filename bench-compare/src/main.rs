//! The program `bench-compare`: everything is in the library, so that tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    heliox_bench_compare::main()
}
