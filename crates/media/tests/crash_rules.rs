//! The legality rules of crash images, checked against an independent account of what was done.
// Helpers of tests: clippy only knows functions marked as tests.
#![allow(clippy::unwrap_used, clippy::panic)]

use heliox_media::{
    AlignedBuf, CrashChoice, FaultMedia, Media, MediaError, MemoryMedia, Operation, RecordingMedia,
};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;

const SECTOR: usize = 512;
const SECTORS: usize = 32;

fn recording() -> RecordingMedia {
    RecordingMedia::new(MemoryMedia::new((SECTORS * SECTOR) as u64, SECTOR as u32).unwrap())
}

fn write(media: &dyn Media, sector: usize, sectors: usize, byte: u8) {
    let mut data = AlignedBuf::new(sectors * SECTOR).unwrap();
    data.fill(byte);
    media.write_at((sector * SECTOR) as u64, &data).unwrap();
}

/// The byte of each sector, which must fill it wholly.
fn bytes_of(image: &MemoryMedia) -> Vec<u8> {
    let mut all = AlignedBuf::new(SECTORS * SECTOR).unwrap();
    image.read_at(0, &mut all).unwrap();
    all.chunks(SECTOR)
        .map(|sector| {
            assert!(sector.iter().all(|b| *b == sector[0]), "a sector is torn");
            sector[0]
        })
        .collect()
}

#[test]
fn a_synced_write_is_never_lost_and_an_unsynced_one_may_be() {
    let media = recording();
    write(&media, 0, 4, 1);
    media.sync().unwrap();
    write(&media, 8, 4, 2);
    let at = media.event_count();
    let images: Vec<_> = (0..64)
        .map(|seed| bytes_of(&media.crash_image(at, seed).unwrap()))
        .collect();
    assert!(images.iter().all(|image| image[..4] == [1; 4]));
    assert!(
        images.iter().any(|image| image[8..12] == [0; 4]),
        "never lost"
    );
    assert!(
        images.iter().any(|image| image[8..12] == [2; 4]),
        "never kept"
    );
    let torn = |image: &Vec<u8>| image[8..12].contains(&0) && image[8..12].contains(&2);
    assert!(images.iter().any(torn), "never torn");
    assert_eq!(images[0][8], 0);
    assert_eq!(images[1][8], 2);
}

#[test]
fn an_older_version_may_win_among_unsynced_writes_only() {
    let media = recording();
    for byte in 1..=2 {
        write(&media, 0, 1, byte);
    }
    media.sync().unwrap();
    for byte in 3..=5 {
        write(&media, 0, 1, byte);
    }
    let at = media.event_count();
    let seen: HashSet<u8> = (0..300)
        .map(|seed| bytes_of(&media.crash_image(at, seed).unwrap())[0])
        .collect();
    assert_eq!(
        seen,
        HashSet::from([2, 3, 4, 5]),
        "1 was replaced by a synced write"
    );
}

#[test]
fn a_sync_without_an_end_makes_nothing_certain() {
    let media = recording();
    write(&media, 0, 1, 1);
    media.sync().unwrap();
    let points = media.sync_points();
    assert_eq!(points, [3]);
    assert_eq!(
        (media.free_events(2).unwrap(), media.free_events(3).unwrap()),
        (1, 0)
    );
    assert_eq!(bytes_of(&media.crash_image(2, 0).unwrap())[0], 0);
    assert_eq!(bytes_of(&media.crash_image(3, 0).unwrap())[0], 1);
    assert!(media.crash_image(4, 0).is_err());
}

#[test]
fn whole_choices_keep_exactly_what_they_name_in_order() {
    let media = recording();
    write(&media, 0, 2, 1);
    write(&media, 1, 2, 2);
    write(&media, 2, 2, 3);
    let image = |kept: &[bool]| {
        bytes_of(&media.crash_image_of(3, CrashChoice::Whole(kept)).unwrap())[..4].to_vec()
    };
    assert_eq!(image(&[true, false, true]), [1, 1, 3, 3]);
    assert_eq!(image(&[true, true]), [1, 2, 2, 0]);
    assert_eq!(image(&[]), [0; 4]);
    let all = media
        .crash_image_of(3, CrashChoice::EverythingUnsynced)
        .unwrap();
    assert_eq!(bytes_of(&all), bytes_of(&media.live_image()));
}

#[test]
fn choices_by_sector_keep_exactly_what_they_name() {
    let media = recording();
    write(&media, 0, 3, 1);
    write(&media, 2, 2, 2);
    assert_eq!(media.free_sectors(2).unwrap(), [3, 2]);
    let image = |kept: &[Vec<bool>]| {
        bytes_of(&media.crash_image_of(2, CrashChoice::Sectors(kept)).unwrap())[..5].to_vec()
    };
    assert_eq!(image(&[]), [0; 5]);
    assert_eq!(image(&[vec![true, false, true], vec![]]), [1, 0, 1, 0, 0]);
    let both = [vec![false, true, true], vec![true, true]];
    assert_eq!(image(&both), [0, 1, 2, 2, 0]);
    assert_eq!(image(&[vec![true; 9], vec![false, true]]), [1, 1, 1, 2, 0]);
}

#[test]
fn a_failed_sync_or_write_is_never_certain() {
    let media = Arc::new(recording());
    let faulty = FaultMedia::new(Arc::clone(&media));
    write(&faulty, 0, 1, 1);
    faulty.fail_nth(Operation::Sync, 0, 5);
    assert!(faulty.sync().is_err());
    assert!(matches!(faulty.sync(), Err(MediaError::Failed { .. })));
    assert_eq!(
        bytes_of(&media.crash_image(media.event_count(), 0).unwrap())[0],
        0
    );
}

#[test]
fn forgetting_changes_no_image_that_can_still_be_asked_for() {
    let media = recording();
    for round in 0..20u8 {
        write(&media, usize::from(round) % 8, 4, round + 1);
        if round % 3 == 0 {
            media.sync().unwrap();
        }
    }
    let from = media.sync_points().last().copied().unwrap();
    let count = media.event_count();
    let images = |media: &RecordingMedia| -> Vec<_> {
        (from..=count)
            .flat_map(|at| (0..8).map(move |seed| (at, seed)))
            .map(|(at, seed)| bytes_of(&media.crash_image(at, seed).unwrap()))
            .collect()
    };
    let before = images(&media);
    media.forget_synced().unwrap();
    assert_eq!(media.event_count(), count);
    assert!(media.first_event() > 0 && media.crash_image(0, 0).is_err());
    assert_eq!(images(&media), before);
    // An image beyond the next sync must not stand in for the earlier ones.
    write(&media, 0, SECTORS, 99);
    media.sync().unwrap();
    assert_eq!(
        bytes_of(&media.crash_image(media.event_count(), 0).unwrap()),
        [99; SECTORS]
    );
    assert_eq!(images(&media), before);
}

#[test]
fn writers_and_crashes_side_by_side_keep_every_sector_whole() {
    let media = Arc::new(recording());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let media = &media;
            scope.spawn(move || {
                for round in 0..200 {
                    write(
                        &**media,
                        (round + thread * 7) % (SECTORS - 4),
                        4,
                        thread as u8 + 1,
                    );
                    if round % 10 == 0 {
                        media.sync().unwrap();
                    }
                }
            });
        }
        for seed in 0..100 {
            bytes_of(&media.crash_image(media.event_count(), seed).unwrap());
        }
    });
    media.sync().unwrap();
    let image = media.crash_image(media.event_count(), 2).unwrap();
    assert_eq!(bytes_of(&image), bytes_of(&media.live_image()));
}

#[derive(Clone, Debug)]
enum Step {
    Write { sector: usize, sectors: usize },
    Sync,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let write =
        (0..SECTORS - 4, 1usize..5).prop_map(|(sector, sectors)| Step::Write { sector, sectors });
    prop::collection::vec(prop_oneof![5 => write, 1 => Just(Step::Sync)], 1..40)
}

/// For each sector, every byte that an image may show after `events` events.
fn allowed(steps: &[Step], events: usize) -> Vec<HashSet<u8>> {
    let mut allowed = vec![HashSet::from([0u8]); SECTORS];
    let mut newest = [0u8; SECTORS];
    let mut event = 0;
    for (n, step) in steps.iter().enumerate() {
        match step {
            Step::Write { sector, sectors } if event < events => {
                for s in *sector..sector + sectors {
                    newest[s] = n as u8 + 1;
                    allowed[s].insert(newest[s]);
                }
                event += 1;
            }
            // The end of the sync must lie before the crash.
            Step::Sync if event + 2 <= events => {
                allowed = newest.iter().map(|b| HashSet::from([*b])).collect();
                event += 2;
            }
            _ => break,
        }
    }
    allowed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_image_is_legal_at_every_event(steps in steps(), seed in any::<u64>()) {
        let media = recording();
        for (n, step) in steps.iter().enumerate() {
            match step {
                Step::Write { sector, sectors } => write(&media, *sector, *sectors, n as u8 + 1),
                Step::Sync => media.sync().unwrap(),
            }
        }
        for at in 0..=media.event_count() {
            let allowed = allowed(&steps, at);
            for seed in [0, 1, seed, seed ^ 1, seed.rotate_left(7)] {
                let image = bytes_of(&media.crash_image(at, seed).unwrap());
                for (sector, byte) in image.iter().enumerate() {
                    prop_assert!(allowed[sector].contains(byte), "sector {sector} holds {byte} at {at}");
                }
            }
        }
    }
}

#[test]
fn discarded_bytes_may_be_anything_until_written_again() {
    let grain = 64 << 10;
    let media = RecordingMedia::new(MemoryMedia::new(1 << 20, SECTOR as u32).unwrap());
    let mut data = AlignedBuf::new(1 << 20).unwrap();
    data.fill(9);
    media.write_at(0, &data).unwrap();
    media.sync().unwrap();
    media.discard(0, 1 << 20).unwrap();
    data.fill(5);
    media.write_at(grain as u64, &data[..grain]).unwrap();
    media.sync().unwrap();
    let at = media.event_count();
    let read = |image: &MemoryMedia| {
        let mut out = vec![0; 1 << 20];
        image.peek(0, &mut out).unwrap();
        out
    };
    let image = read(&media.crash_image(at, 77).unwrap());
    assert!(
        image == read(&media.live_image()),
        "images agree with what reads saw"
    );
    assert!(
        image[grain..2 * grain].iter().all(|&b| b == 5),
        "a synced write after a discard"
    );
    let pages: Vec<_> = image.chunks(grain).collect();
    assert!(pages.iter().any(|p| p.iter().all(|&b| b == 0)));
    assert!(pages.iter().any(|p| p.iter().all(|&b| b == 9)));
}
