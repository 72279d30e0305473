//! Least squares and percentiles.

/// A line through points: its height at zero and its slope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    pub(super) height: f64,
    pub(super) slope: f64,
}

/// The least-squares line. `None` for fewer than two positions.
pub(super) fn through(points: &[(f64, f64)]) -> Option<Line> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    if points.is_empty() || spread == 0.0 {
        return None;
    }
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
    Some(Line { height: y - slope * x, slope })
}

/// The nearest-rank percentile: a value that was measured.
pub(super) fn percentile(samples: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[test]
fn a_line_goes_through_points_that_are_on_it_and_between_others() {
    assert_eq!(through(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]), Some(Line { height: 1.0, slope: 2.0 }));
    assert_eq!(through(&[(0.0, 0.0), (1.0, 2.0), (2.0, 0.0), (3.0, 2.0)]).map(|line| line.slope), Some(0.4));
    assert_eq!((through(&[]), through(&[(1.0, 1.0)]), through(&[(1.0, 1.0), (1.0, 2.0)])), (None, None, None));
}

#[test]
fn percentiles_are_samples() {
    let samples: Vec<f64> = (1..=100).map(f64::from).collect();
    assert_eq!([50.0, 99.0].map(|percent| percentile(&samples, percent)), [Some(50.0), Some(99.0)]);
    assert_eq!(percentile(&[], 50.0), None);
}
