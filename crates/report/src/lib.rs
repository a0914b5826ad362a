//! Reports of benchmark results: reads the rows that `heliox bench` and `bench-compare` write, and
//! makes tables for a terminal and a page of tables and plots for a browser.
//!
//! - [`Results`] is what one file holds; reading it is where bad input ends.
//! - [`Report`] puts one run or two in order; [`Report::text`] and [`Report::html`] show it.
//! - `case` and `run` put the rows in order, `device` is what was measured without an engine, `figure` says which figures there are, `table` and
//!   `compare` make tables of them, `trials` shows how rates were looked for, `growth` gathers what changes with the
//!   number of keys, `plots` chooses the charts, `chart` draws one, `page` writes the
//!   page.
//!
//! A page is one file without a script or a reference to anything outside of it. No I/O but
//! reading a file, no threads.
#![forbid(unsafe_code)]

mod aside;
mod case;
mod chart;
mod compare;
mod device;
mod error;
mod figure;
mod growth;
mod page;
mod plots;
mod report;
mod row;
mod run;
mod table;
mod trials;

pub use aside::Aside;
pub use error::ReportError;
pub use figure::{median, spread_percent};
pub use report::Report;
pub use row::Results;
pub use table::Table;
