//! Numbers out of samples: percentiles, medians and the windows they are taken over.

use std::ops::Range;

/// The nearest-rank percentile: a value that was really measured. `None` without samples.
pub(super) fn percentile(samples: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

pub(super) fn median(samples: &[f64]) -> Option<f64> {
    percentile(samples, 50.0)
}

/// The positions around `at`, as far as there are any.
pub(super) fn window(at: usize, reach: usize, len: usize) -> Range<usize> {
    at.saturating_sub(reach).min(len)..(at + reach + 1).min(len)
}

/// Three decimals: more would be noise.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// How much of `total` falls on each of `count`.
pub(super) fn each(total: u64, count: u64) -> f64 {
    rounded(total as f64 / count.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let found = [0.0, 1.0, 50.0, 99.0, 100.0].map(|percent| percentile(&samples, percent));
        assert_eq!(found, [1.0, 2.0, 100.0, 198.0, 200.0].map(Some));
        assert_eq!(median(&[3.0, 1.0]), Some(1.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn windows_end_where_the_samples_do() {
        assert_eq!([window(10, 3, 100), window(1, 3, 100), window(99, 3, 100)], [7..14, 0..5, 96..100]);
        assert_eq!(window(50, 3, 10), 10..10);
    }

    #[test]
    fn shares_survive_an_empty_count() {
        assert_eq!([each(10, 4), each(1, 3), each(7, 0)], [2.5, 0.333, 7.0]);
    }
}
