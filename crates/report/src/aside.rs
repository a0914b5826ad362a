//! What a program adds to a report. Plain data, no threads.

use crate::table::Table;

/// What a program has to say of a run beside its rows: tables and remarks of its own.
#[derive(Clone, Debug, Default)]
pub struct Aside {
    /// What stands above it on a page.
    pub title: String,
    /// Its tables, in order.
    pub tables: Vec<Table>,
    /// What is to be known about them, in order.
    pub notes: Vec<String>,
}
