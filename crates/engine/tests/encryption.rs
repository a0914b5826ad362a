//! Encryption at rest: everything works with it, nothing of the user's is readable on media, and
//! what does not fit (keys, tags, plain bytes) is refused by name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may

mod common;

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use common::{differences, dump, State};
use heliox::{BackupOptions, Batch, ErrorKind, KeySource, Media, Options, Step, Store};
use heliox_format::checkpoint::{chunk_seal, peek_chunk, CHUNK_HEADER_BYTES};
use heliox_format::frame::{check_frame, frame_key, set_frame_key, FrameHeader, FrameShape};
use heliox_format::ids::Birth;
use heliox_format::label::HEAD_BYTES;
use heliox_format::limits::BLOCK_BYTES;
use heliox_format::sealed::{nonce_of, renew_checksum, session_of};
use heliox_format::superblock::{Superblock, SUPERBLOCK_OFFSETS};
use heliox_media::{Geometry, MediaError, MemoryMedia, RecordingMedia};

const STORE_BYTES: u64 = 66 << 20;
const SEGMENT_BYTES: u64 = 4 << 20;
const KEY: [u8; 32] = [9; 32];
const OTHER: [u8; 32] = [8; 32];
/// What must not be found, not even eight bytes of it.
const MARKERS: [&str; 4] = [
    "keyspace-of-secrets",
    "key=secret/",
    "value<treasure>",
    "until-this-key",
];

fn plain(media: Arc<dyn Media>) -> Options {
    common::small(media)
}

fn with(media: Arc<dyn Media>, key: [u8; 32]) -> Options {
    plain(media).encryption(KeySource::bytes(key))
}

fn open(media: &Arc<MemoryMedia>) -> Store {
    Store::open("", &with(media.clone(), KEY)).unwrap()
}

fn secret_key(i: u64) -> String {
    format!("{}{i:08}", MARKERS[1])
}

fn secret_value(i: u64, len: usize) -> Vec<u8> {
    let word = format!("{}{i:08}.", MARKERS[2]);
    word.bytes().cycle().take(len).collect()
}

/// A bit of everything; collection has to run for it.
fn use_store(store: &Store, rounds: u64) {
    let ks = store.keyspace_or_create(MARKERS[0]).unwrap();
    ks.put("large", secret_value(0, (1 << 20) + 5000)).unwrap();
    for i in 0..rounds {
        let n = i * 7919 % 1500;
        ks.put(secret_key(n), secret_value(i, 3000 + i as usize % 2000))
            .unwrap();
        if i % 500 == 0 {
            let snapshot = store.snapshot().unwrap();
            let mut batch = Batch::new();
            batch.put(&ks, secret_key(n), secret_value(!i, 100));
            batch.delete(&ks, secret_key(n + 1));
            store.write(&batch).unwrap();
            assert!(ks.get_at(secret_key(n), &snapshot).unwrap().is_some());
            store.sync().unwrap();
        }
        if i % 50 == 0 {
            store.step().unwrap();
        }
    }
    ks.delete_range(
        secret_key(700),
        format!("{}{}", secret_key(720), MARKERS[3]),
    )
    .unwrap();
    ks.delete(secret_key(3)).unwrap();
}

/// The fragments of eight bytes.
fn fragments() -> HashSet<[u8; 8]> {
    let all = MARKERS.iter().flat_map(|m| m.as_bytes().windows(8));
    all.map(|w| w.try_into().unwrap()).collect()
}

fn find(bytes: &[u8], fragments: &HashSet<[u8; 8]>) -> Option<String> {
    // A bitmap of their first two bytes lets nearly all places pass at once.
    let mut begins = vec![false; 1 << 16];
    for f in fragments {
        begins[usize::from(u16::from_le_bytes([f[0], f[1]]))] = true;
    }
    let hit = bytes
        .windows(8)
        .find(|w| begins[usize::from(u16::from_le_bytes([w[0], w[1]]))] && fragments.contains(*w));
    hit.map(|w| String::from_utf8_lossy(w).into_owned())
}

fn find_in_media(media: &MemoryMedia) -> Option<String> {
    let mut bytes = vec![0; STORE_BYTES as usize];
    media.peek(0, &mut bytes).unwrap();
    find(&bytes, &fragments())
}

fn find_in_dir(dir: &Path) -> Option<String> {
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if let Some(found) = find(&std::fs::read(&path).unwrap(), &fragments()) {
                return Some(format!("{found} in {}", path.display()));
            }
        }
    }
    None
}

fn same(a: &State, b: &State) {
    let differ = differences(a, b);
    assert!(differ.is_empty(), "{} keys differ", differ.len());
}

fn check(options: &Options) {
    let report = Store::check("", options, &mut |_| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(report.entries > 0);
}

fn superblock(media: &MemoryMedia) -> Superblock {
    let copy = |at: &u64| {
        let mut block = vec![0; BLOCK_BYTES];
        media.peek(*at, &mut block).unwrap();
        Superblock::decode(*at, &block).ok()
    };
    let copies = SUPERBLOCK_OFFSETS.iter().filter_map(copy);
    copies.max_by_key(|s| s.generation).unwrap()
}

#[test]
fn nothing_is_readable_on_media_whatever_was_done() {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set");
    // The search finds what is there.
    let media = common::memory(STORE_BYTES);
    let store = Store::open("", &plain(media.clone())).unwrap();
    use_store(&store, 100);
    store.sync().unwrap();
    assert!(find_in_media(&media).is_some());
    let media = common::memory(STORE_BYTES);
    let store = open(&media);
    use_store(&store, 100);
    store.sync().unwrap();
    assert_eq!(find_in_media(&media), None, "loaded");
    use_store(&store, 20_000);
    assert!(store.stats().gc_segments > 0, "collection never ran");
    store.sync().unwrap();
    assert_eq!(find_in_media(&media), None, "collected");
    store.checkpoint().unwrap();
    assert_eq!(find_in_media(&media), None, "checkpointed");
    store
        .backup(&set, &BackupOptions::new(), &mut |_| {})
        .unwrap();
    assert_eq!(find_in_dir(&set), None, "backed up");
    let state = dump(&store);
    store.close().unwrap();
    assert_eq!(find_in_media(&media), None, "closed");
    let options = with(media.clone(), KEY);
    check(&options);
    let store = open(&media);
    same(&dump(&store), &state);
    assert_eq!(store.damage(), Vec::<String>::new());
    let snapshot = superblock(&media);
    assert_eq!(snapshot.keys.len(), 1);
    assert_ne!(snapshot.keys[0].wrapped, KEY);
}

#[test]
fn a_store_says_which_key_it_wants() {
    let media = common::memory(STORE_BYTES);
    let store = open(&media);
    use_store(&store, 10);
    store.close().unwrap();
    let kind = |options: &Options| {
        let error = Store::open("", options).err().expect("it was opened");
        let checked = Store::check("", options, &mut |_| {}).err();
        assert_eq!(checked.expect("it was checked").kind(), error.kind());
        (error.kind(), error.to_string())
    };
    let (none, said) = kind(&plain(media.clone()));
    assert_eq!(none, ErrorKind::Encrypted);
    assert!(said.contains("encrypted and no key is given"), "{said}");
    let (wrong, said) = kind(&with(media.clone(), OTHER));
    assert_eq!(wrong, ErrorKind::WrongKey);
    assert!(said.contains("nothing is damaged"), "{said}");
    let bare = common::memory(STORE_BYTES);
    drop(Store::open("", &plain(bare.clone())).unwrap());
    let (needless, said) = kind(&with(bare, KEY));
    assert_eq!(needless, ErrorKind::NotEncrypted);
    assert!(said.contains("not encrypted"), "{said}");
    open(&media);
}

#[test]
fn keys_come_from_files_and_commands_and_failures_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let media = common::memory(STORE_BYTES);
    drop(open(&media));
    let open = |key: KeySource| Store::open("", &plain(media.clone()).encryption(key)).map(|_| ());
    std::fs::write(&path, "09".repeat(32) + "\n").unwrap();
    open(KeySource::file(&path)).unwrap();
    open(KeySource::command(format!("cat {}", path.display()))).unwrap();
    let refused = |key: KeySource, parts: &[&str]| {
        let error = open(key).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{error} lacks {part}");
        }
    };
    refused(
        KeySource::command("echo no luck >&2; exit 3"),
        &["key command", "exit status: 3", "no luck"],
    );
    refused(KeySource::command("true"), &["key command", "0 bytes"]);
    refused(
        KeySource::file(dir.path().join("none")),
        &["none", "cannot be read"],
    );
    std::fs::write(&path, "short").unwrap();
    refused(
        KeySource::file(&path),
        &["key gives 5 bytes", "32 random bytes"],
    );
    let shown = format!(
        "{:?}",
        Options::new().encryption(KeySource::command("echo secret"))
    );
    assert!(
        !shown.contains("secret") && shown.contains("a command"),
        "{shown}"
    );
    assert!(!format!("{:?}", KeySource::bytes(KEY)).contains('9'));
}

/// The ids of the data keys of all frames on media.
fn frame_keys(media: &MemoryMedia) -> HashSet<u8> {
    frames(media).iter().map(|(_, _, key)| *key).collect()
}

/// All whole frames: address, header, data key.
fn frames(media: &MemoryMedia) -> Vec<(u64, FrameHeader, u8)> {
    let salt = superblock(media).salt();
    let mut bytes = vec![0; (STORE_BYTES - HEAD_BYTES) as usize];
    media.peek(HEAD_BYTES, &mut bytes).unwrap();
    let sectors = (0..bytes.len()).step_by(512);
    let whole = |at: usize| {
        let frame = &bytes[at..];
        let header = check_frame(FrameShape::Sealed, salt, at as u64, frame).ok()?;
        Some((at as u64, header, frame_key(frame)))
    };
    sectors.filter_map(whole).collect()
}

#[test]
fn a_new_key_opens_the_store_and_new_data_gets_a_new_data_key() {
    let media = common::memory(STORE_BYTES);
    let store = open(&media);
    use_store(&store, 500);
    let state = dump(&store);
    // While it is open, and again before anything was written with the key from that.
    store.rotate_key(&KeySource::bytes([1; 32])).unwrap();
    let changed = store.rotate_key(&KeySource::bytes(OTHER)).unwrap();
    assert!(changed.added);
    assert_eq!(changed.data_keys, 2);
    same(&dump(&store), &state);
    store.close().unwrap();
    for old in [KEY, [1; 32]] {
        let error = Store::open("", &with(media.clone(), old)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::WrongKey);
    }
    assert_eq!(frame_keys(&media), HashSet::from([1]));
    let options = with(media.clone(), OTHER);
    let store = Store::open("", &options).unwrap();
    same(&dump(&store), &state);
    let ks = store.keyspace(MARKERS[0]).unwrap();
    ks.put("new", "data").unwrap();
    store.sync().unwrap();
    assert_eq!(frame_keys(&media), HashSet::from([1, 2]));
    assert_eq!(superblock(&media).keys.len(), 2);
    // Once all of the old data is gone, so is its key.
    store.drop_keyspace(MARKERS[0]).unwrap();
    let ks = store.create_keyspace("again").unwrap();
    ks.put("new", "data").unwrap();
    store.step_of(Step::Seal).unwrap();
    for _ in 0..200 {
        store.step().unwrap();
        store.step_of(Step::Sweep).unwrap();
        store.step_of(Step::Collect).unwrap();
        store.checkpoint().unwrap();
    }
    let keys = superblock(&media).keys;
    assert_eq!(keys.iter().map(|k| k.id).collect::<Vec<_>>(), [2]);
    store.close().unwrap();
    check(&options);
    let store = Store::open("", &options).unwrap();
    let ks = store.keyspace("again").unwrap();
    assert_eq!(ks.get("new").unwrap(), Some(b"data".to_vec()));
    let error = Store::change_key(
        "",
        &plain(common::memory(STORE_BYTES)).create_if_missing(false),
        &KeySource::bytes(KEY),
    );
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotAStore);
}

#[test]
fn only_sixteen_data_keys_are_kept() {
    // Each run begins a segment, and none must be collected.
    let media = common::memory(4 * STORE_BYTES);
    let mut key = KEY;
    for n in 1..=17u8 {
        let store = Store::open("", &with(media.clone(), key)).unwrap();
        let ks = store.keyspace_or_create("a").unwrap();
        ks.put([n], [n]).unwrap();
        store.sync().unwrap();
        store.close().unwrap();
        let next = [100 + n; 32];
        let changed =
            Store::change_key("", &with(media.clone(), key), &KeySource::bytes(next)).unwrap();
        assert_eq!(
            (changed.data_keys, changed.added),
            match n {
                ..=15 => (usize::from(n) + 1, true),
                _ => (16, false),
            }
        );
        key = next;
    }
    let store = Store::open("", &with(media.clone(), key)).unwrap();
    let ks = store.keyspace("a").unwrap();
    for n in 1..=17u8 {
        assert_eq!(ks.get([n]).unwrap(), Some(vec![n]));
    }
}

#[test]
fn a_crash_in_a_rotation_leaves_the_old_key_or_the_new_one() {
    let media = common::memory(STORE_BYTES);
    let store = open(&media);
    use_store(&store, 50);
    let state = dump(&store);
    store.close().unwrap();
    let recording = Arc::new(RecordingMedia::new(MemoryMedia::clone(&media)));
    let options = with(recording.clone(), KEY);
    let first = recording.event_count();
    Store::change_key("", &options, &KeySource::bytes(OTHER)).unwrap();
    let last = recording.event_count();
    assert!(last > first + 3);
    let (mut old, mut new) = (0, 0);
    for event in first..=last {
        for seed in 0..6 {
            let image = || Arc::new(recording.crash_image(event, seed).unwrap());
            let opened = [KEY, OTHER].map(|key| Store::open("", &with(image(), key)).ok());
            let [with_old, with_new] = &opened;
            assert!(
                with_old.is_some() != with_new.is_some(),
                "event {event}, {seed}"
            );
            old += u32::from(with_old.is_some());
            new += u32::from(with_new.is_some());
            let store = opened.into_iter().flatten().next().unwrap();
            same(&dump(&store), &state);
        }
    }
    assert!(old > 0 && new > 0, "{old} old, {new} new");
    Store::open("", &with(recording, OTHER)).unwrap();
}

/// What a read of every key, a check and an open say of the damage in an image.
fn told(media: &Arc<MemoryMedia>) -> String {
    let options = with(media.clone(), KEY);
    let report = Store::check("", &options, &mut |_| {}).unwrap();
    let mut said = report.problems.join("\n");
    match Store::open("", &options) {
        Err(error) => said += &error.to_string(),
        Ok(store) => {
            said += &store.damage().join("\n");
            let ks = store.keyspace(MARKERS[0]).unwrap();
            for i in 0..1500 {
                if let Err(error) = ks.get(secret_key(i)) {
                    assert_eq!(error.kind(), ErrorKind::Damaged);
                    said += &error.to_string();
                }
            }
        }
    }
    said
}

/// Changes a frame in a copy of the media.
fn changed(media: &MemoryMedia, at: u64, change: impl Fn(&mut [u8])) -> Arc<MemoryMedia> {
    let copy = Arc::new(MemoryMedia::clone(media));
    let (_, header, _) = *frames(media).iter().find(|(a, _, _)| *a == at).unwrap();
    let mut frame = vec![0; header.frame_bytes.into()];
    copy.peek(HEAD_BYTES + at, &mut frame).unwrap();
    change(&mut frame);
    copy.poke(HEAD_BYTES + at, &frame).unwrap();
    copy
}

#[test]
fn what_a_stranger_writes_is_damage_even_if_its_checksum_fits() {
    let media = common::memory(STORE_BYTES);
    let store = open(&media);
    use_store(&store, 300);
    store.sync().unwrap();
    store
        .keyspace(MARKERS[0])
        .unwrap()
        .put("tail", "end")
        .unwrap();
    store.sync().unwrap();
    let running = Arc::new(MemoryMedia::clone(&media));
    store.close().unwrap();
    let salt = superblock(&media).salt();
    let all = frames(&media);
    let (at, _, _) = all[all.len() / 2];
    let place = format!("{at:#x}");
    let last = all.iter().max_by_key(|(_, h, _)| h.first_seq).unwrap().0;
    // Any bit of it, with the checksum as it was: the checksum tells.
    let said = told(&changed(&media, at, |frame| frame[200] ^= 1));
    assert!(said.contains("checksum") && said.contains(&place), "{said}");
    // The bits of the header, of session and tag, and of the content.
    for byte in [16, 20, 26, 40, 50, 64, 200] {
        let said = told(&changed(&media, at, |frame| {
            frame[byte] ^= 1;
            renew_checksum(salt, at, frame);
        }));
        let expected = format!("damaged frame at address {place}: tags that fit expected");
        assert!(said.contains(&expected), "byte {byte}: {said}");
    }
    let said = told(&changed(&media, at, |frame| {
        set_frame_key(frame, 0);
        renew_checksum(salt, at, frame);
    }));
    assert!(
        said.contains(&format!("address {place}: data key expected 0x1")),
        "{said}"
    );
    let said = told(&changed(&media, at, |frame| {
        set_frame_key(frame, 7);
        renew_checksum(salt, at, frame);
    }));
    assert!(
        said.contains(&format!(
            "address {place}: data key expected 0x0, found 0x7"
        )),
        "{said}"
    );
    // Not taken for a tail that a crash tore.
    let said = told(&changed(&running, last, |frame| {
        frame[66] ^= 1;
        renew_checksum(salt, last, frame);
    }));
    assert!(
        said.contains(&format!("address {last:#x}: tags that fit")),
        "{said}"
    );
    assert_eq!(told(&media), "");
    assert_eq!(told(&running), "");
}

#[test]
fn a_changed_chunk_of_a_checkpoint_is_refused() {
    let media = common::memory(STORE_BYTES);
    let store = open(&media);
    use_store(&store, 30);
    store.close().unwrap();
    let superblock = superblock(&media);
    let root = superblock.checkpoint.unwrap();
    let address = u64::from(root.last_segment.0) * SEGMENT_BYTES + 512;
    let mut chunk = vec![0; 1 << 20];
    media.peek(HEAD_BYTES + address, &mut chunk).unwrap();
    let header = peek_chunk(address, &chunk).unwrap();
    assert_eq!(chunk_seal(&chunk).unwrap().birth, root.birth);
    chunk.truncate(CHUNK_HEADER_BYTES + header.payload_bytes as usize);
    for (byte, expected) in [
        (70, "tags that fit"),
        (28, "tags that fit"),
        (25, "data key"),
    ] {
        let mut bad = chunk.clone();
        bad[byte] ^= 2;
        renew_checksum(superblock.salt(), address, &mut bad);
        let copy = Arc::new(MemoryMedia::clone(&media));
        copy.poke(HEAD_BYTES + address, &bad).unwrap();
        let error = Store::open("", &with(copy, KEY)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        let place = format!("checkpoint chunk at address {address:#x}: {expected}");
        assert!(error.to_string().contains(&place), "{error}");
    }
}

/// Data key and nonce of every frame and chunk.
type Nonces = HashSet<(u8, [u8; 24])>;

/// What was written over all openings.
#[derive(Clone, Default)]
struct Seen {
    nonces: Nonces,
    chunks: u64,
    /// What must not be. Told at the end: a device that panics may stop a store for good.
    wrong: Vec<String>,
}

struct Watch {
    inner: MemoryMedia,
    seen: Mutex<Seen>,
}

impl Seen {
    fn note(&mut self, offset: u64, data: &[u8]) {
        let Some(address) = offset.checked_sub(HEAD_BYTES) else {
            return;
        };
        if let Ok(_chunk) = peek_chunk(address, data) {
            self.chunks += 1;
            match chunk_seal(data) {
                Some(seal) => self.note_nonce(seal.key, data, seal.birth, address),
                None => self.wrong.push(format!("a plain chunk at {address:#x}")),
            }
            return;
        }
        let mut at = if address % SEGMENT_BYTES == 0 { 512 } else { 0 };
        while at < data.len() {
            let (frame, address) = (&data[at..], address + at as u64);
            let header = heliox_format::frame::peek_frame(FrameShape::Sealed, address, frame);
            let Ok(header) = header else {
                self.wrong.push(format!("no frame at {address:#x}"));
                return;
            };
            if frame_key(frame) == 0 {
                self.wrong.push(format!("a plain frame at {address:#x}"));
            }
            self.note_nonce(frame_key(frame), frame, header.birth, address);
            at += usize::from(header.frame_bytes);
        }
    }

    fn note_nonce(&mut self, key: u8, bytes: &[u8], birth: Birth, address: u64) {
        let sector = (address % SEGMENT_BYTES / 512) as u32;
        let nonce = nonce_of(&session_of(bytes), birth, sector);
        if !self.nonces.insert((key, nonce)) {
            self.wrong.push(format!("a nonce twice, at {address:#x}"));
        }
    }
}

impl Media for Watch {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.seen.lock().unwrap().note(offset, data);
        self.inner.write_at(offset, data)
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.inner.sync()
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
        self.inner.discard(offset, len_bytes)
    }

    fn describe(&self) -> String {
        "watch".to_owned()
    }
}

#[test]
fn no_nonce_is_used_twice_over_collections_checkpoints_and_lost_runs() {
    let mut inner = MemoryMedia::new(STORE_BYTES, 512).unwrap();
    let mut seen = Seen::default();
    for run in 0..4 {
        let before = MemoryMedia::clone(&inner);
        let media = Arc::new(Watch {
            inner,
            seen: Mutex::new(seen),
        });
        let store = Store::open("", &with(media.clone(), KEY)).unwrap();
        use_store(&store, 6_000);
        store.checkpoint().unwrap();
        store.close().unwrap();
        seen = media.seen.lock().unwrap().clone();
        // Each second run is lost: the next one gives the same births again.
        inner = match run % 2 {
            0 => MemoryMedia::clone(&media.inner),
            _ => before,
        };
    }
    assert_eq!(seen.wrong.first(), None);
    assert!(seen.nonces.len() > 10_000);
    assert!(seen.chunks > 8);
}

#[test]
fn a_backup_keeps_the_keys_and_needs_none_to_be_made_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("set");
    let media = common::memory(STORE_BYTES);
    let store = open(&media);
    use_store(&store, 300);
    store
        .backup(&set, &BackupOptions::new(), &mut |_| {})
        .unwrap();
    let first = dump(&store);
    store.rotate_key(&KeySource::bytes(OTHER)).unwrap();
    use_store(&store, 100);
    store
        .backup(&set, &BackupOptions::new(), &mut |_| {})
        .unwrap();
    let second = dump(&store);
    let target = || common::memory(STORE_BYTES);
    let restore =
        |options: Options, number| Store::restore(&set, Some(number), "", &options, &mut |_| {});
    for (number, key, other, state) in [(1, KEY, OTHER, &first), (2, OTHER, KEY, &second)] {
        let restored = target();
        restore(plain(restored.clone()), number).unwrap();
        let options = with(restored.clone(), key);
        check(&options);
        same(&dump(&Store::open("", &options).unwrap()), state);
        let wrong = restore(with(target(), other), number).unwrap_err();
        assert_eq!(wrong.kind(), ErrorKind::WrongKey);
        restore(with(target(), key), number).unwrap();
        let verify =
            |options: &Options| Store::verify_backup(&set, Some(number), options, &mut |_| {});
        let report = verify(&with(target(), key)).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        assert!(report.records > 0);
        assert_eq!(
            verify(&plain(target())).unwrap_err().kind(),
            ErrorKind::Encrypted
        );
        assert_eq!(
            verify(&with(target(), other)).unwrap_err().kind(),
            ErrorKind::WrongKey
        );
    }
}
