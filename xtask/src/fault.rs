//! A failure as the user meets it: one sentence, and the command that mends it.

use std::fmt;

/// What went wrong and what to type next.
#[derive(Debug)]
pub(crate) struct Fault {
    sentence: String,
    mend: String,
}

impl Fault {
    pub(crate) fn new(sentence: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), mend: mend.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}\n mend: {}", self.sentence, self.mend)
    }
}

impl std::error::Error for Fault {}
