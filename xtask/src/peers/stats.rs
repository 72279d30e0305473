//! Medians and percentiles of samples.

/// The nearest-rank percentile: a value that was measured. `None` without samples.
pub(super) fn percentile(samples: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

pub(super) fn median(samples: &[f64]) -> Option<f64> {
    percentile(samples, 50.0)
}

/// The smallest and the largest sample.
pub(super) fn spread(samples: &[f64]) -> Option<(f64, f64)> {
    Some((percentile(samples, 0.0)?, percentile(samples, 100.0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples = [3.0, 1.0, 2.0];
        assert_eq!((median(&samples), spread(&samples)), (Some(2.0), Some((1.0, 3.0))));
        assert_eq!((median(&[]), spread(&[])), (None, None));
        let many: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&many, 99.0), Some(99.0));
    }
}
