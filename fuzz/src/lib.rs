//! Fuzz targets: everything that decodes bytes from media, the store under operations and faults,
//! stores that were damaged, the program's arguments and the files it imports.
//!
//! A target is a plain function of bytes that panics when a promise is broken: a decoder never
//! panics, and what it accepts it would encode again to the same meaning. libFuzzer calls the
//! targets (`fuzz_targets/`, `cargo +nightly fuzz run NAME`), and so does a driver that needs
//! no other toolchain (`tests/smoke.rs`). No threads.
#![forbid(unsafe_code)]

pub mod images;
mod input;
mod must;
pub mod mutate;
pub mod program;
pub mod scripts;
pub mod seeds;
pub mod segments;
pub mod targets;
pub mod texts;
pub mod volumes;

/// A target with inputs to start from.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of the function and of its libFuzzer binary.
    pub name: &'static str,
    /// What is called with each input.
    pub run: fn(&[u8]),
    /// Valid inputs, to be mutated.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets. `fuzz_targets/` has a file for each.
pub const TARGETS: &[Target] = &[
    Target {
        name: "frame",
        run: targets::frame,
        seeds: seeds::frames,
    },
    Target {
        name: "frame_block",
        run: targets::frame_block,
        seeds: seeds::frames,
    },
    Target {
        name: "record",
        run: targets::record,
        seeds: seeds::records,
    },
    Target {
        name: "record_stream",
        run: targets::record_stream,
        seeds: seeds::records,
    },
    Target {
        name: "superblock",
        run: targets::superblock,
        seeds: seeds::superblocks,
    },
    Target {
        name: "label",
        run: targets::label,
        seeds: seeds::labels,
    },
    Target {
        name: "segment_header",
        run: targets::segment_header,
        seeds: seeds::segment_headers,
    },
    Target {
        name: "checkpoint_chunk",
        run: targets::checkpoint_chunk,
        seeds: seeds::checkpoint_chunks,
    },
    Target {
        name: "checkpoint_meta",
        run: targets::checkpoint_meta,
        seeds: seeds::checkpoint_metas,
    },
    Target {
        name: "index_image",
        run: targets::index_image,
        seeds: images::index_images,
    },
    Target {
        name: "segment_scan",
        run: segments::segment_scan,
        seeds: segments::segments,
    },
    Target {
        name: "store_ops",
        run: scripts::store_ops,
        seeds: scripts::scripts,
    },
    Target {
        name: "volume_open",
        run: volumes::volume_open,
        seeds: volumes::patches,
    },
    Target {
        name: "store_text",
        run: texts::store_text,
        seeds: texts::store_texts,
    },
    Target {
        name: "backup_text",
        run: texts::backup_text,
        seeds: texts::backup_texts,
    },
    Target {
        name: "arguments",
        run: program::arguments,
        seeds: program::command_lines,
    },
    Target {
        name: "import",
        run: program::import,
        seeds: program::files,
    },
];
