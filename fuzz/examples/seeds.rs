//! Writes the seeds of a target into a directory, from which `cargo fuzz run` may start.
#![forbid(unsafe_code)]

use std::path::Path;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, directory] = &arguments[..] else {
        eprintln!("usage: seeds TARGET DIRECTORY");
        std::process::exit(2);
    };
    let Some(target) = heliox_fuzz::TARGETS.iter().find(|t| t.name == name) else {
        eprintln!("there is no target {name}");
        std::process::exit(2);
    };
    let directory = Path::new(directory);
    std::fs::create_dir_all(directory)?;
    for (at, seed) in (target.seeds)().iter().enumerate() {
        std::fs::write(directory.join(format!("seed-{at:03}")), seed)?;
    }
    Ok(())
}
