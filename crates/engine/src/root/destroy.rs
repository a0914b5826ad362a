//! Deleting a store: its files, what makes its devices a store, its directory if nothing else is in it.
//!
//! Invariants: all volumes are locked before anything goes and until all has gone, so nobody has the
//! store open; nothing goes that does not carry the store's label, but for the file that a store has in
//! its directory (a link or a device is none). The order: `HELIOX.new` says durably that the store is
//! being deleted, and is locked; `HELIOX` goes, durably; then the volumes; `HELIOX.new` last. So after a
//! crash there is the whole store, or a directory of which `HELIOX.new` says what it is, and the next
//! deletion, or the making of another store there, goes on. Who opens the whole store takes back what
//! had begun. On a device the superblock copies are overwritten before the label, by which it is known.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use heliox_format::ids::StoreUuid;
use heliox_format::label::LABEL_OFFSET;
use heliox_format::limits::BLOCK_BYTES;
use heliox_format::superblock::SUPERBLOCK_OFFSETS;
use heliox_media::IoMode;

use super::create::DATA_NAME;
use super::manifest::{sync_dir, Held, Intent, Making, Manifest, MANIFEST_NAME};
use super::volume::Volume;
use super::{find, named};
use crate::error::{Error, ErrorKind, Result};

/// A volume that is there and the store's.
struct Doomed {
    path: PathBuf,
    is_device: bool,
    /// Holds the lock.
    volume: Volume,
}

/// Goes on with a deletion that did not end, for whoever has the right to make a store there: with it
/// goes the certainty that there is none. The directory stays, as its owner made it.
pub(super) fn end(dir: &Path, intent: &mut Intent) -> Result<()> {
    let Some(manifest) = intent.left_to_delete() else {
        return Ok(());
    };
    for each in &look_all(dir, manifest, false)? {
        destroy(each)?;
    }
    intent.forget()
}

/// Deletes the store in `dir`, or what is left of one that is half made or half deleted.
pub(crate) fn run(dir: &Path) -> Result<()> {
    let dir = named(dir);
    if Intent::left_in(dir).is_none() {
        find(dir)?;
    }
    let mut held = Held::take(dir)?;
    let destroyed = with_held(dir, &mut held).map_err(|error| error.context(dir.display()));
    if destroyed.is_err() {
        held.withdraw();
    }
    destroyed?;
    // What else is in the directory is not ours.
    if std::fs::remove_dir(dir).is_ok() {
        let parent = dir.parent().filter(|path| !path.as_os_str().is_empty());
        sync_dir(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

fn with_held(dir: &Path, held: &mut Held) -> Result<()> {
    // Nobody makes a store there or deletes it meanwhile.
    let (manifest, is_whole) = match Manifest::read(dir)? {
        Some(manifest) => (Some(manifest), true),
        None => (held.left().map(|(_, manifest)| manifest), false),
    };
    delete(dir, held, manifest, is_whole)
}

/// Deletes the store that a manifest names. Where an error leaves it whole, nothing says that it goes.
fn delete(dir: &Path, held: &mut Held, manifest: Option<Manifest>, is_whole: bool) -> Result<()> {
    let doomed = match &manifest {
        Some(manifest) => look_all(dir, manifest, is_whole)?,
        None => Vec::new(),
    };
    if let (Some(manifest), true) = (&manifest, is_whole) {
        let text = Making::Destruction.text(manifest)?;
        let begun = held.write(&text).and_then(|()| held.remove_manifest());
        if begun.is_err() && dir.join(MANIFEST_NAME).exists() {
            // The store stays, so nothing may say that it goes. If that fails too, the next open tries it.
            let _ = held.remove();
        }
        begun?;
    }
    for each in &doomed {
        destroy(each)?;
    }
    held.remove()
}

/// Takes back what a deletion has said that got no further, of a store that is open now: it must not be
/// deleted the day its manifest is missing. A warning if that cannot be done.
pub(super) fn take_back(dir: &Path) -> Option<String> {
    if Intent::left_in(dir) != Some(Making::Destruction) {
        return None;
    }
    let taken_back = Held::take(dir).and_then(|held| match dir.join(MANIFEST_NAME).exists() {
        true => held.remove(),
        false => Ok(()),
    });
    let error = taken_back.err()?;
    Some(format!("a deletion of this store was begun and did not end, and what it left cannot be removed ({error}); if no deletion is running, remove the file HELIOX.new"))
}

/// Opens the volumes that are to go.
fn look_all(dir: &Path, manifest: &Manifest, is_whole: bool) -> Result<Vec<Doomed>> {
    let mut doomed = Vec::new();
    for (position, path) in manifest.volumes.iter().enumerate() {
        doomed.extend(
            look(dir, path, manifest.uuid, is_whole)
                .map_err(|error| error.context(format_args!("volume {position}")))?,
        );
    }
    Ok(doomed)
}

/// Opens a volume and says whether it is to go: none if it is not there, or not the store's.
fn look(dir: &Path, path: &Path, uuid: StoreUuid, is_whole: bool) -> Result<Option<Doomed>> {
    let is_data = path == Path::new(DATA_NAME);
    let path = dir.join(path);
    // A link, or a device, was put there by somebody else: its label alone tells whose it is.
    let is_own = is_data && std::fs::symlink_metadata(&path).map_or(true, |data| data.is_file());
    let metadata = match std::fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // One that was deleted already, or that somebody else has deleted.
            if is_own || !is_whole {
                return Ok(None);
            }
            let message = format!("{}: there is no such device or file, so what it holds of the store cannot be deleted; attach it, or, if it is gone for good, take its line out of the file HELIOX", path.display());
            return Err(Error::new(ErrorKind::WrongDevice, message));
        }
        Err(error) => return Err(Error::io("look at the volume", &path, error)),
    };
    let volume = Volume::open(&path, IoMode::Blocking, false)?;
    let is_ours = match volume.label() {
        Ok(Some(label)) => label.uuid == uuid,
        // What nothing is known of: in the store's own directory it is the store's all the same.
        Ok(None) => is_own,
        Err(_) if is_own => true,
        Err(error) => return Err(error),
    };
    if is_ours {
        let is_device = metadata.file_type().is_block_device();
        return Ok(Some(Doomed {
            path,
            is_device,
            volume,
        }));
    }
    if !is_whole {
        return Ok(None);
    }
    let name = path.display();
    let message = format!("{name}: carries no label of the store, so it is left alone; give HELIOX the path of the right device, or, if the store's is gone for good, take its line out of that file");
    Err(Error::new(ErrorKind::WrongDevice, message))
}

fn destroy(doomed: &Doomed) -> Result<()> {
    let path = &doomed.path;
    if doomed.is_device {
        return wipe(&doomed.volume);
    }
    let failed = |error| Error::io("delete", path, error);
    // The file, and then a link to it if the path is one.
    let file = std::fs::canonicalize(path).map_err(failed)?;
    for path in [&file, path] {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error))
            }
            _ => {}
        }
    }
    for path in [&file, path] {
        if let Some(parent) = path.parent() {
            sync_dir(parent)?;
        }
    }
    Ok(())
}

/// Makes a device one that holds no store. It can be done again until the label is gone.
fn wipe(volume: &Volume) -> Result<()> {
    let [first, second] = SUPERBLOCK_OFFSETS;
    for offset in [first, second, LABEL_OFFSET] {
        volume.write_block(offset, &[0; BLOCK_BYTES])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use heliox_media::{FaultMedia, Media, MemoryMedia, Operation};

    use super::super::{open_found, Root};
    use super::*;
    use crate::options::Options;
    use crate::store::Store;

    fn options(devices: &[PathBuf]) -> Options {
        let options = Options::new().devices(devices.to_vec()).background(false);
        options
            .create_if_missing(true)
            .capacity_bytes(96 << 20)
            .segment_bytes(4 << 20)
            .memory_budget_bytes(32 << 20)
    }

    /// The directory of a store on two files that were given, beside what is not the store's.
    fn store_on_files(root: &Path) -> (PathBuf, Vec<PathBuf>) {
        let devices: Vec<PathBuf> = [0, 1].map(|n| root.join(format!("d{n}"))).to_vec();
        for device in &devices {
            let file = std::fs::File::create(device).unwrap();
            file.set_len(50 << 20).unwrap();
        }
        let dir = root.join("store");
        let store = Store::create(&dir, &options(&devices)).unwrap();
        store
            .keyspace_or_create("k")
            .unwrap()
            .put("a", "1")
            .unwrap();
        store.close().unwrap();
        (dir, devices)
    }

    /// Does the first steps of a deletion, as a process does that is killed then.
    fn cut_short(dir: &Path, steps: usize) {
        let mut held = Held::take(dir).unwrap();
        let manifest = Manifest::read(dir).unwrap().unwrap();
        held.write(&Making::Destruction.text(&manifest).unwrap())
            .unwrap();
        if steps > 0 {
            held.remove_manifest().unwrap();
        }
        for volume in manifest.volumes.iter().take(steps.saturating_sub(1)) {
            let doomed = look(dir, volume, manifest.uuid, true).unwrap();
            destroy(&doomed.unwrap()).unwrap();
        }
    }

    #[test]
    fn a_deletion_that_was_cut_short_is_ended_by_the_next_or_by_a_creation() {
        for steps in 0..=3 {
            for again in [false, true] {
                let root = tempfile::tempdir().unwrap();
                let (dir, devices) = store_on_files(root.path());
                cut_short(&dir, steps);
                if steps == 0 {
                    let store = Store::open(&dir, &options(&[])).unwrap();
                    assert!(store.keyspace("k").unwrap().contains("a").unwrap());
                    store.close().unwrap();
                } else {
                    let never = options(&[]).create_if_missing(false);
                    let error = Store::open(&dir, &never).err().unwrap();
                    assert_eq!(error.kind(), ErrorKind::NotAStore, "{error}");
                    assert!(error.to_string().contains("the deletion"), "{error}");
                }
                if again && steps > 0 {
                    let own = std::fs::Permissions::from_mode(0o711);
                    std::fs::set_permissions(&dir, own).unwrap();
                    let store = Store::open(&dir, &options(&[])).unwrap();
                    assert!(store.keyspaces().is_empty());
                    store.close().unwrap();
                    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 2);
                    let mode = std::fs::metadata(&dir).unwrap().permissions().mode();
                    assert_eq!(mode & 0o777, 0o711, "the directory was made anew");
                } else {
                    run(&dir).unwrap();
                    assert!(!dir.exists());
                }
                assert!(!devices.iter().any(|device| device.exists()), "{steps}");
            }
        }
    }

    /// An opener has read the manifest, and goes on only when the deletion has begun and its process is
    /// gone, or the deletion has ended and another store is there.
    #[test]
    fn what_is_deleted_meanwhile_is_not_opened() {
        let root = tempfile::tempdir().unwrap();
        let settings = options(&[]).validate().unwrap();
        let refused = |dir: &Path, manifest: &Manifest, kind| {
            let error = open_found(dir, manifest, &settings).err().unwrap();
            assert_eq!(error.kind(), kind, "{error}");
        };
        let (dir, _) = store_on_files(root.path());
        let manifest = find(&dir).unwrap();
        drop(open_found(&dir, &manifest, &settings).unwrap());
        cut_short(&dir, 1);
        refused(&dir, &manifest, ErrorKind::NotAStore);
        run(&dir).unwrap();
        refused(&dir, &manifest, ErrorKind::WrongDevice);

        let made = || Store::create(&dir, &options(&[])).unwrap().close();
        made().unwrap();
        let manifest = find(&dir).unwrap();
        run(&dir).unwrap();
        made().unwrap();
        refused(&dir, &manifest, ErrorKind::StoreInUse);
    }

    /// Who makes a store goes on with a deletion under the lock only: what a look without it has found
    /// may be another store by then.
    #[test]
    fn a_store_that_was_made_meanwhile_is_not_deleted_by_the_making_of_another() {
        let root = tempfile::tempdir().unwrap();
        let (dir, _) = store_on_files(root.path());
        cut_short(&dir, 1);
        let gone = Intent::take(&dir).unwrap().left_to_delete().cloned();
        let store = Store::open(&dir, &options(&[])).unwrap();
        store
            .keyspace_or_create("k")
            .unwrap()
            .put("b", "2")
            .unwrap();
        store.close().unwrap();
        // With what is left of the deletion, and without.
        for left in [false, true] {
            if left {
                let text = Making::Destruction.text(gone.as_ref().unwrap()).unwrap();
                std::fs::write(dir.join("HELIOX.new"), text).unwrap();
            }
            let error = super::super::create::intending(&dir, |_| Ok(())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StoreExists, "{error}");
            let store = Store::open(&dir, &options(&[])).unwrap();
            assert!(store.keyspace("k").unwrap().contains("b").unwrap());
            store.close().unwrap();
        }
    }

    /// Where there is nothing, or what is no deletion, nothing is ended.
    #[test]
    fn a_making_ends_a_deletion_alone() {
        for making in [None, Some(Making::Creation), Some(Making::Destruction)] {
            let root = tempfile::tempdir().unwrap();
            let dir = root.path().join("store");
            std::fs::create_dir(&dir).unwrap();
            let manifest = Manifest {
                uuid: StoreUuid([7; 16]),
                volumes: vec![DATA_NAME.into()],
            };
            std::fs::write(dir.join(DATA_NAME), "what is there").unwrap();
            if let Some(making) = making {
                let mut held = Held::take(&dir).unwrap();
                held.write(&making.text(&manifest).unwrap()).unwrap();
            }
            let is_ended = making == Some(Making::Destruction);
            let mut intent = Intent::take(&dir).unwrap();
            end(&dir, &mut intent).unwrap();
            assert_eq!(dir.join(DATA_NAME).exists(), !is_ended, "{making:?}");
            assert_eq!(
                intent.earlier_uuid().is_some(),
                making == Some(Making::Creation)
            );
            // A making that is refused then leaves no trace.
            intent.withdraw();
            let left = Intent::left_in(&dir);
            assert_eq!(left, making.filter(|_| !is_ended));
        }
    }

    #[test]
    fn a_making_that_did_not_end_is_deleted_too() {
        for making in [Making::Creation, Making::Restore] {
            let root = tempfile::tempdir().unwrap();
            let dir = root.path();
            let manifest = Manifest {
                uuid: StoreUuid([7; 16]),
                volumes: vec![DATA_NAME.into()],
            };
            let mut held = Held::take(dir).unwrap();
            held.write(&making.text(&manifest).unwrap()).unwrap();
            std::fs::write(dir.join(DATA_NAME), "half").unwrap();
            let error = run(dir).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StoreInUse, "it is being made");
            drop(held);
            std::fs::write(dir.join("other"), "not ours").unwrap();
            run(dir).unwrap();
            let left: Vec<_> = std::fs::read_dir(dir).unwrap().collect();
            assert_eq!(left.len(), 1, "{left:?}");
        }
    }

    /// A store that was opened again, or whose deletion was refused, is in use again for years; its manifest
    /// may be missing for a moment then.
    #[test]
    fn a_deletion_that_has_got_nowhere_is_taken_back() {
        let settings = options(&[]).validate().unwrap();
        for is_refused in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let dir = root.path().join("store");
            Store::create(&dir, &options(&[])).unwrap().close().unwrap();
            let (manifest, aside) = (dir.join(MANIFEST_NAME), root.path().join("aside"));
            if is_refused {
                let mut held = Held::take(&dir).unwrap();
                // A directory cannot be deleted as a file is, and cannot be read as one either.
                let whole = Manifest::read(&dir).unwrap();
                std::fs::rename(&manifest, &aside).unwrap();
                std::fs::create_dir(&manifest).unwrap();
                delete(&dir, &mut held, whole, true).unwrap_err();
                assert!(dir.join(DATA_NAME).exists());
                drop(held);
            } else {
                cut_short(&dir, 0);
                let held = Held::take(&dir).unwrap();
                let (store, _) = Root::open(&dir, &settings).unwrap();
                let [warning] = store.warnings() else {
                    panic!("{:?}", store.warnings());
                };
                assert!(warning.contains("remove the file HELIOX.new"), "{warning}");
                drop((held, store));
                let (store, _) = Root::open(&dir, &settings).unwrap();
                assert!(store.warnings().is_empty(), "{:?}", store.warnings());
                drop(store);
                std::fs::rename(&manifest, &aside).unwrap();
            }
            assert_eq!(Intent::left_in(&dir), None);
            let _ = std::fs::remove_dir(&manifest);
            let error = Store::open(&dir, &options(&[])).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::StoreExists, "{error}");
            std::fs::rename(&aside, &manifest).unwrap();
            drop(Root::open(&dir, &settings).unwrap());
        }
    }

    /// Whoever has put a link in the place of the store's file may have meant another's.
    #[test]
    fn what_a_link_leads_to_goes_by_its_label_alone() {
        let states: [&dyn Fn(&Path); 3] = [&|_| {}, &|dir| cut_short(dir, 1), &|dir| {
            std::fs::rename(dir.join(MANIFEST_NAME), dir.join("HELIOX.new")).unwrap();
        }];
        for (at, reach) in states.iter().enumerate() {
            let root = tempfile::tempdir().unwrap();
            let (dir, moved) = (root.path().join("store"), root.path().join("moved"));
            Store::create(&dir, &options(&[])).unwrap().close().unwrap();
            let (data, other) = (dir.join(DATA_NAME), root.path().join("other"));
            reach(&dir);
            std::fs::rename(&data, &moved).unwrap();
            std::fs::write(&other, vec![7; 4 << 20]).unwrap();
            std::os::unix::fs::symlink(&other, &data).unwrap();
            let ended = run(&dir);
            assert_eq!(std::fs::read(&other).unwrap(), vec![7; 4 << 20], "{at}");
            assert!(data.is_symlink() && moved.exists());
            if at > 0 {
                ended.unwrap();
                continue;
            }
            assert_eq!(ended.unwrap_err().kind(), ErrorKind::WrongDevice);
            std::fs::remove_file(&data).unwrap();
            std::os::unix::fs::symlink(&moved, &data).unwrap();
            run(&dir).unwrap();
            assert!(!moved.exists() && !dir.exists() && other.exists());
        }
    }

    #[test]
    fn nothing_goes_if_a_volume_is_in_use_or_missing_or_anothers() {
        let root = tempfile::tempdir().unwrap();
        let (dir, devices) = store_on_files(root.path());
        let refused = |kind| {
            let error = run(&dir).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(dir.join(MANIFEST_NAME).exists() && devices[0].exists());
            assert!(!dir.join("HELIOX.new").exists());
        };
        let store = Store::open(&dir, &options(&[])).unwrap();
        refused(ErrorKind::StoreInUse);
        store.close().unwrap();
        let aside = root.path().join("aside");
        std::fs::rename(&devices[1], &aside).unwrap();
        refused(ErrorKind::WrongDevice);
        std::fs::write(&devices[1], vec![0; 4 << 20]).unwrap();
        refused(ErrorKind::WrongDevice);
        std::fs::rename(&aside, &devices[1]).unwrap();
        run(&dir).unwrap();
        let error = run(&dir).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAStore);
        let foreign = root.path().join("foreign");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join(DATA_NAME), "not ours").unwrap();
        assert_eq!(run(&foreign).unwrap_err().kind(), ErrorKind::NotAStore);
        assert!(foreign.join(DATA_NAME).exists());
    }

    /// A device is known by its label until nothing else is left on it.
    #[test]
    fn a_device_that_was_wiped_in_part_can_be_wiped_again_and_then_takes_a_store() {
        for writes in 0..3 {
            let inner = Arc::new(MemoryMedia::new(96 << 20, 512).unwrap());
            let given = |media: Arc<dyn Media>| options(&[]).volumes(vec![media]);
            Store::create("", &given(inner.clone()))
                .unwrap()
                .close()
                .unwrap();
            let faulty = Arc::new(FaultMedia::new(Arc::clone(&inner)));
            faulty.fail_nth(Operation::Write, writes, libc::EIO);
            let [volume] = &Volume::given(&[faulty as Arc<dyn Media>])[..] else {
                panic!("one volume");
            };
            wipe(volume).unwrap_err();
            let [volume] = &Volume::given(&[inner.clone() as Arc<dyn Media>])[..] else {
                panic!("one volume");
            };
            assert!(volume.label().unwrap().is_some(), "after {writes} writes");
            wipe(volume).unwrap();
            volume.check_unused(None).unwrap();
            Store::create("", &given(inner)).unwrap().close().unwrap();
        }
    }
}
