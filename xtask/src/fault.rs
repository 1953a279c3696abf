//! A failure as the user meets it: one sentence, and the command that mends it.

use std::fmt;

/// What went wrong, as a sentence, and what to type next.
#[derive(Debug)]
pub(crate) struct Fault {
    sentence: String,
    pub(crate) mend: String,
}

impl Fault {
    pub(crate) fn new(sentence: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), mend: mend.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.sentence)
    }
}

impl std::error::Error for Fault {}
