//! Samples, and what they say together.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::statistics::{quantile, sorted};
use super::variant::Variant;
use super::workload::Workload;

/// One measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sample {
    /// In the workload's unit.
    pub(super) value: f64,
    /// Units of work that were done, those before the clock started as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) work: Option<f64>,
    /// CPU time of the whole machine for one unit of work, in us.
    #[serde(rename = "cpuMicros", skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<f64>,
    /// TCP segments sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retransmits: Option<u64>,
    /// Datagrams that did not arrive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lost: Option<u64>,
    /// The part of the packets that our programs carried, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fast_share: Option<f64>,
}

impl Sample {
    pub(super) fn of(value: f64) -> Self {
        Self { value, ..Self::default() }
    }

    /// So many units of work in a time, after others that count for nothing but the CPU time they took.
    pub(super) fn rate(work: u64, elapsed: Duration, before: u64) -> Self {
        Self { work: Some((work + before) as f64), ..Self::of(work as f64 / elapsed.as_secs_f64()) }
    }
}

/// All samples of one workload with one variant.
pub(super) struct Series {
    pub(super) workload: Workload,
    pub(super) variant: Variant,
    pub(super) samples: Vec<Sample>,
}

/// Everything measured.
#[derive(Default)]
pub(super) struct Results {
    pub(super) series: Vec<Series>,
}

impl Results {
    pub(super) fn push(&mut self, workload: Workload, variant: Variant, sample: Sample) {
        let known = self.series.iter_mut().find(|s| s.workload == workload && s.variant == variant);
        match known {
            Some(series) => series.samples.push(sample),
            None => self.series.push(Series { workload, variant, samples: vec![sample] }),
        }
    }

    pub(super) fn of(&self, workload: Workload, variant: Variant) -> Option<&Series> {
        self.series.iter().find(|s| s.workload == workload && s.variant == variant)
    }

    /// How many times better one variant is than another: the median of what it is in each round. A machine that others
    /// use, too, is not as fast in one round as in the next, which a ratio of medians would take for a difference.
    pub(super) fn ratio(&self, workload: Workload, variant: Variant, against: Variant) -> Option<f64> {
        Some(quantile(&self.ratios(workload, variant, against)?, 0.5))
    }

    /// The same for each round, from the worst to the best.
    pub(super) fn ratios(&self, workload: Workload, variant: Variant, against: Variant) -> Option<Vec<f64>> {
        let (ours, theirs) = (self.of(workload, variant)?, self.of(workload, against)?);
        let rounds = ours.samples.iter().zip(&theirs.samples).map(|(ours, theirs)| {
            let (ours, theirs) = (ours.value, theirs.value);
            if workload.more_is_better() { ours / theirs } else { theirs / ours }
        });
        Some(sorted(rounds))
    }

    /// As an array of the results file.
    pub(super) fn json(&self) -> Value {
        self.series.iter().map(Series::json).collect()
    }

    /// From such an array.
    pub(super) fn from_json(array: &Value) -> Result<Self> {
        let series = array.as_array().context("results are no array")?.iter().map(Series::from_json);
        Ok(Self { series: series.collect::<Result<_>>()? })
    }
}

impl Series {
    pub(super) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Of the values: 0 is the smallest, 1 the largest.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        quantile(&sorted(self.samples.iter().map(|sample| sample.value)), part)
    }

    /// The median of something not every sample has.
    pub(super) fn median_of(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let values = sorted(self.samples.iter().filter_map(of));
        (!values.is_empty()).then(|| quantile(&values, 0.5))
    }

    /// The sum of something not every sample has.
    pub(super) fn sum_of(&self, of: impl Fn(&Sample) -> Option<u64>) -> Option<u64> {
        let values: Vec<u64> = self.samples.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    fn json(&self) -> Value {
        json!({
            "workload": self.workload.name(),
            "variant": self.variant.name(),
            "unit": self.workload.unit(),
            "moreIsBetter": self.workload.more_is_better(),
            "median": self.median(),
            "min": self.quantile(0.0),
            "max": self.quantile(1.0),
            "quartiles": [self.quantile(0.25), self.quantile(0.75)],
            "samples": self.samples,
        })
    }

    fn from_json(value: &Value) -> Result<Self> {
        let (workload, variant) = (&value["workload"], &value["variant"]);
        let samples: Vec<Sample> = serde_json::from_value(value["samples"].clone())
            .with_context(|| format!("samples of {workload} with {variant}"))?;
        anyhow::ensure!(!samples.is_empty(), "no samples of {workload} with {variant}");
        Ok(Self {
            workload: Workload::all()
                .into_iter()
                .find(|known| known.name() == *workload)
                .with_context(|| format!("no workload {workload}"))?,
            variant: Variant::ALL
                .into_iter()
                .find(|known| known.name() == *variant)
                .with_context(|| format!("no variant {variant}"))?,
            samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Results, Sample};
    use crate::bench::variant::Variant::{Accelerated, Reference};
    use crate::bench::workload::{Figure, Workload};

    fn three(workload: Workload) -> Results {
        let mut results = Results::default();
        for (ours, theirs) in [(30.0, 60.0), (10.0, 40.0), (20.0, 50.0)] {
            results.push(workload, Accelerated, Sample { retransmits: Some(2), ..Sample::of(ours) });
            results.push(workload, Reference, Sample::of(theirs));
        }
        results
    }

    #[test]
    fn a_ratio_above_one_is_in_our_favour_whatever_the_unit() {
        let [memory, first] = [Workload::Execution(Figure::Memory), Workload::all()[0]];
        assert_eq!(three(memory).ratio(memory, Accelerated, Reference), Some(2.5));
        assert_eq!(three(first).ratio(first, Accelerated, Reference), Some(0.4));
    }

    #[test]
    fn a_machine_that_changes_its_speed_between_rounds_changes_no_ratio() {
        let workload = Workload::all()[0];
        let mut results = Results::default();
        for (ours, theirs) in [(10.0, 20.0), (40.0, 80.0), (30.0, 30.0)] {
            results.push(workload, Accelerated, Sample::of(ours));
            results.push(workload, Reference, Sample::of(theirs));
        }
        assert_eq!(results.ratio(workload, Accelerated, Reference), Some(0.5));
    }

    #[test]
    fn what_was_written_is_read_again() {
        let results = three(Workload::Stall);
        let text = results.json().to_string();
        let again = Results::from_json(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(again.json(), results.json());
        let ours = again.of(Workload::Stall, Accelerated).unwrap();
        assert_eq!((ours.median(), ours.quantile(0.0), ours.quantile(1.0)), (20.0, 10.0, 30.0));
        assert_eq!(ours.sum_of(|sample| sample.retransmits), Some(6));
        assert_eq!(ours.sum_of(|sample| sample.lost), None);
    }
}
