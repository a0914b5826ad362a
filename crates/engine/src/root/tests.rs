//! Every bad input that a place can be, over temporary directories and volumes in memory.

mod devices;
mod superblock;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heliox_format::checksum::{checksum, ChecksumSalt};
use heliox_format::label::Label;
use heliox_media::{Media, MemoryMedia};

use super::Root;
use crate::error::{Error, ErrorKind};
use crate::options::{Options, Settings, CAPACITY_BYTES_MIN};

const MIB: u64 = 1 << 20;
const DEVICE_BYTES: u64 = 80 * MIB;

fn settings(options: Options) -> Settings {
    options.validate().unwrap()
}

fn small() -> Settings {
    settings(Options::new().capacity_bytes(CAPACITY_BYTES_MIN))
}

/// Expects a refusal of this kind whose message holds these parts.
fn refused<T>(result: Result<T, Error>, kind: ErrorKind, parts: &[&str]) {
    let error = result.err().expect("it was not refused");
    assert_eq!(error.kind(), kind, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    }
}

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn device(&self, name: &str, len_bytes: u64) -> PathBuf {
        let path = self.path(name);
        fs::File::create(&path).unwrap().set_len(len_bytes).unwrap();
        path
    }

    fn devices(&self, names: &[&str]) -> Vec<PathBuf> {
        names
            .iter()
            .map(|name| self.device(name, DEVICE_BYTES))
            .collect()
    }
}

fn poke(path: &Path, offset: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

fn memory(len_bytes: u64) -> Arc<MemoryMedia> {
    Arc::new(MemoryMedia::new(len_bytes, 512).unwrap())
}

fn on(volumes: &[Arc<MemoryMedia>]) -> Settings {
    let media = |v: &Arc<MemoryMedia>| Arc::clone(v) as Arc<dyn Media>;
    settings(Options::new().volumes(volumes.iter().map(media).collect()))
}

fn nowhere() -> &'static Path {
    Path::new("/nonexistent/and/ignored")
}

// A store in a directory.

#[test]
fn a_store_is_made_locked_and_opened_again() {
    let dir = Dir::new();
    let place = dir.path("a/b/store");
    let (root, made) = Root::create(&place, &small()).unwrap();
    assert!(place.join("HELIOX").exists() && !place.join("HELIOX.new").exists());
    assert_eq!(
        fs::metadata(place.join("data")).unwrap().len(),
        CAPACITY_BYTES_MIN
    );
    assert_eq!(root.capacity_bytes(), CAPACITY_BYTES_MIN);
    assert!(root.disk_bytes().unwrap() <= MIB, "the file is not sparse");
    assert!(made.clean && made.generation == 1 && made.checkpoint.is_none());
    assert_eq!((made.segments, made.segment_bytes), (16, 4 * MIB));
    assert_eq!(root.creation_bytes_written(), 3 * 4096);
    let geometry = root.log_geometry(&made);
    assert_eq!(root.media().geometry().len_bytes, 64 * MIB);
    assert_eq!(geometry.segments, 16);
    assert!(root.describe().contains(&made.uuid.to_string()));

    let name = place.display().to_string();
    refused(
        Root::open(&place, &small()),
        ErrorKind::StoreInUse,
        &[&name, "close"],
    );
    let uuid = made.uuid.to_string();
    refused(
        Root::create(&place, &small()),
        ErrorKind::StoreExists,
        &[&name, &uuid],
    );
    drop(root);
    refused(
        Root::create(&place, &small()),
        ErrorKind::StoreExists,
        &[&name, &uuid],
    );
    let (root, opened) = Root::open(&place, &small()).unwrap();
    assert_eq!(opened, made);
    assert_eq!(root.uuid(), made.uuid);
    assert_eq!(root.creation_bytes_written(), 0);
}

#[test]
fn two_stores_differ_in_identity_and_secret() {
    let dir = Dir::new();
    let (_a, a) = Root::create(&dir.path("a"), &small()).unwrap();
    let (_b, b) = Root::create(&dir.path("b"), &small()).unwrap();
    assert_ne!(a.uuid, b.uuid);
    assert_ne!(a.hash_seed, b.hash_seed);
    let fixed = settings(
        Options::new()
            .hash_seed(7)
            .capacity_bytes(CAPACITY_BYTES_MIN),
    );
    assert_eq!(Root::create(&dir.path("c"), &fixed).unwrap().1.hash_seed, 7);
}

#[test]
fn a_place_without_a_store_is_told() {
    let dir = Dir::new();
    let missing = dir.path("missing");
    let cases = [
        (missing.clone(), "no such directory"),
        (dir.device("file", 10), "it is a file"),
        (dir.0.path().to_owned(), "no file HELIOX"),
    ];
    for (path, part) in cases {
        let name = path.display().to_string();
        refused(
            Root::open(&path, &small()),
            ErrorKind::NotAStore,
            &[&name, part, "create"],
        );
    }
    refused(
        Root::create(&dir.path("file"), &small()),
        ErrorKind::Invalid,
        &["it is a file"],
    );
    let strict = settings(Options::new().create_if_missing(false));
    refused(
        Root::open_or_create(&missing, &strict),
        ErrorKind::NotAStore,
        &[],
    );
    assert!(!missing.exists());
    let (_, made) = Root::open_or_create(&missing, &small()).unwrap();
    assert_eq!(Root::open_or_create(&missing, &small()).unwrap().1, made);
}

#[test]
fn no_store_is_made_beside_one_of_another_engine() {
    let dir = Dir::new();
    for (name, files, engine) in [
        ("l", &["CURRENT", "MANIFEST-000002"][..], "leveldb"),
        ("r", &["IDENTITY", "MANIFEST-000005"][..], "rocksdb"),
    ] {
        let place = dir.path(name);
        fs::create_dir(&place).unwrap();
        for file in files {
            fs::write(place.join(file), "").unwrap();
        }
        for make in [Root::create, Root::open_or_create] {
            let parts = [place.to_str().unwrap(), "import", engine];
            refused(make(&place, &small()), ErrorKind::StoreExists, &parts);
        }
        assert_eq!(fs::read_dir(&place).unwrap().count(), 2);
    }
}

#[test]
fn of_many_that_open_what_is_missing_one_has_it_and_the_others_hear_so() {
    let dir = Dir::new();
    for round in 0..8 {
        let place = dir.path(&format!("s{round}"));
        let roots: Vec<_> = std::thread::scope(|scope| {
            let all = [(); 8].map(|()| scope.spawn(|| Root::open_or_create(&place, &small())));
            all.map(|one| one.join().unwrap()).into_iter().collect()
        });
        let (had, refusals): (Vec<_>, Vec<_>) = roots.into_iter().partition(Result::is_ok);
        assert_eq!(had.len(), 1);
        for refusal in refusals {
            refused(refusal, ErrorKind::StoreInUse, &["s"]);
        }
    }
}

#[test]
fn a_damaged_or_newer_manifest_is_refused() {
    let dir = Dir::new();
    let place = dir.path("s");
    drop(Root::create(&place, &small()).unwrap());
    let path = place.join("HELIOX");
    let sound = fs::read_to_string(&path).unwrap();
    fs::write(&path, sound.replace("format 1", "format 7")).unwrap();
    refused(
        Root::open(&place, &small()),
        ErrorKind::Version,
        &["HELIOX", "7 found"],
    );
    fs::write(&path, sound.replace("uuid", "guid")).unwrap();
    refused(
        Root::open(&place, &small()),
        ErrorKind::Damaged,
        &["HELIOX", "line 3"],
    );
    fs::write(&path, "").unwrap();
    refused(
        Root::open(&place, &small()),
        ErrorKind::Damaged,
        &["line 1"],
    );
    refused(
        Root::create(&place, &small()),
        ErrorKind::StoreExists,
        &["does not decode"],
    );
}

#[test]
fn a_refused_creation_leaves_nothing() {
    let dir = Dir::new();
    let place = dir.path("s");
    let options = || Options::new().segment_bytes(4 * MIB);
    let missing = settings(options().devices(vec![dir.path("nodevice")]));
    refused(
        Root::create(&place, &missing),
        ErrorKind::WrongDevice,
        &["nodevice", "no such"],
    );
    assert!(!place.exists());
    fs::create_dir(&place).unwrap();
    refused(
        Root::create(&place, &missing),
        ErrorKind::WrongDevice,
        &["nodevice"],
    );
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    let odd = settings(options().devices(vec![dir.0.path().to_owned()]));
    refused(
        Root::create(&place, &odd),
        ErrorKind::WrongDevice,
        &["neither a file nor"],
    );
    fs::write(place.join("data"), b"mine").unwrap();
    refused(
        Root::create(&place, &small()),
        ErrorKind::StoreExists,
        &["data", "move it away"],
    );
    assert_eq!(fs::read(place.join("data")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
}

#[test]
fn a_creation_that_did_not_end_is_no_store_and_is_gone_on_with() {
    let dir = Dir::new();
    let place = dir.path("s");
    let devices = settings(Options::new().devices(dir.devices(&["d0", "d1"])));
    for settings in [small(), devices] {
        let (root, made) = Root::create(&place, &settings).unwrap();
        drop(root);
        fs::rename(place.join("HELIOX"), place.join("HELIOX.new")).unwrap();
        refused(
            Root::open(&place, &settings),
            ErrorKind::NotAStore,
            &["did not end"],
        );
        let (root, again) = Root::open_or_create(&place, &settings).unwrap();
        assert_eq!(again.uuid, made.uuid, "the labels on the devices name it");
        drop(root);
        drop(Root::open(&place, &settings).unwrap());
        fs::remove_dir_all(&place).unwrap();
    }
    // What the file system has not kept of the intent was not relied upon.
    fs::create_dir(&place).unwrap();
    fs::write(place.join("HELIOX.new"), "Heliox st").unwrap();
    drop(Root::create(&place, &small()).unwrap());
}

#[test]
fn a_directory_that_cannot_be_written_is_told() {
    // The kernel's own file system refuses directories even to root.
    let place = Path::new("/sys/heliox-store");
    let error = Root::create(place, &small()).err().unwrap();
    assert!(
        matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Io),
        "{error}"
    );
    assert!(error.to_string().contains("/sys/heliox-store"), "{error}");
}

// The file of a store in a directory.

#[test]
fn a_missing_short_or_overwritten_data_file_is_told() {
    let dir = Dir::new();
    let place = dir.path("s");
    let (root, made) = Root::create(&place, &small()).unwrap();
    drop(root);
    let data = place.join("data");
    let name = data.display().to_string();
    let uuid = made.uuid.to_string();
    let open = || Root::open(&place, &small());

    let file = fs::OpenOptions::new().write(true).open(&data).unwrap();
    file.set_len(CAPACITY_BYTES_MIN - 4096).unwrap();
    refused(
        open(),
        ErrorKind::ShortDevice,
        &[&name, "68153344", "68157440"],
    );
    file.set_len(4096).unwrap();
    refused(open(), ErrorKind::ShortDevice, &[&name]);
    file.set_len(0).unwrap();
    file.set_len(CAPACITY_BYTES_MIN).unwrap();
    refused(open(), ErrorKind::WrongDevice, &[&name, "no label", &uuid]);
    fs::remove_file(&data).unwrap();
    refused(
        open(),
        ErrorKind::WrongDevice,
        &[&name, "no such device", "volume 0 of 1"],
    );
}

#[test]
fn a_damaged_label_is_told_from_a_newer_one() {
    let dir = Dir::new();
    let place = dir.path("s");
    drop(Root::create(&place, &small()).unwrap());
    let data = place.join("data");
    let block = fs::read(&data).unwrap()[..4096].to_vec();
    let label = Label::decode(&block).unwrap().unwrap();
    poke(&data, 40, &[0xff]);
    refused(
        Root::open(&place, &small()),
        ErrorKind::Damaged,
        &["data", "label", "checksum"],
    );

    let mut newer = block;
    newer[12] = 9;
    let crc = checksum(ChecksumSalt(0), 0, &newer[12..72]);
    newer[8..12].copy_from_slice(&crc.to_le_bytes());
    poke(&data, 0, &newer);
    refused(
        Root::open(&place, &small()),
        ErrorKind::Version,
        &["label", "9 found"],
    );

    let mut striped = label;
    striped.stripe_bytes = 4096;
    poke(&data, 0, &striped.encode());
    refused(
        Root::open(&place, &small()),
        ErrorKind::Version,
        &["stripes of 4096"],
    );
}
