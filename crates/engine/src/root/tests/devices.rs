//! Wrong, missing, foreign and short devices, volumes given directly, and the shape of a store.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use heliox_format::label::HEAD_BYTES;
use heliox_format::superblock::Superblock;
use heliox_media::MemoryMedia;

use super::{memory, nowhere, on, poke, refused, settings, small, Dir, DEVICE_BYTES, MIB};
use crate::error::ErrorKind;
use crate::options::{Options, CAPACITY_BYTES_MIN};
use crate::root::create::{plan_file, shape_for};
use crate::root::{destroy, Root};

#[test]
fn devices_are_striped_labelled_and_checked_by_name() {
    let dir = Dir::new();
    let devices = dir.devices(&["d0", "d1", "d2"]);
    let given = |at: &[usize]| {
        let paths = at.iter().map(|&at| devices[at].clone()).collect();
        settings(Options::new().devices(paths))
    };
    let place = dir.path("s");
    let (root, made) = Root::create(&place, &given(&[0, 1])).unwrap();
    assert!(root.capacity_bytes() <= 2 * DEVICE_BYTES);
    assert_eq!(made.segments, 39);
    let in_use = Root::open(&place, &small());
    refused(in_use, ErrorKind::StoreInUse, &["d0"]);
    drop(root);
    drop(Root::open(&place, &small()).unwrap());

    let other = dir.path("t");
    let uuid = made.uuid.to_string();
    let taken = Root::create(&other, &given(&[2, 1]));
    refused(
        taken,
        ErrorKind::StoreExists,
        &["d1", &uuid, "volume 1 of 2", "dd if=/dev/zero"],
    );
    assert!(!other.exists());
    drop(Root::create(&other, &given(&[2])).unwrap());

    refused(
        Root::open(&place, &given(&[1, 0])),
        ErrorKind::WrongDevice,
        &["d1", "volume 1 of 2"],
    );
    refused(
        Root::open(&place, &given(&[0, 2])),
        ErrorKind::WrongDevice,
        &["d2", &uuid],
    );
    refused(
        Root::open(&place, &given(&[0])),
        ErrorKind::WrongDevice,
        &["has 2 volumes"],
    );
    let manifest = place.join("HELIOX");
    let sound = fs::read_to_string(&manifest).unwrap();
    let cut = sound.replace(&format!("volume {}\n", devices[1].display()), "");
    fs::write(&manifest, cut).unwrap();
    refused(
        Root::open(&place, &small()),
        ErrorKind::WrongDevice,
        &["d0", "volume 0 of 2"],
    );
    fs::write(&manifest, sound).unwrap();

    let moved = dir.path("moved");
    fs::rename(&devices[1], &moved).unwrap();
    refused(
        Root::open(&place, &small()),
        ErrorKind::WrongDevice,
        &["d1", "volume 1 of 2"],
    );
    let paths = vec![devices[0].clone(), moved];
    let (_, found) = Root::open(&place, &settings(Options::new().devices(paths))).unwrap();
    assert_eq!(found, made);
}

#[test]
fn the_advice_to_wipe_a_label_is_enough() {
    let dir = Dir::new();
    let devices = settings(Options::new().devices(dir.devices(&["d"])));
    let (root, mut old) = Root::create(&dir.path("s"), &devices).unwrap();
    old.generation += 1; // it was opened
    root.write_superblock(&old).unwrap();
    drop(root);
    refused(
        Root::create(&dir.path("t"), &devices),
        ErrorKind::StoreExists,
        &["count=1"],
    );
    poke(&dir.path("d"), 20, &[0xff]);
    let damaged = Root::create(&dir.path("t"), &devices);
    refused(
        damaged,
        ErrorKind::StoreExists,
        &["does not decode", "dd if"],
    );
    // Who wiped no more than the label may have done so by mistake.
    poke(&dir.path("d"), 0, &[0; 4096]);
    refused(
        Root::create(&dir.path("t"), &devices),
        ErrorKind::StoreExists,
        &["no label", &old.uuid.to_string(), "bs=1048576 count=1"],
    );
    poke(&dir.path("d"), 0, &[0; HEAD_BYTES as usize]);
    let (root, new) = Root::create(&dir.path("t"), &devices).unwrap();
    assert_ne!(new.uuid, old.uuid);
    drop(root);
    let foreign = [old.uuid.to_string(), new.uuid.to_string()];
    let parts = [foreign[0].as_str(), foreign[1].as_str()];
    refused(
        Root::open(&dir.path("s"), &small()),
        ErrorKind::WrongDevice,
        &parts,
    );
}

#[test]
fn short_devices_and_small_capacities_are_refused_with_the_bound() {
    let dir = Dir::new();
    let place = dir.path("s");
    let create = |options: Options| Root::create(&place, &settings(options));
    let tiny = vec![dir.device("tiny", 4096)];
    refused(
        create(Options::new().devices(tiny)),
        ErrorKind::ShortDevice,
        &["tiny", "4096"],
    );
    let pair = vec![
        dir.device("long", DEVICE_BYTES),
        dir.device("short", 20 * MIB),
    ];
    let short = create(Options::new().devices(pair.clone()));
    refused(
        short,
        ErrorKind::ShortDevice,
        &["short", "20971520", "34603008"],
    );
    let wide = create(Options::new().devices(pair).capacity_bytes(130 * MIB));
    refused(wide, ErrorKind::ShortDevice, &["short", "capacity_bytes"]);
    let coarse = Options::new()
        .capacity_bytes(600 * MIB)
        .segment_bytes(64 * MIB);
    assert_eq!(coarse.validate().err().unwrap().kind(), ErrorKind::Invalid);
    assert!(!place.exists());
}

#[test]
fn a_device_with_larger_sectors_is_refused() {
    let volume = memory(DEVICE_BYTES);
    let settings_512 = on(&[Arc::clone(&volume)]);
    drop(Root::create(nowhere(), &settings_512).unwrap());
    let coarse = Arc::new(MemoryMedia::new(DEVICE_BYTES, 4096).unwrap());
    let mut head = vec![0; HEAD_BYTES as usize];
    volume.peek(0, &mut head).unwrap();
    coarse.poke(0, &head).unwrap();
    refused(
        Root::open(nowhere(), &on(&[coarse])),
        ErrorKind::WrongDevice,
        &["512", "4096"],
    );
}

// Volumes given directly.

#[test]
fn volumes_given_directly_carry_a_store_and_are_checked() {
    let volumes = [
        memory(DEVICE_BYTES),
        memory(DEVICE_BYTES),
        memory(DEVICE_BYTES),
    ];
    refused(
        Root::open(nowhere(), &on(&volumes)),
        ErrorKind::NotAStore,
        &["no label"],
    );
    let (root, made) = Root::create(nowhere(), &on(&volumes[..2])).unwrap();
    assert!(root.warnings().is_empty());
    assert!(!nowhere().exists());
    assert_eq!(Root::open(nowhere(), &on(&volumes[..2])).unwrap().1, made);
    let kind = ErrorKind::WrongDevice;
    refused(
        Root::open(nowhere(), &on(&volumes)),
        kind,
        &["volume 0 of 2"],
    );
    refused(
        Root::open(nowhere(), &on(&volumes[..1])),
        kind,
        &["volume 0 of 2"],
    );
    let holed = [Arc::clone(&volumes[0]), Arc::clone(&volumes[2])];
    refused(
        Root::open(nowhere(), &on(&holed)),
        kind,
        &["volume 1", "no label"],
    );
    let swapped = [Arc::clone(&volumes[1]), Arc::clone(&volumes[0])];
    refused(
        Root::open(nowhere(), &on(&swapped)),
        kind,
        &["found volume 1 of 2"],
    );
    let mixed = [Arc::clone(&volumes[2]), Arc::clone(&volumes[0])];
    let uuid = made.uuid.to_string();
    refused(
        Root::create(nowhere(), &on(&mixed)),
        ErrorKind::StoreExists,
        &[&uuid],
    );
    let mut superblock: Superblock = made;
    superblock.generation = 2;
    root.write_superblock(&superblock).unwrap();
    assert_eq!(
        Root::open(nowhere(), &on(&volumes[..2])).unwrap().1,
        superblock
    );
}

// Shapes.

#[test]
fn a_store_never_exceeds_its_capacity_and_segments_follow_it() {
    let shape = |volumes, capacity| shape_for(volumes, capacity, None).unwrap();
    let cases = [
        (512 * MIB, 4),
        (4095 * MIB, 4),
        (4096 * MIB, 8),
        (8191 * MIB, 8),
        (8192 * MIB, 16),
        ((4 << 40) - 1, 16),
        (4 << 40, 64),
        (64 << 40, 64),
    ];
    for (capacity, segment_mib) in cases {
        assert_eq!(
            shape(1, capacity).segment_bytes,
            segment_mib * MIB,
            "{capacity}"
        );
    }
    for volumes in [1, 2, 3, 7, 64] {
        for capacity in [CAPACITY_BYTES_MIN + 200 * MIB, 3 << 30, (9 << 40) + 12345] {
            let shape = shape(volumes, capacity);
            let flat = (shape.volume_bytes - HEAD_BYTES) * volumes as u64;
            let segments = shape.segment_bytes * u64::from(shape.segments);
            assert!(flat >= segments && flat - segments < volumes as u64 * (256 << 10));
            let all = shape.volume_bytes * volumes as u64;
            let slack = shape.segment_bytes + 2 * volumes as u64 * (256 << 10);
            assert!(all <= capacity && capacity - all < slack);
        }
    }
    assert!(shape_for(1, CAPACITY_BYTES_MIN - 1, None).is_none());
    assert!(shape_for(1, 0, None).is_none());
    assert!(shape_for(1, CAPACITY_BYTES_MIN, Some(8 * MIB)).is_none());
}

#[test]
fn the_default_capacity_leaves_a_reserve_and_a_full_file_system_is_told() {
    let plan = |free, options| plan_file(Path::new("/s"), free, &settings(options));
    let (shape, warning) = plan(100 << 30, Options::new()).unwrap();
    assert!(shape.volume_bytes <= 95 << 30 && shape.volume_bytes > 94 << 30);
    assert_eq!(warning, None);
    let (shape, _) = plan(1 << 40, Options::new()).unwrap();
    assert!(shape.volume_bytes <= (1 << 40) - (16 << 30));
    assert!(shape.volume_bytes > (1 << 40) - (17 << 30));
    let (shape, _) = plan(60 << 40, Options::new()).unwrap();
    assert!(shape.volume_bytes <= 15 << 40);
    refused(
        plan(50 * MIB, Options::new()),
        ErrorKind::Full,
        &["52428800", "68157440"],
    );
    let asked = Options::new().capacity_bytes(1 << 30);
    let (shape, warning) = plan(50 * MIB, asked).unwrap();
    assert!(shape.volume_bytes <= 1 << 30);
    assert!(warning.unwrap().contains("1073741824"));
    // The bound on capacity alone does not know the default segment of that capacity.
    let odd = Options::new()
        .capacity_bytes(512 * MIB)
        .segment_bytes(16 * MIB);
    assert!(plan(1 << 40, odd).is_ok());
}

// Block devices.

/// A loop device over a file; detached when dropped.
struct Loop(String);

impl Loop {
    /// None where this machine or user may not make one.
    fn attach(file: &Path) -> Option<Loop> {
        let run = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(file)
            .output();
        let output = run.ok().filter(|output| output.status.success())?;
        let name = String::from_utf8(output.stdout).ok()?;
        Some(Loop(name.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_block_device_carries_a_store() {
    let dir = Dir::new();
    let Some(device) = Loop::attach(&dir.device("image", DEVICE_BYTES)) else {
        println!("skipped: no loop device can be made here");
        return;
    };
    let place = dir.path("s");
    let given = settings(Options::new().devices(vec![device.0.clone().into()]));
    let (root, made) = Root::create(&place, &given).unwrap();
    assert_eq!(made.segments, 19);
    assert_eq!(root.disk_bytes().unwrap(), root.capacity_bytes());
    refused(
        Root::open(&place, &small()),
        ErrorKind::StoreInUse,
        &[&device.0],
    );
    drop(root);
    let (_, opened) = Root::open(&place, &small()).unwrap();
    assert_eq!(opened, made);
    refused(
        Root::create(&dir.path("t"), &given),
        ErrorKind::StoreExists,
        &[&device.0, "dd if=/dev/zero"],
    );
    destroy::run(&place).unwrap();
    assert!(!place.exists());
    Root::create(&dir.path("t"), &given).unwrap();
}
