//! Requests of one thread side by side: where they go, what they give back, how they fail.
// Helpers of tests: clippy only knows functions marked as tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use heliox_media::{AlignedBuf, FileMedia, FileOptions, FileRing, Media, MediaError, Operation};
use std::path::Path;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 200;

fn create(dir: &Path, direct: bool) -> FileMedia {
    let options = FileOptions {
        direct,
        ..FileOptions::default()
    };
    FileMedia::create(&dir.join("f"), BLOCKS * BLOCK as u64, options).unwrap()
}

/// `None`, and says so, where the kernel grants no ring.
fn ring(media: &FileMedia) -> Option<FileRing<'_, u64>> {
    match FileRing::new(media) {
        Ok(ring) => Some(ring),
        Err(error @ MediaError::Unusable { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn filled(byte: u8) -> AlignedBuf {
    let mut block = AlignedBuf::new(BLOCK).unwrap();
    block.fill(byte);
    block
}

fn tokens(ring: &mut FileRing<'_, u64>, mut seen: impl FnMut(u64, &[u8])) -> Vec<u64> {
    let mut tokens = Vec::new();
    while let Some((token, block)) = ring.wait().unwrap() {
        seen(token, &block);
        tokens.push(token);
    }
    tokens.sort_unstable();
    tokens
}

/// More than a ring holds, so that some wait for others.
#[test]
fn every_request_reaches_its_place_and_comes_back_once() {
    for direct in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let media = create(dir.path(), direct);
        let Some(mut ring) = ring(&media) else { return };
        assert!(ring.wait().unwrap().is_none(), "nothing is under way");
        let all: Vec<u64> = (0..BLOCKS).collect();
        let place = |n: u64| n * 77 % BLOCKS * BLOCK as u64;
        for &n in &all {
            ring.write(place(n), filled(n as u8), n).unwrap();
        }
        assert_eq!(tokens(&mut ring, |_, _| ()), all);
        for &n in &all {
            let mut block = filled(0xff);
            media.read_at(place(n), &mut block).unwrap();
            assert!(block.iter().all(|&b| b == n as u8), "written: {n}");
            ring.read(place(n), filled(0xff), n).unwrap();
        }
        let read = tokens(&mut ring, |n, block| {
            assert!(block.iter().all(|&b| b == n as u8), "read: {n}");
        });
        assert_eq!(read, all);
    }
}

#[test]
fn what_cannot_be_is_refused_and_what_fails_says_where() {
    let dir = tempfile::tempdir().unwrap();
    let media = create(dir.path(), true);
    let Some(mut ring) = ring(&media) else { return };
    let end = BLOCKS * BLOCK as u64;
    let error = ring.read(end, filled(0), 0).unwrap_err();
    assert!(matches!(error, MediaError::OutOfRange { .. }), "{error}");
    let error = ring.write(1, filled(0), 0).unwrap_err();
    assert!(matches!(error, MediaError::Unaligned { .. }), "{error}");
    assert!(
        ring.wait().unwrap().is_none(),
        "what was refused is under way"
    );

    let file = std::fs::File::options()
        .write(true)
        .open(dir.path().join("f"));
    file.unwrap().set_len(end / 2).unwrap();
    ring.read(end / 2, filled(0), 0).unwrap();
    let error = ring.wait().unwrap_err();
    let MediaError::ShortDevice { offset, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(offset, end / 2);
    assert!(media.failure().is_none(), "a failed read is not sticky");
}

#[test]
fn a_failed_write_is_sticky() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), true));
    let options = FileOptions {
        read_only: true,
        ..FileOptions::default()
    };
    let media = FileMedia::open(&dir.path().join("f"), options).unwrap();
    let Some(mut ring) = ring(&media) else { return };
    ring.write(4096, filled(1), 0).unwrap();
    let error = ring.wait().unwrap_err();
    let MediaError::Io {
        operation, offset, ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((operation, offset), (Operation::Write, 4096));
    assert!(media.failure().is_some());
    let error = ring.write(0, filled(1), 0).unwrap_err();
    assert!(matches!(error, MediaError::Failed { .. }), "{error}");
    ring.read(0, filled(1), 7).unwrap();
    assert_eq!(tokens(&mut ring, |_, _| ()), [7], "reads go on");
}

#[test]
fn a_ring_that_is_dropped_gives_the_file_back() {
    let dir = tempfile::tempdir().unwrap();
    let media = create(dir.path(), true);
    let Some(mut ring) = ring(&media) else { return };
    // More than a ring holds: some are complete, the others under way.
    for n in 0..70 {
        ring.read(n * BLOCK as u64, filled(0), n).unwrap();
    }
    drop(ring);
    media.close();
    FileMedia::open(&dir.path().join("f"), FileOptions::default()).unwrap();
}
