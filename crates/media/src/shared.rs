//! A shared or boxed device is a device: a test keeps an `Arc` of the device that a store owns.
//!
//! No state of its own. Every method is forwarded, those with a default too.

use std::sync::Arc;

use crate::error::MediaError;
use crate::file::FileMedia;
use crate::{Geometry, IoKind, Media, Read};

macro_rules! forward_media {
    ($pointer:ident) => {
        impl<M: Media + ?Sized> Media for $pointer<M> {
            fn geometry(&self) -> Geometry {
                (**self).geometry()
            }
            fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
                (**self).read_at(offset, buf)
            }
            fn read_many(&self, reads: &mut [Read<'_>]) -> Result<(), MediaError> {
                (**self).read_many(reads)
            }
            fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
                (**self).write_at(offset, data)
            }
            fn sync(&self) -> Result<(), MediaError> {
                (**self).sync()
            }
            fn discard(&self, offset: u64, len_bytes: u64) -> Result<(), MediaError> {
                (**self).discard(offset, len_bytes)
            }
            fn prepare(&self, offset: u64, len_bytes: u64) -> Result<u64, MediaError> {
                (**self).prepare(offset, len_bytes)
            }
            fn describe(&self) -> String {
                (**self).describe()
            }
            fn clone_to(&self, offset: u64, len_bytes: u64, file: &std::fs::File, at: u64) -> bool {
                (**self).clone_to(offset, len_bytes, file, at)
            }
            fn allocated_bytes(&self) -> Result<u64, MediaError> {
                (**self).allocated_bytes()
            }
            fn failure(&self) -> Option<MediaError> {
                (**self).failure()
            }
            fn io_kind(&self) -> IoKind {
                (**self).io_kind()
            }
            fn as_file(&self) -> Option<&FileMedia> {
                (**self).as_file()
            }
        }
    };
}

forward_media!(Arc);
forward_media!(Box);
