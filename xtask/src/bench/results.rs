//! Samples, and what they say together.

use serde_json::{Value, json};

use super::variant::Variant;
use super::workload::Workload;

/// One measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// In the workload's unit.
    pub(super) value: f64,
    /// CPU time of the whole machine for one unit of work, in us.
    pub(super) cpu: Option<f64>,
    /// TCP segments sent again.
    pub(super) retransmits: Option<u64>,
    /// Datagrams that did not arrive.
    pub(super) lost: Option<u64>,
    /// The part of the packets that our programs carried, 0 to 1.
    pub(super) fast_share: Option<f64>,
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

    /// How many times better one variant is than another, by their medians.
    pub(super) fn ratio(&self, workload: Workload, variant: Variant, against: Variant) -> Option<f64> {
        let (ours, theirs) = (self.of(workload, variant)?.median(), self.of(workload, against)?.median());
        Some(if workload.more_is_better() { ours / theirs } else { theirs / ours })
    }

    /// As an array of the results file.
    pub(super) fn json(&self) -> Value {
        self.series.iter().map(Series::json).collect()
    }
}

impl Series {
    pub(super) fn median(&self) -> f64 {
        quantile(&self.values(), 0.5)
    }

    /// The smallest and the largest value.
    pub(super) fn range(&self) -> (f64, f64) {
        let values = self.values();
        (quantile(&values, 0.0), quantile(&values, 1.0))
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

    fn values(&self) -> Vec<f64> {
        sorted(self.samples.iter().map(|sample| sample.value))
    }

    fn json(&self) -> Value {
        let values = self.values();
        json!({
            "workload": self.workload.name(),
            "variant": self.variant.name(),
            "unit": self.workload.unit(),
            "moreIsBetter": self.workload.more_is_better(),
            "samples": self.samples.iter().map(|sample| sample.value).collect::<Vec<_>>(),
            "median": quantile(&values, 0.5),
            "min": quantile(&values, 0.0),
            "max": quantile(&values, 1.0),
            "quartiles": [quantile(&values, 0.25), quantile(&values, 0.75)],
            "cpuMicrosPerUnit": self.median_of(|sample| sample.cpu),
            "retransmits": self.sum_of(|sample| sample.retransmits),
            "lost": self.sum_of(|sample| sample.lost),
            "fastShare": self.median_of(|sample| sample.fast_share),
        })
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Linear between the two nearest values (Hyndman and Fan, 1996, type 7); `values` sorted and not empty.
fn quantile(values: &[f64], part: f64) -> f64 {
    let place = part * (values.len() - 1) as f64;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

/// The median of times and the like, of which there is one at least.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(&sorted(values), 0.5)
}

#[cfg(test)]
mod tests {
    use super::{median, quantile};

    #[test]
    fn the_middle_of_a_few() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.25), 2.0);
        assert_eq!(quantile(&[7.0], 1.0), 7.0);
    }
}
