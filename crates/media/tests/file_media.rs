//! Files and block devices: both ways of reading, fall-backs, locks, space, threads.
// Helpers of tests: clippy only knows functions marked as tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use heliox_media::{
    AlignedBuf, FileMedia, FileOptions, IoKind, IoMode, Media, MediaError, Read, StripedMedia,
};
use std::path::{Path, PathBuf};
use std::process::Command;

const LEN: u64 = 8 << 20;

fn options(io_mode: IoMode, direct: bool) -> FileOptions {
    FileOptions {
        io_mode,
        direct,
        ..FileOptions::default()
    }
}

/// Every sector holds its own number, so that misplaced bytes are seen.
fn numbered(len: usize, first: u64) -> AlignedBuf {
    let mut data = AlignedBuf::new(len).unwrap();
    for (n, sector) in data.chunks_mut(512).enumerate() {
        sector
            .chunks_mut(8)
            .for_each(|w| w.copy_from_slice(&(first + n as u64).to_le_bytes()));
    }
    data
}

fn fill(media: &dyn Media) {
    media.write_at(0, &numbered(LEN as usize, 0)).unwrap();
    media.sync().unwrap();
}

fn check_batches(media: &dyn Media) {
    let mut buffers: Vec<_> = (1..=100)
        .map(|n| AlignedBuf::new(n % 5 * 4096 + 4096).unwrap())
        .collect();
    let place = |n: usize| (n as u64 * 7919) % (LEN / 4096 - 16) * 4096;
    let mut reads: Vec<_> = buffers
        .iter_mut()
        .enumerate()
        .map(|(n, buf)| Read {
            offset: place(n),
            buf,
        })
        .collect();
    media.read_many(&mut reads).unwrap();
    for (n, buffer) in buffers.iter().enumerate() {
        assert!(
            **buffer == *numbered(buffer.len(), place(n) / 512),
            "read {n}"
        );
    }
}

fn check_contract(media: &dyn Media) {
    fill(media);
    check_batches(media);
    let sector = media.geometry().sector_bytes as usize;
    let mut buffer = AlignedBuf::new(8192).unwrap();
    let odd = media.read_at(sector as u64 / 2, &mut buffer);
    assert!(matches!(odd, Err(MediaError::Unaligned { .. })));
    let beyond = media.read_at(media.geometry().len_bytes, &mut buffer);
    assert!(matches!(beyond, Err(MediaError::OutOfRange { .. })));
    let mut reads = [Read {
        offset: media.geometry().len_bytes,
        buf: &mut buffer,
    }];
    assert!(matches!(
        media.read_many(&mut reads),
        Err(MediaError::OutOfRange { .. })
    ));
    media.write_at(4096, &numbered(4096, 1 << 40)).unwrap();
    media.read_at(0, &mut buffer).unwrap();
    assert!(buffer[..4096] == *numbered(4096, 0) && buffer[4096..] == *numbered(4096, 1 << 40));
    media.discard(0, 4096).unwrap();
    assert!(media.failure().is_none());
}

#[test]
fn files_keep_the_contract_in_every_mode() {
    let dir = tempfile::tempdir().unwrap();
    for (n, mode) in [IoMode::Auto, IoMode::Uring, IoMode::Blocking]
        .into_iter()
        .enumerate()
    {
        for direct in [true, false] {
            let path = dir.path().join(format!("{n}{direct}"));
            match FileMedia::create(&path, LEN, options(mode, direct)) {
                Ok(media) => check_contract(&media),
                Err(error) if mode == IoMode::Uring => println!("skipped: {error}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn ring_and_blocking_reads_give_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fill(&FileMedia::create(&path, LEN, FileOptions::default()).unwrap());
    let mut kinds = Vec::new();
    for mode in [IoMode::Auto, IoMode::Blocking] {
        let media = FileMedia::open(&path, options(mode, true)).unwrap();
        check_batches(&media);
        kinds.push(media.io_kind());
    }
    assert_eq!(kinds[1], IoKind::Blocking);
    if kinds[0] != IoKind::Uring {
        println!(
            "skipped: no io_uring, or no direct I/O, under {}",
            path.display()
        );
    }
}

#[test]
fn without_direct_io_the_page_cache_is_used_and_said() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: no /dev/shm");
        return;
    };
    // Newer kernels accept O_DIRECT on tmpfs: what counts is that the answer is true and it works.
    let media = FileMedia::create(&dir.path().join("f"), LEN, FileOptions::default()).unwrap();
    assert_eq!(
        media.describe().contains("page cache"),
        !media.geometry().direct
    );
    check_contract(&media);
    drop(media);
    let buffered = FileMedia::open(&dir.path().join("f"), options(IoMode::Auto, false)).unwrap();
    assert!(!buffered.direct() && buffered.io_kind() == IoKind::Blocking);
}

#[test]
fn a_device_that_is_let_go_in_a_moment_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let media = FileMedia::create(&path, LEN, FileOptions::default()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(5));
            drop(media);
        });
        FileMedia::open(&path, FileOptions::default()).unwrap();
    });
}

#[test]
fn a_device_is_opened_once_and_created_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let media = FileMedia::create(&path, LEN + 100, FileOptions::default()).unwrap();
    assert_eq!(media.geometry().len_bytes, LEN);
    let again = FileMedia::open(&path, FileOptions::default());
    assert!(matches!(again, Err(MediaError::InUse { .. })));
    let created = FileMedia::create(&path, LEN, FileOptions::default());
    assert!(matches!(created, Err(MediaError::Io { errno: 17, .. })));
    drop(media);
    FileMedia::open(&path, FileOptions::default()).unwrap();
    let directory = FileMedia::open(dir.path(), FileOptions::default());
    assert!(matches!(directory, Err(MediaError::Unusable { .. })));
    let none = dir.path().join("none");
    assert!(FileMedia::open(&none, FileOptions::default()).is_err());
    assert!(FileMedia::create(&none, u64::MAX, FileOptions::default()).is_err());
    assert!(!none.exists(), "a failed creation left a file");
}

#[test]
fn files_are_sparse_and_discard_gives_space_back() {
    let dir = tempfile::tempdir().unwrap();
    let media = FileMedia::create(&dir.path().join("f"), 1 << 30, FileOptions::default()).unwrap();
    assert!(media.allocated_bytes().unwrap() < 1 << 20);
    media.write_at(0, &numbered(4 << 20, 0)).unwrap();
    media.sync().unwrap();
    assert!(media.allocated_bytes().unwrap() >= 4 << 20);
    media.discard(0, 4 << 20).unwrap();
    media.sync().unwrap();
    assert!(media.allocated_bytes().unwrap() < 1 << 20);
    assert_eq!(media.geometry().len_bytes, 1 << 30);
}

#[test]
fn what_is_prepared_has_its_blocks_and_is_not_written_again() {
    const MIB: u64 = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let media = FileMedia::create(&dir.path().join("f"), 64 * MIB, FileOptions::default()).unwrap();
    media.write_at(0, &numbered(3 << 20, 0)).unwrap();
    // From the first byte without a block on, and beyond that what was written is lost.
    assert_eq!(media.prepare(2 * MIB, 2 * MIB).unwrap(), MIB);
    assert_eq!(media.prepare(2 * MIB, 2 * MIB).unwrap(), 0);
    assert_eq!(media.prepare(8 * MIB, 4 * MIB).unwrap(), 4 * MIB);
    assert!(media.allocated_bytes().unwrap() >= 8 * MIB);
    let mut read = AlignedBuf::new(4 << 20).unwrap();
    media.read_at(0, &mut read).unwrap();
    assert!(
        read[..3 << 20] == numbered(3 << 20, 0)[..],
        "it had its blocks"
    );
    media.read_at(8 * MIB, &mut read).unwrap();
    assert!(read.iter().all(|byte| *byte == 0));
    media.discard(8 * MIB, 4 * MIB).unwrap();
    assert_eq!(media.prepare(8 * MIB, 4 * MIB).unwrap(), 4 * MIB);
    assert!(media.prepare(63 * MIB, 2 * MIB).is_err(), "beyond the end");
    assert_eq!(media.prepare(64 * MIB, 0).unwrap(), 0);
    // A stripe passes it on to its volumes.
    let volume = |name| FileMedia::create(&dir.path().join(name), 64 * MIB, FileOptions::default());
    let volumes = ["a", "b"].map(|name| Box::new(volume(name).unwrap()) as Box<dyn Media>);
    let striped = StripedMedia::new(volumes.into(), 0).unwrap();
    assert_eq!(striped.prepare(5 * MIB, 10 * MIB).unwrap(), 10 * MIB);
    assert!(striped.allocated_bytes().unwrap() >= 10 * MIB);
}

#[test]
fn a_truncated_file_is_a_short_device() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    for mode in [IoMode::Auto, IoMode::Blocking] {
        let _ = std::fs::remove_file(&path);
        let media = FileMedia::create(&path, LEN, options(mode, true)).unwrap();
        fill(&media);
        std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(4096)
            .unwrap();
        let mut buffer = AlignedBuf::new(16_384).unwrap();
        let short = media.read_at(0, &mut buffer);
        assert!(
            matches!(
                short,
                Err(MediaError::ShortDevice {
                    done_bytes: 4096,
                    ..
                })
            ),
            "{short:?}"
        );
        let (a, b) = buffer.split_at_mut(4096);
        let mut reads = [
            Read { offset: 0, buf: a },
            Read {
                offset: 8192,
                buf: b,
            },
        ];
        let short = media.read_many(&mut reads);
        assert!(
            matches!(short, Err(MediaError::ShortDevice { .. })),
            "{short:?}"
        );
    }
}

#[test]
fn many_threads_read_batches_write_and_sync_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let media = FileMedia::create(&dir.path().join("f"), 2 * LEN, FileOptions::default()).unwrap();
    fill(&media);
    std::thread::scope(|scope| {
        for thread in 0..12u64 {
            let media = &media;
            scope.spawn(move || {
                for round in 0..20 {
                    if thread < 8 {
                        check_batches(media);
                        continue;
                    }
                    let at = LEN + (thread * 20 + round) * 4096;
                    media.write_at(at, &numbered(4096, at)).unwrap();
                    media.sync().unwrap();
                    let mut out = AlignedBuf::new(4096).unwrap();
                    media.read_at(at, &mut out).unwrap();
                    assert!(*out == *numbered(4096, at));
                }
            });
        }
    });
}

#[test]
fn stripes_over_files_are_one_device() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [IoMode::Auto, IoMode::Blocking] {
        let volume = |n: usize| -> Box<dyn Media> {
            let path = dir.path().join(format!("{mode:?}{n}"));
            Box::new(FileMedia::create(&path, LEN, options(mode, true)).unwrap())
        };
        let whole = StripedMedia::new((0..3).map(volume).collect(), 16_384).unwrap();
        check_contract(&whole);
    }
}

/// A loop device over a file, gone on drop.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn new(file: &Path) -> Option<LoopDevice> {
        std::fs::File::create(file).unwrap().set_len(LEN).unwrap();
        let output = Command::new("losetup")
            .args(["-f", "--show"])
            .arg(file)
            .output()
            .ok()?;
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let made = output.status.success() && !path.is_empty();
        made.then(|| LoopDevice(path.into()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

#[test]
fn block_devices_keep_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let Some(device) = LoopDevice::new(&dir.path().join("backing")) else {
        println!("skipped: no loop device can be made here (needs root and losetup)");
        return;
    };
    for mode in [IoMode::Auto, IoMode::Blocking] {
        let media = FileMedia::open(&device.0, options(mode, true)).unwrap();
        assert!(media.direct() && media.describe().contains("device"));
        assert_eq!(media.geometry().len_bytes, LEN);
        check_contract(&media);
        let second = FileMedia::open(&device.0, FileOptions::default());
        assert!(
            matches!(second, Err(MediaError::InUse { .. })),
            "{second:?}"
        );
    }
    assert_eq!(
        FileMedia::create(&device.0, LEN / 2, FileOptions::default())
            .unwrap()
            .geometry()
            .len_bytes,
        LEN / 2
    );
    let long = FileMedia::create(&device.0, LEN * 2, FileOptions::default());
    assert!(matches!(long, Err(MediaError::Unusable { .. })));
}

#[test]
fn a_full_file_system_fails_the_device_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().join("m");
    std::fs::create_dir(&mount).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "none"])
        .arg(&mount)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: no tmpfs can be mounted here (needs root)");
        return;
    }
    let media = FileMedia::create(&mount.join("f"), LEN, FileOptions::default()).unwrap();
    let first = media.write_at(0, &numbered(4 << 20, 0));
    let later = (media.write_at(0, &numbered(4096, 0)), media.sync());
    let mut buffer = AlignedBuf::new(4096).unwrap();
    let read = media.read_at(0, &mut buffer);
    drop(media);
    let _ = Command::new("umount").arg(&mount).status();
    assert_eq!(first.unwrap_err().errno(), Some(28));
    assert!(later.0.unwrap_err().is_failed() && later.1.unwrap_err().is_failed());
    read.unwrap();
}

#[test]
fn a_closed_device_refuses_everything_and_another_may_open_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    for io_mode in [IoMode::Auto, IoMode::Blocking] {
        let _ = std::fs::remove_file(&path);
        let media = FileMedia::create(&path, LEN, options(io_mode, true)).unwrap();
        fill(&media);
        media.close();
        let next = FileMedia::open(&path, options(io_mode, true)).unwrap();
        let memory = || AlignedBuf::new(4096).unwrap();
        let (mut one, mut two, mut three) = (memory(), memory(), memory());
        let mut reads = [(0, &mut one), (8192, &mut two)].map(|(offset, buf)| Read { offset, buf });
        let copy = std::fs::File::create(dir.path().join("copy")).unwrap();
        assert!(!media.clone_to(0, LEN, &copy, 0));
        for refused in [
            media.read_many(&mut reads),
            media.read_at(0, &mut three),
            media.write_at(0, &memory()),
            media.sync(),
            media.discard(0, 4096),
            media.prepare(0, 4096).map(drop),
            media.allocated_bytes().map(drop),
        ] {
            assert!(
                matches!(refused, Err(MediaError::Closed { .. })),
                "{refused:?}"
            );
        }
        assert!(media.failure().is_none(), "nothing has failed");
        let mut found = AlignedBuf::new(8192).unwrap();
        next.read_at(0, &mut found).unwrap();
        assert!(*found == *numbered(8192, 0), "written after the close");
        // Twice is once, and the other one keeps its lock.
        media.close();
        drop(media);
        let third = std::fs::File::open(&path).unwrap();
        assert!(third.try_lock().is_err());
    }
}
