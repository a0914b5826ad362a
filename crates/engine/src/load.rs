//! Loading the newest checkpoint: its chain of segments, its chunks in order, the accounts and the
//! index. Reads only; everything is verified before it is used.

use heliox_sync::mpsc;
use heliox_sync::thread;

use heliox_format::bytes::Reader;
use heliox_format::checkpoint::{
    chunk_seal, open_chunk, CheckpointMeta, ChunkHeader, ChunkKind, CHUNK_HEADER_BYTES,
};
use heliox_format::error::{DecodeError, KEY_FIELD};
use heliox_format::ids::{Birth, KeyspaceId, SegmentId, SeqNo};
use heliox_format::segment::SegmentKind;
use heliox_format::superblock::{CheckpointRoot, Superblock};
use heliox_index::{Index, IndexLoader, IndexOptions};
use heliox_log::cipher::Cipher;
use heliox_log::geometry::LogGeometry;
use heliox_log::scan::{read_segment_header, read_whole};
use heliox_media::{AlignedBuf, Media};

use crate::error::{Error, Result};
use crate::leaves::Leaves;

/// The order at which each leaf image was copied, by the leaf's first internal key.
#[derive(Default)]
pub(crate) struct CopyOrders {
    leaves: Leaves,
    orders: Vec<SeqNo>,
    /// The order of the copy made last.
    pub(crate) youngest: SeqNo,
}

impl CopyOrders {
    /// Of the orders of all leaves, and the lower fences of all but the first.
    fn new(fences: Vec<Vec<u8>>, orders: Vec<SeqNo>) -> CopyOrders {
        CopyOrders {
            leaves: Leaves::new(fences),
            youngest: orders.iter().copied().max().unwrap_or_default(),
            orders,
        }
    }

    /// True if the image already has the effect of the record.
    pub(crate) fn covers(&self, keyspace: KeyspaceId, key: &[u8], seq: SeqNo) -> bool {
        if seq > self.youngest {
            return false;
        }
        let leaf = self.leaves.of(keyspace, key) as usize;
        self.orders.get(leaf).is_some_and(|at| seq <= *at)
    }
}

/// What a checkpoint holds.
pub(crate) struct Loaded {
    pub(crate) meta: CheckpointMeta,
    pub(crate) index: Index,
    pub(crate) orders: CopyOrders,
    pub(crate) checkpoint_segments: Vec<(SegmentId, Birth)>,
    pub(crate) bytes_read: u64,
}

impl Loaded {
    /// A checkpoint's own segments are opened after its cut.
    pub(crate) fn next_birth(&self) -> Birth {
        let births = self
            .checkpoint_segments
            .iter()
            .map(|(_, birth)| Birth(birth.0 + 1));
        births.max().unwrap_or_default()
    }
}

/// Loads the checkpoint that the superblock names; an empty store if it names none. `ahead`: a
/// thread reads the next segment while this one takes the last one apart. `cipher`: of an encrypted
/// store.
pub(crate) fn load_checkpoint(
    media: &dyn Media,
    cipher: Option<&Cipher>,
    geometry: &LogGeometry,
    superblock: &Superblock,
    options: IndexOptions,
    ahead: bool,
) -> Result<Loaded> {
    let Some(root) = superblock.checkpoint else {
        let meta = CheckpointMeta {
            next_birth: Birth(1),
            ..CheckpointMeta::default()
        };
        return Ok(Loaded {
            meta,
            index: Index::new(options)?,
            orders: CopyOrders::default(),
            checkpoint_segments: Vec::new(),
            bytes_read: 0,
        });
    };
    let chain = checkpoint_chain(media, geometry, &root)?;
    let mut loading = Loading::new(root, options, cipher);
    if ahead {
        load_ahead(media, geometry, &chain, &mut loading)?;
    } else {
        let mut memory = None;
        for (id, _) in &chain {
            let filled = read_segment(media, geometry, *id, memory.take())?;
            loading.take_segment(geometry, *id, &filled)?;
            memory = Some(filled);
        }
    }
    loading.finish(chain)
}

/// Two segments are in memory at a time: one is read while the other is taken apart.
fn load_ahead(
    media: &dyn Media,
    geometry: &LogGeometry,
    chain: &[(SegmentId, Birth)],
    loading: &mut Loading<'_>,
) -> Result<()> {
    thread::scope(|scope| {
        let (give, filled) = mpsc::sync_channel(0);
        let (give_back, spare) = mpsc::channel();
        scope.spawn(move || {
            for (id, _) in chain {
                let read = read_segment(media, geometry, *id, spare.try_recv().ok());
                let is_last = read.is_err();
                if give.send(read).is_err() || is_last {
                    return;
                }
            }
        });
        for (id, _) in chain {
            let read = filled.recv();
            let memory =
                read.map_err(|_| Error::internal("a read of the checkpoint ended early"))??;
            loading.take_segment(geometry, *id, &memory)?;
            // Nobody takes it after the last read.
            let _ = give_back.send(memory);
        }
        Ok(())
    })
}

/// A checkpoint of which some chunks are loaded.
struct Loading<'c> {
    root: CheckpointRoot,
    cipher: Option<&'c Cipher>,
    meta_bytes: Vec<u8>,
    loader: IndexLoader,
    /// Lower fences of all leaves but the first.
    fences: Vec<Vec<u8>>,
    /// When each leaf was copied.
    orders: Vec<SeqNo>,
    /// Leaf images that are not whole yet.
    leaves: Vec<u8>,
    /// The number of the next chunk.
    number: u32,
    ended: bool,
    bytes_read: u64,
    /// Why the rest of the segment before was passed over.
    skipped: Option<DecodeError>,
}

impl Loading<'_> {
    fn new(root: CheckpointRoot, options: IndexOptions, cipher: Option<&Cipher>) -> Loading<'_> {
        Loading {
            root,
            cipher,
            meta_bytes: Vec::new(),
            loader: Index::loader(options),
            fences: Vec::new(),
            orders: Vec::new(),
            leaves: Vec::new(),
            number: 0,
            ended: false,
            bytes_read: 0,
            skipped: None,
        }
    }

    /// Loads the chunks of one segment.
    fn take_segment(&mut self, geometry: &LogGeometry, id: SegmentId, memory: &[u8]) -> Result<()> {
        self.bytes_read += memory.len() as u64;
        let mut at = geometry.sector_bytes;
        while !self.ended && at + CHUNK_HEADER_BYTES <= memory.len() {
            let address = geometry.start(id) + at as u64;
            let opened = open_chunk(geometry.salt, address, &memory[at..]);
            let (header, payload) = match opened {
                Ok(opened) if opened.0.checkpoint == self.root.number => opened,
                // The rest of a segment that had no room for the next chunk, unless one is missed.
                other if id != self.root.last_segment => {
                    self.skipped = other.err();
                    return Ok(());
                }
                Ok(_) => return Err(self.cut_short()),
                Err(error) => return Err(error.into()),
            };
            let whole = CHUNK_HEADER_BYTES + payload.len();
            let mut copy = Vec::new();
            let content = match (self.cipher, chunk_seal(&memory[at..])) {
                (None, None) => payload,
                (Some(cipher), Some(seal)) => {
                    copy.extend_from_slice(&memory[at..at + whole]);
                    cipher.open_chunk(address, seal, &mut copy)?
                }
                (cipher, seal) => return Err(unlike(address, cipher.is_some(), seal.is_some())),
            };
            self.take_chunk(&header, content, address)?;
            at += whole.next_multiple_of(geometry.sector_bytes);
        }
        Ok(())
    }

    fn take_chunk(&mut self, header: &ChunkHeader, payload: &[u8], address: u64) -> Result<()> {
        let skipped = self.skipped.take();
        if header.number != self.number {
            return Err(match skipped {
                Some(error) => error.into(),
                None => Error::damaged(format!(
                    "checkpoint {}: chunk {} expected at address {address:#x}, found {}",
                    self.root.number, self.number, header.number
                )),
            });
        }
        self.number += 1;
        match header.kind {
            ChunkKind::Meta => self.meta_bytes.extend_from_slice(payload),
            ChunkKind::Leaves => {
                self.leaves.extend_from_slice(payload);
                self.load_leaves()?;
            }
            ChunkKind::End => self.ended = true,
        }
        Ok(())
    }

    /// Loads all leaf images that are whole; what is left waits for the next chunk.
    fn load_leaves(&mut self) -> Result<()> {
        let mut reader = Reader::new(&self.leaves);
        let mut used = 0;
        while let (Some(at), Some(mut image)) = (reader.varint(), reader.prefixed()) {
            let fence = self
                .loader
                .push(&mut image)
                .map_err(|e| Error::damaged(format!("a leaf image of the index: {e}")))?;
            if !self.orders.is_empty() {
                self.fences.push(fence);
            }
            self.orders.push(SeqNo(at));
            used = self.leaves.len() - reader.rest().len();
        }
        self.leaves.drain(..used);
        Ok(())
    }

    fn cut_short(&self) -> Error {
        Error::damaged(format!(
            "checkpoint {} ends before its end",
            self.root.number
        ))
    }

    fn finish(self, chain: Vec<(SegmentId, Birth)>) -> Result<Loaded> {
        if !self.ended || !self.leaves.is_empty() {
            return Err(self.cut_short());
        }
        let meta = CheckpointMeta::decode(&self.meta_bytes)?;
        let index = self.loader.finish();
        let index = index.map_err(|e| Error::damaged(format!("the index image: {e}")))?;
        Ok(Loaded {
            meta,
            index,
            orders: CopyOrders::new(self.fences, self.orders),
            checkpoint_segments: chain,
            bytes_read: self.bytes_read,
        })
    }
}

/// A chunk that is encrypted in a store that is not, or the other way round.
fn unlike(address: u64, expected: bool, found: bool) -> Error {
    let (expected, found) = (u64::from(expected), u64::from(found));
    DecodeError::new("checkpoint chunk", address, KEY_FIELD, expected, found).into()
}

/// The checkpoint's segments in order, found backwards from the last.
fn checkpoint_chain(
    media: &dyn Media,
    geometry: &LogGeometry,
    root: &CheckpointRoot,
) -> Result<Vec<(SegmentId, Birth)>> {
    let mut chain = Vec::new();
    let mut next = Some(root.last_segment);
    while let Some(id) = next {
        let missing = || {
            let place = geometry.start(id);
            Error::damaged(format!(
                "checkpoint {}: no header of it at address {place:#x} (segment {})",
                root.number, id.0
            ))
        };
        if id.0 >= geometry.segments || chain.len() >= root.segments as usize {
            return Err(missing());
        }
        let header = read_segment_header(media, geometry, id)?.ok_or_else(missing)?;
        if header.kind != SegmentKind::Checkpoint || header.checkpoint != root.number {
            return Err(missing());
        }
        chain.push((id, header.birth));
        next = header.previous;
    }
    if chain.len() != root.segments as usize {
        return Err(Error::damaged(format!(
            "checkpoint {}: {} segments expected, found {}",
            root.number,
            root.segments,
            chain.len()
        )));
    }
    chain.reverse();
    Ok(chain)
}

/// Reads a segment, into memory of an earlier one if there is some.
fn read_segment(
    media: &dyn Media,
    geometry: &LogGeometry,
    id: SegmentId,
    spare: Option<AlignedBuf>,
) -> Result<AlignedBuf> {
    let mut memory = match spare {
        Some(spare) => spare,
        None => AlignedBuf::for_read(geometry.segment_bytes as usize)?,
    };
    read_whole(media, geometry.start(id), &mut memory)?;
    Ok(memory)
}
