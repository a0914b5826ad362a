//! A device in memory: for stores without media, for tests, and for images after a crash.
//!
//! Invariants: bytes never written read as zero and occupy no memory; a clone is a snapshot that
//! shares pages until one side writes (so that thousands of crash images are cheap). "Durable"
//! means nothing here: sync succeeds at once. Threads: any; pages are spread over locked shards,
//! and a request is atomic per page of 64 KiB, so at least per sector.

use std::collections::HashMap;
use std::sync::Arc;

use heliox_format::limits::{SECTOR_BYTES_MAX, SECTOR_BYTES_MIN};
use heliox_sync::RwLock;

use crate::error::MediaError;
use crate::{check_request, Geometry, IoKind, Media};

/// Small enough that copy-on-write of a page is cheap, large enough for one map look-up per read.
const PAGE_BYTES: usize = 64 << 10;
const SHARDS: usize = 64;

type Shard = HashMap<u64, Arc<[u8]>>;

/// A sparse device in memory.
pub struct MemoryMedia {
    name: Arc<str>,
    geometry: Geometry,
    shards: Vec<RwLock<Shard>>,
}

impl MemoryMedia {
    /// A zeroed device; memory is taken as it is written. The length is rounded down to the sector.
    ///
    /// # Errors
    /// [`MediaError::Unusable`] if the sector is no power of two from 512 to 4096.
    pub fn new(len_bytes: u64, sector_bytes: u32) -> Result<MemoryMedia, MediaError> {
        let name: Arc<str> = "memory".into();
        let allowed = SECTOR_BYTES_MIN as u32..=SECTOR_BYTES_MAX as u32;
        if !sector_bytes.is_power_of_two() || !allowed.contains(&sector_bytes) {
            let reason = format!("a sector of {sector_bytes} bytes");
            return Err(MediaError::Unusable {
                device: name,
                reason,
            });
        }
        let geometry = Geometry::new(
            len_bytes - len_bytes % u64::from(sector_bytes),
            sector_bytes,
        );
        let shards = (0..SHARDS).map(|_| RwLock::new(Shard::new())).collect();
        Ok(MemoryMedia {
            name,
            geometry,
            shards,
        })
    }

    /// As [`Media::read_at`] without any rule of alignment: for tests and tools.
    ///
    /// # Errors
    /// [`MediaError::OutOfRange`].
    pub fn peek(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.check_range(offset, buf.len())?;
        for_each_page(offset, buf.len(), |page, from, range| {
            let shard = self.shard(page).read();
            let target = &mut buf[range];
            match shard.get(&page) {
                Some(bytes) => target.copy_from_slice(&bytes[from..from + target.len()]),
                None => target.fill(0),
            }
        });
        Ok(())
    }

    /// As [`Media::write_at`] without any rule of alignment: for tests and tools.
    ///
    /// # Errors
    /// [`MediaError::OutOfRange`].
    pub fn poke(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.check_range(offset, data.len())?;
        for_each_page(offset, data.len(), |page, from, range| {
            let mut shard = self.shard(page).write();
            let bytes = shard
                .entry(page)
                .or_insert_with(|| vec![0; PAGE_BYTES].into());
            let source = &data[range];
            Arc::make_mut(bytes)[from..from + source.len()].copy_from_slice(source);
        });
        Ok(())
    }

    /// Checks the arguments of a discard, as [`Media::discard`] does first.
    pub(crate) fn check_discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
        check_request(&self.name, &self.geometry, offset, len_bytes, 0)
    }

    fn shard(&self, page: u64) -> &RwLock<Shard> {
        &self.shards[page as usize % SHARDS]
    }

    fn check_range(&self, offset: u64, len: usize) -> Result<(), MediaError> {
        let bytewise = Geometry {
            sector_bytes: 1,
            ..self.geometry
        };
        check_request(&self.name, &bytewise, offset, len as u64, 0)
    }

    fn check(&self, offset: u64, len: usize, address: usize) -> Result<(), MediaError> {
        check_request(&self.name, &self.geometry, offset, len as u64, address)
    }

    /// Frees the page if all of it goes, else zeroes the part.
    fn discard_page(&self, page: u64, from: usize, len: usize) {
        let mut shard = self.shard(page).write();
        if len == PAGE_BYTES {
            shard.remove(&page);
        } else if let Some(bytes) = shard.get_mut(&page) {
            Arc::make_mut(bytes)[from..from + len].fill(0);
        }
    }
}

impl Clone for MemoryMedia {
    /// A snapshot; costs a pointer per page. Writes under way may be in it in part.
    fn clone(&self) -> MemoryMedia {
        let shards = self
            .shards
            .iter()
            .map(|shard| RwLock::new(shard.read().clone()))
            .collect();
        MemoryMedia {
            name: Arc::clone(&self.name),
            geometry: self.geometry,
            shards,
        }
    }
}

impl std::fmt::Debug for MemoryMedia {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Media for MemoryMedia {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.check(offset, buf.len(), buf.as_ptr() as usize)?;
        self.peek(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.check(offset, data.len(), data.as_ptr() as usize)?;
        self.poke(offset, data)
    }

    fn sync(&self) -> Result<(), MediaError> {
        Ok(())
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
        self.check_discard(offset, len_bytes)?;
        for_each_page(offset, len_bytes as usize, |page, from, range| {
            self.discard_page(page, from, range.len());
        });
        Ok(())
    }

    fn describe(&self) -> String {
        format!(
            "memory of {} bytes, sector {}",
            self.geometry.len_bytes, self.geometry.sector_bytes
        )
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        let pages: usize = self.shards.iter().map(|shard| shard.read().len()).sum();
        Ok((pages * PAGE_BYTES) as u64)
    }

    fn io_kind(&self) -> IoKind {
        IoKind::Memory
    }
}

/// Cuts a request at page borders: calls `f(page, offset in page, range of the request)`.
fn for_each_page(offset: u64, len: usize, mut f: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let from = (at % PAGE_BYTES as u64) as usize;
        let step = (PAGE_BYTES - from).min(len - done);
        f(at / PAGE_BYTES as u64, from, done..done + step);
        done += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlignedBuf;

    #[test]
    fn it_is_sparse_zeroed_and_snapshots_are_independent() {
        let media = MemoryMedia::new(1 << 40, 512).unwrap();
        let mut buffer = AlignedBuf::new(128 << 10).unwrap();
        buffer.fill(7);
        media.write_at((1 << 30) - 512, &buffer).unwrap();
        assert_eq!(media.allocated_bytes().unwrap(), 3 * PAGE_BYTES as u64);
        let snapshot = media.clone();
        media.discard(1 << 30, 64 << 10).unwrap();
        assert_eq!(media.allocated_bytes().unwrap(), 2 * PAGE_BYTES as u64);
        let mut out = AlignedBuf::new(512).unwrap();
        media.read_at(1 << 30, &mut out).unwrap();
        assert!(out.iter().all(|&b| b == 0));
        snapshot.read_at(1 << 30, &mut out).unwrap();
        assert!(out.iter().all(|&b| b == 7));
    }

    #[test]
    fn arguments_are_checked() {
        let media = MemoryMedia::new(1 << 20, 4096).unwrap();
        let mut buffer = AlignedBuf::new(8192).unwrap();
        assert!(matches!(
            media.read_at(512, &mut buffer),
            Err(MediaError::Unaligned { .. })
        ));
        assert!(matches!(
            media.read_at(0, &mut buffer[..512]),
            Err(MediaError::Unaligned { .. })
        ));
        assert!(matches!(
            media.write_at(0, &buffer[512..4608]),
            Err(MediaError::Unaligned { .. })
        ));
        assert!(matches!(
            media.write_at((1 << 20) - 4096, &buffer),
            Err(MediaError::OutOfRange { .. })
        ));
        assert!(matches!(
            media.discard(1 << 63, 1 << 63),
            Err(MediaError::OutOfRange { .. })
        ));
        assert!(media.failure().is_none());
        assert!(MemoryMedia::new(1 << 20, 3000).is_err());
    }
}
