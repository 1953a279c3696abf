//! What a run leaves in a directory.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::profile::Row;
use super::results::Results;
use super::{chart, report, targets};

/// The layout of the results file. It grows by one when a reader of the last one would misunderstand it.
pub(super) const SCHEMA_VERSION: u64 = 1;
const RESULTS: &str = "results.json";
const REPORT: &str = "report.md";

/// A run, measured or read.
pub(super) struct Outcome {
    /// Machine, kernel, versions and plan, as they are in the results file.
    pub(super) about: Value,
    pub(super) results: Results,
    pub(super) profile: Vec<Row>,
}

impl Outcome {
    /// What an earlier run left.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(RESULTS);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let mut about: Value =
            serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        let version = &about["schemaVersion"];
        ensure!(*version == SCHEMA_VERSION, "schemaVersion {version} of {} is not known", path.display());
        let results = Results::from_json(&about["results"])?;
        let profile = serde_json::from_value(about["profile"].take()).context("reading the profile")?;
        Ok(Self { about, results, profile })
    }

    /// Results, report and charts.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
        let mut file = self.about.clone();
        file["results"] = self.results.json();
        file["targets"] = targets::json(&self.results);
        file["profile"] = serde_json::to_value(&self.profile)?;
        write(&directory.join(RESULTS), &format!("{file:#}\n"))?;
        chart::draw(directory, &self.results)?;
        write(&directory.join(REPORT), &report::markdown(self, ""))
    }
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
