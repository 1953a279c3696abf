//! The few statistics there are.

pub(super) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Linear between the two nearest values (Hyndman and Fan, 1996, type 7); `values` sorted and not empty.
pub(super) fn quantile(values: &[f64], part: f64) -> f64 {
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
        assert_eq!(median([7.0].into_iter()), 7.0);
    }

    /// What R says: `quantile(c(1, 2, 4, 8), c(0, .25, .5, .75, 1))`.
    #[test]
    fn quartiles_are_those_of_other_tools() {
        let quartiles = [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| quantile(&[1.0, 2.0, 4.0, 8.0], part));
        assert_eq!(quartiles, [1.0, 1.75, 3.0, 5.0, 8.0]);
    }
}
