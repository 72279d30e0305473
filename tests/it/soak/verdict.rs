//! Whether memory and latency grow: the least-squares slopes of a long soak, and their limits.

use std::time::Duration;

use super::{line::through, look::Sample};

/// The largest growth per hour, as a part of the mean.
const LIMIT: f64 = 0.10;

/// Growth per hour as a part of the mean. `None` if there are too few samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Verdict {
    pub(super) resident: Option<f64>,
    pub(super) latency: Option<f64>,
    /// In a short soak the slopes mean nothing.
    judged: bool,
}

impl Verdict {
    pub(super) fn holds(&self) -> bool {
        let within = |slope: Option<f64>| slope.is_some_and(|slope| slope <= LIMIT);
        !self.judged || (within(self.resident) && within(self.latency))
    }
}

pub(super) fn of(samples: &[Sample], warm_up: &Duration, judged: bool) -> Verdict {
    let warm = warm_up.as_secs_f64();
    let old: Vec<&Sample> = samples.iter().filter(|sample| sample.at >= warm && sample.age >= warm).collect();
    let resident: Vec<_> = old.iter().map(|sample| (sample.at, sample.resident as f64)).collect();
    let latency: Vec<_> = old.iter().filter_map(|sample| Some((sample.at, sample.p50?))).collect();
    Verdict { resident: per_hour(&resident), latency: per_hour(&latency), judged }
}

fn per_hour(points: &[(f64, f64)]) -> Option<f64> {
    let mean = points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
    through(points).map(|line| line.slope * 3600.0 / mean)
}

#[test]
fn growth_is_judged_after_the_warm_up() {
    let sample = |at: u32, age: u32, resident: u64, p50| Sample {
        at: at.into(),
        age: age.into(),
        resident,
        p50: Some(p50),
        ..Sample::default()
    };
    let warm_up = Duration::from_secs(60);
    // A process that fills its caches, is killed after ten minutes, and fills them again.
    let caches = |at: u32| if at % 600 < 60 { 10_000_000 } else { 50_000_000 };
    let flat: Vec<_> = (0..1440).map(|n| sample(n * 5, n * 5 % 600, caches(n * 5), 20.0)).collect();
    assert_eq!(of(&flat, &warm_up, true), Verdict { resident: Some(0.0), latency: Some(0.0), judged: true });
    let growing: Vec<_> = (0..1440).map(|n| sample(n * 5, 100, 50_000_000 + u64::from(n) * 50_000, 20.0)).collect();
    let grows = of(&growing, &warm_up, true);
    assert!(!grows.holds() && of(&growing, &warm_up, false).holds(), "{grows:?}");
    assert!(!of(&[], &warm_up, true).holds());
}
