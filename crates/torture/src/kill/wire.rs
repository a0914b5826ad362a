//! What a child tells its parent through the pipe: one tag byte and fixed fields, little-endian.
//!
//! An acknowledgement is one write of less than a page, so the pipe takes it whole or not at all,
//! and what the pipe took survives its writer. A record cut off at the end is left out.

use std::io::{self, Read, Write};

const ACKNOWLEDGED: u8 = b'A';
const HELD: u8 = b'D';
const READY: u8 = b'R';
const FIGURES: u8 = b'F';
const COMPLAINT: u8 = b'E';

/// One thing that a child tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// The store holds this.
    Held {
        keyspace: u8,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// That was all; the load begins.
    Ready,
    /// An operation returned.
    Acknowledged {
        thread: u16,
        number: u64,
        issued_ns: u64,
        acknowledged_ns: u64,
    },
    /// Segments collected and checkpoints written in this life so far.
    Figures { collected: u64, checkpoints: u64 },
    /// Something is wrong, and the child ends.
    Complaint(String),
}

/// Tells one thing, in one write.
pub(crate) fn tell(mut to: impl Write, told: &Told) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(32);
    match told {
        Told::Held {
            keyspace,
            key,
            value,
        } => {
            bytes.extend([HELD, *keyspace]);
            bytes.extend((key.len() as u32).to_le_bytes());
            bytes.extend((value.len() as u32).to_le_bytes());
            bytes.extend(key);
            bytes.extend(value);
        }
        Told::Ready => bytes.push(READY),
        Told::Acknowledged {
            thread,
            number,
            issued_ns,
            acknowledged_ns,
        } => {
            bytes.push(ACKNOWLEDGED);
            bytes.extend(thread.to_le_bytes());
            for field in [number, issued_ns, acknowledged_ns] {
                bytes.extend(field.to_le_bytes());
            }
        }
        Told::Figures {
            collected,
            checkpoints,
        } => {
            bytes.push(FIGURES);
            bytes.extend(collected.to_le_bytes());
            bytes.extend(checkpoints.to_le_bytes());
        }
        Told::Complaint(words) => {
            bytes.push(COMPLAINT);
            bytes.extend((words.len() as u32).to_le_bytes());
            bytes.extend(words.as_bytes());
        }
    }
    to.write_all(&bytes)
}

/// The next thing told; none at the end, also in the middle of something.
pub(crate) fn hear(from: &mut impl Read) -> io::Result<Option<Told>> {
    match hear_whole(from) {
        Ok(told) => Ok(Some(told)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn hear_whole(from: &mut impl Read) -> io::Result<Told> {
    let [tag] = array(from)?;
    Ok(match tag {
        HELD => {
            let [keyspace] = array(from)?;
            let key_len = u32::from_le_bytes(array(from)?);
            let value_len = u32::from_le_bytes(array(from)?);
            let (key, value) = (bytes(from, key_len)?, bytes(from, value_len)?);
            Told::Held {
                keyspace,
                key,
                value,
            }
        }
        READY => Told::Ready,
        ACKNOWLEDGED => Told::Acknowledged {
            thread: u16::from_le_bytes(array(from)?),
            number: u64::from_le_bytes(array(from)?),
            issued_ns: u64::from_le_bytes(array(from)?),
            acknowledged_ns: u64::from_le_bytes(array(from)?),
        },
        FIGURES => Told::Figures {
            collected: u64::from_le_bytes(array(from)?),
            checkpoints: u64::from_le_bytes(array(from)?),
        },
        COMPLAINT => {
            let len = u32::from_le_bytes(array(from)?);
            Told::Complaint(String::from_utf8_lossy(&bytes(from, len)?).into_owned())
        }
        other => {
            return Err(io::Error::other(format!(
                "the child told {other}, which means nothing"
            )))
        }
    })
}

fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn bytes(from: &mut impl Read, len: u32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_heard_and_what_is_cut_off_is_not() {
        let all = [
            Told::Held {
                keyspace: 1,
                key: b"k".to_vec(),
                value: vec![7; 300],
            },
            Told::Ready,
            Told::Acknowledged {
                thread: 3,
                number: 1 << 40,
                issued_ns: 5,
                acknowledged_ns: 6,
            },
            Told::Figures {
                collected: 1,
                checkpoints: 2,
            },
            Told::Complaint("no".to_owned()),
        ];
        let mut pipe = Vec::new();
        all.iter().for_each(|told| tell(&mut pipe, told).unwrap());
        for cut in [pipe.len(), pipe.len() - 1] {
            let mut from = &pipe[..cut];
            let heard: Vec<Told> = std::iter::from_fn(|| hear(&mut from).unwrap()).collect();
            let whole = if cut == pipe.len() { 5 } else { 4 };
            assert_eq!(heard, all[..whole]);
        }
    }
}
