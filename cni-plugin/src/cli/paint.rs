//! Colours. They are in every table; whoever prints takes them out where nobody would see them.

use anstyle::{AnsiColor, Style};

fn painted(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// As it should be.
pub(super) fn good(text: &str) -> String {
    painted(AnsiColor::Green.on_default(), text)
}

/// To be mended.
pub(super) fn bad(text: &str) -> String {
    painted(AnsiColor::Red.on_default().bold(), text)
}

/// Good to know.
pub(super) fn notable(text: &str) -> String {
    painted(AnsiColor::Yellow.on_default(), text)
}

/// To be typed.
pub(super) fn command(text: &str) -> String {
    painted(Style::new().bold(), text)
}
