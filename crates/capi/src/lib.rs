//! The C interface of Heliox: the functions of `include/heliox.h`, which is the contract, over the
//! public interface of the engine and nothing below it.
//!
//! A function takes its arguments as types of [`border`] and of this crate whose layout is that of
//! the header's, checks them, calls the engine, and turns what comes back into codes, errors and memory
//! that the caller frees. It keeps no state of its own. The tests of `header` compare all
//! signatures, structs and enums with the header.
//!
//! Invariants: no panic crosses the border ([`error::answer`], [`error::quiet`]); `unsafe` stands in
//! [`border`] and [`layout`] alone. Threads: as the header says, which is as the engine does.
// An exported name counts as unsafe code: two of one name would be undefined. All of ours begin with
// `heliox_`, and the linker refuses doubles.
#![allow(unsafe_code)]

mod backup;
mod batch;
mod border;
mod error;
mod failure;
mod handles;
#[cfg(test)]
mod header;
mod iterator;
mod keyspace;
mod layout;
mod options;
mod report;
mod stats;
mod store;
mod value;
