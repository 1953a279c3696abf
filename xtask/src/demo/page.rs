//! The demo's page on a terminal, or in a file.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

const BOLD: &str = "1";
const GREEN: &str = "32";
const RED: &str = "31";

/// Prints as it goes, and remembers whether anything expected did not come true.
pub(super) struct Page {
    colour: bool,
    failed: usize,
}

impl Page {
    /// Coloured on a terminal, unless `NO_COLOR` is set (no-color.org).
    pub(super) fn new() -> Self {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: io::stdout().is_terminal() && !refused, failed: 0 }
    }

    pub(super) fn heading(&mut self, text: &str) {
        self.print(format_args!("\n{}", self.painted(BOLD, text)));
    }

    pub(super) fn line(&mut self, text: &str) {
        self.print(format_args!("{}", format!("  {text}").trim_end()));
    }

    /// A line that is either as it should be or not.
    pub(super) fn verdict(&mut self, good: bool, text: &str) {
        let mark = if good { self.painted(GREEN, "ok") } else { self.painted(RED, "NO") };
        self.print(format_args!("  {mark} {text}"));
        self.failed += usize::from(!good);
    }

    /// The last line, and what it means for the exit code.
    pub(super) fn conclude(mut self, elapsed: Duration) -> ExitCode {
        let seconds = elapsed.as_secs_f64();
        if self.failed == 0 {
            self.heading(&format!("All of it came true, in {seconds:.1} s."));
            return ExitCode::SUCCESS;
        }
        self.heading(&format!("{} of it did not come true: see the lines marked NO.", self.failed));
        ExitCode::FAILURE
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.into() }
    }

    /// A reader that has gone away is no reason to stop: the verdict is in the exit code.
    fn print(&self, text: fmt::Arguments<'_>) {
        drop(writeln!(io::stdout(), "{text}"));
    }
}

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_stand_apart() {
        let shown = [0, 999, 1000, 104_857_600].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "104,857,600"]);
    }
}
