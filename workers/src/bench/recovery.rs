//! `recovery`: the process is killed during runs and started again; the outcome of the runs and their calls.

use std::{collections::BTreeSet, fs, time::Instant};

use super::{
    hosted::{Ending, Hosted},
    orders::{Brief, Order, Report},
    progress::Progress,
    reading::{Reading, Recovery},
    site::Site,
    stats::rounded,
    work::{Random, Work},
};
use crate::failure::Failure;

pub(super) async fn measure(site: &Site, runs: u32, work: Work, progress: &Progress) -> Result<Vec<Reading>, Failure> {
    let bar = progress.begin("recovery", runs);
    let ledger = site.data_dir.join("ledger");
    fs::create_dir_all(&site.data_dir)?;
    let expected = work.calls_of_a_run() * u64::from(runs);
    let killed_after = moment(work.seed, expected);
    let brief = Brief { runs, ledger: Some(ledger.clone()), ..Brief::of(work) };

    let first = Brief { halfway: Some(killed_after), ..brief.clone() };
    Hosted::with(site, first, Ending::Kill, async |host| {
        host.order(Order::Start { count: runs }, &bar).await?;
        host.halfway().await
    })
    .await?;

    let restarted = Instant::now();
    let (all_complete_s, unknown) = Hosted::with(site, brief, Ending::Desert, async |host| {
        host.order(Order::Finish { count: runs }, &bar).await?;
        let took = restarted.elapsed().as_secs_f64();
        let unknown = match host.order(Order::CountUnknown { count: runs }, &bar).await? {
            Report::Counted { calls } => calls,
            _ => 0,
        };
        Ok((took, unknown))
    })
    .await?;

    let tally = Tally::of(&fs::read_to_string(&ledger)?);
    Ok(vec![Reading::Recovery(Recovery {
        runs,
        turns: work.turns,
        calls: work.calls,
        once: work.once,
        killed_after,
        all_complete_s: rounded(all_complete_s),
        expected,
        executed: tally.executed,
        distinct: tally.distinct,
        duplicated: tally.executed - tally.distinct,
        missing: expected.saturating_sub(tally.distinct),
        unknown,
    })])
}

/// After how many calls the process is killed: somewhere in the middle half, the same for the same seed.
fn moment(seed: u64, calls: u64) -> u64 {
    let quarter = calls / 4;
    (quarter + Random::new(seed, "kill").next() % (calls - 2 * quarter).max(1)).max(1)
}

/// What the ledger says.
#[derive(Debug, PartialEq, Eq)]
struct Tally {
    executed: u64,
    distinct: u64,
}

impl Tally {
    fn of(ledger: &str) -> Self {
        let calls: BTreeSet<&str> = ledger.lines().collect();
        Self { executed: ledger.lines().count() as u64, distinct: calls.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_is_in_the_middle_and_depends_on_the_random_seed_only() {
        for seed in 0..100 {
            assert!((250..750).contains(&moment(seed, 1000)), "{seed}");
        }
        assert_eq!(moment(7, 1000), moment(7, 1000));
        assert!((0..100).map(|seed| moment(seed, 1000)).collect::<BTreeSet<_>>().len() > 50);
        assert_eq!([moment(1, 1), moment(1, 0)], [1, 1]);
    }

    #[test]
    fn repeats_are_told_from_first_executions() {
        let ledger = "run-1 call-0-0\nrun-1 call-0-1\nrun-2 call-0-0\nrun-1 call-0-1\n";
        assert_eq!(Tally::of(ledger), Tally { executed: 4, distinct: 3 });
    }
}
