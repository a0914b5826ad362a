//! `cargo run -p xtask -- tidy`: prints every broken rule, fails when there is one.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy(),
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match xtask::tidy(&root) {
        Ok(violations) if violations.is_empty() => {
            println!("tidy: every rule holds");
            ExitCode::SUCCESS
        }
        Ok(violations) => {
            for violation in &violations {
                println!("{violation}");
            }
            println!("tidy: {} broken", violations.len());
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("tidy: {message}");
            ExitCode::from(2)
        }
    }
}
