//! What a check is, and what it may find.

use serde_json::{Value, json};

use crate::cli::node::Node;

/// One check: looks at one thing of the node, judges what it saw, and knows what mends it.
pub(in crate::cli) struct Check {
    /// What it is about; `status` has one line for each area.
    pub(in crate::cli) area: &'static str,
    /// Its name, for scripts.
    pub(in crate::cli) name: &'static str,
    /// Looks and judges. An error means that it could not be looked at.
    pub(in crate::cli) examine: fn(&Node) -> anyhow::Result<Vec<Verdict>>,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Verdict {
    /// As it should be.
    Fine(String),
    /// Good to know; nothing to mend.
    Note(String),
    /// Wrong, with the command that mends it.
    Wrong { what: String, fix: String },
    /// It cannot be told, mostly for want of privileges.
    Unknown(String),
}

impl Verdict {
    pub(in crate::cli) fn fine(what: impl Into<String>) -> Vec<Self> {
        vec![Self::Fine(what.into())]
    }

    pub(in crate::cli) fn note(what: impl Into<String>) -> Vec<Self> {
        vec![Self::Note(what.into())]
    }

    pub(in crate::cli) fn wrong(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Wrong { what: what.into(), fix: fix.into() }
    }

    /// What was found, without its fix.
    pub(in crate::cli) fn text(&self) -> &str {
        match self {
            Self::Fine(what) | Self::Note(what) | Self::Wrong { what, .. } | Self::Unknown(what) => what,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Fine(_) => "fine",
            Self::Note(_) => "note",
            Self::Wrong { .. } => "wrong",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// A verdict, and of which check it is.
pub(in crate::cli) struct Finding {
    pub(in crate::cli) check: &'static Check,
    pub(in crate::cli) verdict: Verdict,
}

impl Finding {
    /// True if there is something to mend.
    pub(in crate::cli) fn is_wrong(&self) -> bool {
        matches!(self.verdict, Verdict::Wrong { .. })
    }

    /// The command that mends it.
    pub(in crate::cli) fn fix(&self) -> Option<&str> {
        match &self.verdict {
            Verdict::Wrong { fix, .. } => Some(fix),
            _ => None,
        }
    }

    pub(in crate::cli) fn document(&self) -> Value {
        json!({
            "area": self.check.area, "check": self.check.name, "verdict": self.verdict.word(),
            "text": self.verdict.text(), "fix": self.fix(),
        })
    }
}

/// Runs checks, and finds out what each of them found.
pub(in crate::cli) fn examine(checks: impl Iterator<Item = &'static Check>, node: &Node) -> Vec<Finding> {
    let run = |check: &'static Check| {
        let verdicts =
            (check.examine)(node).unwrap_or_else(|error| vec![Verdict::Unknown(format!("{error:#}"))]);
        verdicts.into_iter().map(move |verdict| Finding { check, verdict })
    };
    checks.flat_map(run).collect()
}
