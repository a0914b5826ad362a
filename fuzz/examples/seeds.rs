//! Writes the seeds of every target into `fuzz/corpus/NAME`, where `cargo fuzz run NAME` starts.
#![forbid(unsafe_code)]

use std::path::Path;

fn main() -> std::io::Result<()> {
    for target in heliox_fuzz::TARGETS {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(target.name);
        std::fs::create_dir_all(&directory)?;
        for (at, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{at:02}")), seed)?;
        }
    }
    Ok(())
}
