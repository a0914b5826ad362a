//! One flat address space over several equal volumes, striped round robin.
//!
//! Invariants: flat stripe `s` of [`STRIPE_BYTES`] lies on volume `s % n` at stripe `s / n` after
//! the head; every flat byte has exactly one place; heads (labels, superblocks) have no flat
//! address and are reached through [`StripedMedia::volume`]. Because a stripe is a multiple of every
//! sector, no sector is cut.
//!
//! Sync covers all volumes, heads included. A failed write or sync on one volume fails them all:
//! a store that has lost one volume must not acknowledge on the others.
//!
//! Threads: any. Volumes of one batch or sync are served side by side: the caller's thread takes
//! the first, scoped threads the others, if the parts are large enough to pay for a thread. Memory
//! is never waited for, so it gets no threads: what is simulated stays on one.

use std::fs::File;
use std::sync::Arc;

use heliox_format::limits::VOLUMES_MAX;

use crate::error::MediaError;
use crate::sticky::Sticky;
use crate::{check_request, Geometry, IoKind, Media, Read};

/// Bytes that lie together on one volume.
pub const STRIPE_BYTES: u64 = 256 << 10;

/// From how many bytes a batch is spread over threads, one per volume; below, the volumes are asked
/// one after the other, since a thread costs about as much as a small read.
const SPREAD_BYTES_MIN: usize = 1 << 20;

/// Volumes as one device.
pub struct StripedMedia {
    name: Arc<str>,
    volumes: Vec<Box<dyn Media>>,
    head_bytes: u64,
    geometry: Geometry,
    sticky: Sticky,
}

/// A part of a request that lies on one volume.
struct Piece {
    volume: usize,
    offset: u64,
    len: usize,
}

impl StripedMedia {
    /// Joins volumes; the first `head_bytes` of each (a multiple of 4096) stay out of the flat
    /// space. Usable are as many whole stripes of each volume as the shortest one has.
    ///
    /// # Errors
    /// [`MediaError::Unusable`] without volumes, with too many, with an odd head, or if a volume is
    /// too short for its head and one stripe.
    pub fn new(volumes: Vec<Box<dyn Media>>, head_bytes: u64) -> Result<StripedMedia, MediaError> {
        let name: Arc<str> = volumes
            .iter()
            .map(|v| v.describe())
            .collect::<Vec<_>>()
            .join(" + ")
            .into();
        let unusable = |reason: &str| MediaError::Unusable {
            device: Arc::clone(&name),
            reason: reason.to_owned(),
        };
        if volumes.is_empty() || volumes.len() > VOLUMES_MAX {
            return Err(unusable("the number of volumes must be from 1 to 64"));
        }
        if !head_bytes.is_multiple_of(4096) {
            return Err(unusable(
                "the head of a volume must be a multiple of 4096 bytes",
            ));
        }
        let geometry = joined_geometry(&volumes, head_bytes);
        if geometry.len_bytes == 0 {
            return Err(unusable(
                "a volume is too short for its head and one stripe",
            ));
        }
        let sticky = Sticky::new(Arc::clone(&name));
        Ok(StripedMedia {
            name,
            volumes,
            head_bytes,
            geometry,
            sticky,
        })
    }

    /// How many volumes there are.
    #[must_use]
    pub fn volume_count(&self) -> usize {
        self.volumes.len()
    }

    /// One volume in its own addresses, head included; for labels and superblocks. After a write
    /// through it, sync it or the whole.
    #[must_use]
    pub fn volume(&self, index: usize) -> Option<&dyn Media> {
        self.volumes.get(index).map(|volume| &**volume)
    }

    /// Bytes at the start of each volume that are not in the flat space.
    #[must_use]
    pub fn head_bytes(&self) -> u64 {
        self.head_bytes
    }

    /// Which volume holds a flat offset, and where.
    #[must_use]
    pub fn place(&self, offset: u64) -> (usize, u64) {
        let count = self.volumes.len() as u64;
        let stripe = offset / STRIPE_BYTES;
        let on_volume = stripe / count * STRIPE_BYTES + offset % STRIPE_BYTES;
        ((stripe % count) as usize, self.head_bytes + on_volume)
    }

    fn only(&self) -> Option<&dyn Media> {
        if self.volumes.len() == 1 {
            return self.volume(0);
        }
        None
    }

    fn check(&self, offset: u64, len_bytes: u64, address: usize) -> Result<(), MediaError> {
        check_request(&self.name, &self.geometry, offset, len_bytes, address)
    }

    /// The first piece of a request.
    fn first_piece(&self, offset: u64, len_bytes: u64) -> Piece {
        let (volume, at) = self.place(offset);
        let left = if self.volumes.len() == 1 {
            u64::MAX
        } else {
            STRIPE_BYTES - offset % STRIPE_BYTES
        };
        Piece {
            volume,
            offset: at,
            len: len_bytes.min(left) as usize,
        }
    }

    /// Cuts reads at stripe borders; each part with its volume.
    fn split_reads<'a>(&self, reads: &'a mut [Read<'_>]) -> Vec<(usize, Read<'a>)> {
        let mut parts = Vec::with_capacity(reads.len());
        for read in reads {
            let mut offset = read.offset;
            let mut rest = &mut *read.buf;
            while !rest.is_empty() {
                let piece = self.first_piece(offset, rest.len() as u64);
                let (buf, tail) = rest.split_at_mut(piece.len);
                parts.push((
                    piece.volume,
                    Read {
                        offset: piece.offset,
                        buf,
                    },
                ));
                offset += piece.len as u64;
                rest = tail;
            }
        }
        parts
    }

    fn read_parts(&self, mut parts: Vec<(usize, Read<'_>)>) -> Result<(), MediaError> {
        if let Some(result) = self.read_by_ring(&mut parts) {
            return result;
        }
        let bytes: usize = parts.iter().map(|(_, read)| read.buf.len()).sum();
        let mut by_volume: Vec<Vec<Read<'_>>> = self.volumes.iter().map(|_| Vec::new()).collect();
        parts
            .into_iter()
            .for_each(|(volume, read)| by_volume[volume].push(read));
        let work: Vec<_> = self
            .volumes
            .iter()
            .map(|volume| &**volume)
            .zip(by_volume)
            .filter(|(_, w)| !w.is_empty())
            .collect();
        let read = |(volume, mut part): (&dyn Media, Vec<Read<'_>>)| volume.read_many(&mut part);
        if bytes < SPREAD_BYTES_MIN || self.is_memory() {
            return work.into_iter().try_for_each(read);
        }
        side_by_side(work, read)
    }

    /// All parts in one submission over all volumes, if they are files that use rings.
    fn read_by_ring(&self, parts: &mut [(usize, Read<'_>)]) -> Option<Result<(), MediaError>> {
        let mut rings = None;
        let mut requests = Vec::with_capacity(parts.len());
        for (volume, read) in parts {
            let file = self.volumes[*volume].as_file()?;
            rings = Some(file.rings()?);
            match file.request(read.offset, read.buf) {
                Ok(request) => requests.push(request),
                Err(error) => return Some(Err(error)),
            }
        }
        rings?.read(&mut requests)
    }

    fn is_memory(&self) -> bool {
        let mut volumes = self.volumes.iter();
        volumes.all(|volume| volume.io_kind() == IoKind::Memory)
    }

    /// The first failure of any volume, made the failure of all.
    fn check_volumes(&self) -> Result<(), MediaError> {
        self.sticky.check()?;
        match self.volumes.iter().find_map(|volume| volume.failure()) {
            Some(cause) => {
                self.sticky.fail(cause);
                self.sticky.check()
            }
            None => Ok(()),
        }
    }

    /// Runs a write or sync as [`Sticky::guard`] does, watching the volumes' heads too.
    fn guard(&self, run: impl FnOnce() -> Result<(), MediaError>) -> Result<(), MediaError> {
        self.check_volumes()?;
        self.sticky.guard(run)?;
        self.check_volumes()
    }
}

impl Media for StripedMedia {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.check(offset, buf.len() as u64, buf.as_ptr() as usize)?;
        let piece = self.first_piece(offset, buf.len() as u64);
        if piece.len == buf.len() {
            return self.volumes[piece.volume].read_at(piece.offset, buf);
        }
        self.read_parts(self.split_reads(&mut [Read { offset, buf }]))
    }

    fn read_many(&self, reads: &mut [Read<'_>]) -> Result<(), MediaError> {
        for read in reads.iter() {
            self.check(
                read.offset,
                read.buf.len() as u64,
                read.buf.as_ptr() as usize,
            )?;
        }
        let Some(only) = self.only() else {
            return self.read_parts(self.split_reads(reads));
        };
        shifted(reads, self.head_bytes, |reads| only.read_many(reads))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.check(offset, data.len() as u64, data.as_ptr() as usize)?;
        if let Some(only) = self.only() {
            return only.write_at(offset + self.head_bytes, data);
        }
        self.guard(|| {
            let mut done = 0;
            while done < data.len() {
                let piece = self.first_piece(offset + done as u64, (data.len() - done) as u64);
                let part = &data[done..done + piece.len];
                self.volumes[piece.volume].write_at(piece.offset, part)?;
                done += piece.len;
            }
            Ok(())
        })
    }

    fn sync(&self) -> Result<(), MediaError> {
        if let Some(only) = self.only() {
            return only.sync();
        }
        self.guard(|| {
            if self.is_memory() {
                let synced: Vec<_> = self.volumes.iter().map(|volume| volume.sync()).collect();
                return synced.into_iter().collect();
            }
            side_by_side(self.volumes.iter().collect(), |volume| volume.sync())
        })
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
        self.check(offset, len_bytes, 0)?;
        let mut done = 0;
        while done < len_bytes {
            let piece = self.first_piece(offset + done, len_bytes - done);
            self.volumes[piece.volume].discard(piece.offset, piece.len as u64)?;
            done += piece.len as u64;
        }
        Ok(())
    }

    fn prepare(&self, offset: u64, len_bytes: u64) -> Result<u64, MediaError> {
        self.check(offset, len_bytes, 0)?;
        let (mut done, mut written) = (0, 0);
        while done < len_bytes {
            let piece = self.first_piece(offset + done, len_bytes - done);
            written += self.volumes[piece.volume].prepare(piece.offset, piece.len as u64)?;
            done += piece.len as u64;
        }
        Ok(written)
    }

    fn clone_to(&self, offset: u64, len_bytes: u64, file: &File, at: u64) -> bool {
        let mut done = 0;
        while done < len_bytes {
            let piece = self.first_piece(offset + done, len_bytes - done);
            let volume = &self.volumes[piece.volume];
            if !volume.clone_to(piece.offset, piece.len as u64, file, at + done) {
                return false;
            }
            done += piece.len as u64;
        }
        true
    }

    fn describe(&self) -> String {
        self.name.to_string()
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        self.volumes
            .iter()
            .map(|volume| volume.allocated_bytes())
            .sum()
    }

    fn failure(&self) -> Option<MediaError> {
        self.sticky
            .cause()
            .or_else(|| self.volumes.iter().find_map(|volume| volume.failure()))
    }

    fn io_kind(&self) -> IoKind {
        self.volumes
            .first()
            .map_or(IoKind::Memory, |volume| volume.io_kind())
    }
}

fn joined_geometry(volumes: &[Box<dyn Media>], head_bytes: u64) -> Geometry {
    let all = || volumes.iter().map(|volume| volume.geometry());
    let shortest = all()
        .map(|g| g.len_bytes)
        .min()
        .unwrap_or(0)
        .saturating_sub(head_bytes);
    let usable = shortest / STRIPE_BYTES * STRIPE_BYTES;
    Geometry {
        len_bytes: usable * volumes.len() as u64,
        sector_bytes: all().map(|g| g.sector_bytes).max().unwrap_or(4096),
        rotational: all().any(|g| g.rotational),
        direct: all().all(|g| g.direct),
    }
}

/// Runs with all offsets moved up by `by`, and moves them back: no allocation for one volume.
fn shifted<R>(reads: &mut [Read<'_>], by: u64, run: impl FnOnce(&mut [Read<'_>]) -> R) -> R {
    reads.iter_mut().for_each(|read| read.offset += by);
    let result = run(reads);
    reads.iter_mut().for_each(|read| read.offset -= by);
    result
}

/// Runs `f` for each item: the last one on this thread, the others on threads of their own. The
/// first error in order of the items is returned after all have ended.
fn side_by_side<T: Send>(
    mut items: Vec<T>,
    f: impl Fn(T) -> Result<(), MediaError> + Sync,
) -> Result<(), MediaError> {
    let Some(own) = items.pop() else {
        return Ok(());
    };
    let results = heliox_sync::Mutex::new(Vec::new());
    let run = |item: T| results.lock().push(f(item));
    let mut unspawned = Vec::new();
    heliox_sync::thread::scope(|scope| {
        for item in items {
            // A refused thread must not fail the request: the cell gets the item back then.
            let cell = Arc::new(heliox_sync::Mutex::new(Some(item)));
            let given = Arc::clone(&cell);
            let run = &run;
            let task = move || given.lock().take().into_iter().for_each(run);
            if heliox_sync::thread::spawn_scoped(scope, task).is_err() {
                unspawned.extend(cell.lock().take());
            }
        }
        run(own);
        unspawned.into_iter().for_each(run);
    });
    results.into_inner().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlignedBuf, MemoryMedia};

    const HEAD_BYTES: u64 = 8192;

    fn volumes(lens: &[u64]) -> Vec<Box<dyn Media>> {
        let volume = |&len: &u64| Box::new(MemoryMedia::new(len, 512).unwrap()) as Box<dyn Media>;
        lens.iter().map(volume).collect()
    }

    #[test]
    fn the_shortest_volume_decides_and_heads_stay_out() {
        let whole = StripedMedia::new(volumes(&[3 << 20, (2 << 20) + 12_000, 4 << 20]), HEAD_BYTES)
            .unwrap();
        assert_eq!(whole.geometry().len_bytes, 3 * (2 << 20));
        assert_eq!(whole.place(0), (0, HEAD_BYTES));
        assert_eq!(
            whole.place(STRIPE_BYTES * 4 + 5),
            (1, HEAD_BYTES + STRIPE_BYTES + 5)
        );
        assert!(StripedMedia::new(volumes(&[STRIPE_BYTES]), HEAD_BYTES).is_err());
        assert!(StripedMedia::new(Vec::new(), 0).is_err());
        assert!(StripedMedia::new(volumes(&[1 << 20]), 100).is_err());
    }

    #[test]
    fn bytes_come_back_across_stripe_borders_for_every_number_of_volumes() {
        for count in 1..=4 {
            let whole = StripedMedia::new(volumes(&vec![4 << 20; count]), HEAD_BYTES).unwrap();
            whole
                .volume(count - 1)
                .unwrap()
                .write_at(0, &[7; 8192][..0])
                .unwrap();
            let mut data = AlignedBuf::new(1 << 20).unwrap();
            data.iter_mut()
                .enumerate()
                .for_each(|(n, b)| *b = (n / 512) as u8);
            let at = STRIPE_BYTES - 4096;
            whole.write_at(at, &data).unwrap();
            let mut out = AlignedBuf::new(1 << 20).unwrap();
            whole.read_at(at, &mut out).unwrap();
            assert!(*out == *data, "{count} volumes");
            out.fill(0);
            let (a, b) = out.split_at_mut(512 << 10);
            let mut reads = [
                Read {
                    offset: at + (512 << 10),
                    buf: b,
                },
                Read { offset: at, buf: a },
            ];
            whole.read_many(&mut reads).unwrap();
            assert_eq!(reads[1].offset, at, "offsets are given back as they were");
            assert!(*out == *data, "{count} volumes");
            let mut head = AlignedBuf::new(HEAD_BYTES as usize).unwrap();
            whole.volume(0).unwrap().read_at(0, &mut head).unwrap();
            assert!(head.iter().all(|&b| b == 0), "the head was written");
        }
    }

    #[test]
    fn one_failed_volume_fails_the_whole_even_through_its_head() {
        use crate::{FaultMedia, Operation};
        use std::sync::Arc;
        let faulty = Arc::new(FaultMedia::new(MemoryMedia::new(1 << 20, 512).unwrap()));
        let mut two = volumes(&[1 << 20]);
        two.push(Box::new(Arc::clone(&faulty)));
        let whole = StripedMedia::new(two, HEAD_BYTES).unwrap();
        let block = AlignedBuf::new(4096).unwrap();
        whole.write_at(0, &block).unwrap();
        whole.sync().unwrap();
        faulty.fail_nth(Operation::Write, 0, libc::EIO);
        assert!(whole.volume(1).unwrap().write_at(0, &block).is_err());
        let refused = whole.write_at(0, &block).unwrap_err();
        assert!(
            refused.is_failed() && refused.errno() == Some(libc::EIO),
            "{refused}"
        );
        assert!(whole.sync().unwrap_err().is_failed());
        let mut out = AlignedBuf::new(4096).unwrap();
        whole.read_at(STRIPE_BYTES, &mut out).unwrap();
    }

    #[test]
    fn a_sync_reaches_every_volume_and_a_read_within_a_stripe_only_one() {
        use crate::FaultMedia;
        use std::sync::Arc;
        let make = |_| Arc::new(FaultMedia::new(MemoryMedia::new(4 << 20, 512).unwrap()));
        let counted: Vec<_> = (0..3).map(make).collect();
        let boxed = |v: &Arc<FaultMedia<MemoryMedia>>| Box::new(Arc::clone(v)) as Box<dyn Media>;
        let whole = StripedMedia::new(counted.iter().map(boxed).collect(), HEAD_BYTES).unwrap();
        whole.sync().unwrap();
        let mut out = AlignedBuf::new(4096).unwrap();
        whole.read_at(STRIPE_BYTES + 4096, &mut out).unwrap();
        let counts: Vec<_> = counted
            .iter()
            .map(|v| (v.counts().syncs, v.counts().reads))
            .collect();
        assert_eq!(counts, [(1, 0), (1, 1), (1, 0)]);
        // Large enough to be spread over threads: one submission to each volume.
        let mut large = AlignedBuf::new(2 << 20).unwrap();
        whole.read_at(0, &mut large).unwrap();
        let calls: Vec<_> = counted.iter().map(|v| v.counts().read_calls).collect();
        assert_eq!(calls, [1, 2, 1]);
    }
}
