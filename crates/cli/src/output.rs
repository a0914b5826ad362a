//! The standard output, and progress bars. A closed pipe becomes a failure that ends the command
//! quietly.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::exit::Failure;

/// Bytes gathered before a write.
const BUFFER_BYTES: usize = 64 << 10;
const TICK: Duration = Duration::from_millis(200);

/// The standard output, buffered; [`Output::finish`] writes out what is left.
pub(crate) struct Output(BufWriter<StdoutLock<'static>>);

impl Output {
    /// Locks the standard output.
    pub(crate) fn new() -> Output {
        Output(BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock()))
    }

    /// Writes bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.0.write_all(bytes).map_err(Failure::Output)
    }

    /// Writes a text and a newline.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.write(text.as_bytes())?;
        self.write(b"\n")
    }

    /// Writes the problems that a check listed, and the verdict; it found `count` in all.
    pub(crate) fn findings(&mut self, listed: &[String], count: u64) -> Result<(), Failure> {
        for problem in listed {
            self.line(problem)?;
        }
        let unlisted = count.saturating_sub(listed.len() as u64);
        if unlisted > 0 {
            self.line(&format!("... and {unlisted} more"))?;
        }
        self.line(&match count {
            0 => "no damage found".to_owned(),
            count => format!("DAMAGE FOUND: {count} problems"),
        })
    }

    /// Writes out what is left.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.0.flush().map_err(Failure::Output)
    }
}

/// Prints one line.
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    let mut output = Output::new();
    output.line(text)?;
    output.finish()
}

/// A bar over a number of bytes, or a counter where the end is unknown. Seen on terminals only.
pub(crate) fn byte_bar(total_bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match total_bytes {
        Some(total) => {
            let template = "{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {msg}";
            (ProgressBar::new(total), template)
        }
        None => {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(TICK);
            (bar, "{spinner} {bytes} {binary_bytes_per_sec} {msg}")
        }
    };
    styled(bar, template)
}

/// A line of text that is replaced in place. Seen on terminals only.
pub(crate) fn live_line() -> ProgressBar {
    styled(ProgressBar::new_spinner(), "{spinner} {msg}")
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
