//! One line that says how far it is.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// On a terminal a line that is written over; elsewhere a line for each round.
pub(super) struct Progress {
    terminal: bool,
    start: Instant,
    done: usize,
    all: usize,
}

impl Progress {
    pub(super) fn new(all: usize) -> Self {
        Self { terminal: io::stderr().is_terminal(), start: Instant::now(), done: 0, all }
    }

    /// Before what takes a while to set up.
    pub(super) fn stage(&self, title: &str) {
        if self.terminal {
            self.print(&format!("\r\x1b[Ksetting up {title}"));
        } else {
            eprintln!("setting up {title}");
        }
    }

    pub(super) fn round(&self, round: u32, rounds: u32) {
        if !self.terminal {
            eprintln!("round {} of {rounds}, {} of {} samples", round + 1, self.done, self.all);
        }
    }

    /// Before a sample.
    pub(super) fn sample(&mut self, what: &str) {
        if self.terminal {
            let filled = 20 * self.done / self.all;
            let bar = format!("{}{}", "#".repeat(filled), ".".repeat(20 - filled));
            let left = self.left().map_or(String::new(), |left| format!(", {} s left", left.as_secs()));
            self.print(&format!("\r\x1b[K[{bar}] {}/{}{left}  {what}", self.done, self.all));
        }
        self.done += 1;
    }

    pub(super) fn end(&self) {
        if self.terminal {
            self.print("\r\x1b[K");
        }
    }

    fn left(&self) -> Option<Duration> {
        let done = u32::try_from(self.done).ok().filter(|&done| done > 0)?;
        Some(self.start.elapsed() / done * u32::try_from(self.all - self.done).ok()?)
    }

    /// A terminal that has gone away is no reason to stop.
    fn print(&self, text: &str) {
        let mut stderr = io::stderr();
        drop(write!(stderr, "{text}").and_then(|()| stderr.flush()));
    }
}
