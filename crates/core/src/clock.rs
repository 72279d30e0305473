//! The run's own clock: it runs exactly while the run works and stands still while it waits or is paused.

use serde::{Deserialize, Serialize};

use crate::time::{Millis, Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveClock {
    used: Millis,
    running_since: Option<Timestamp>,
}

impl ActiveClock {
    pub fn start(&mut self, now: Timestamp) {
        self.running_since.get_or_insert(now);
    }

    pub fn stop(&mut self, now: Timestamp) {
        if let Some(since) = self.running_since.take() {
            self.used = self.used.plus(now.since(since));
        }
    }

    pub fn used(&self, now: Timestamp) -> Millis {
        self.used.plus(self.running_since.map_or(Millis::ZERO, |since| now.since(since)))
    }

    /// Adds time that was worked elsewhere on the run's behalf.
    pub fn charge(&mut self, worked: Millis) {
        self.used = self.used.plus(worked);
    }

    /// What is left of a budget; `None` without one.
    pub fn remaining(&self, budget: Option<Millis>, now: Timestamp) -> Option<Millis> {
        budget.map(|budget| budget.saturating_sub(self.used(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_running_time_counts() {
        let mut clock = ActiveClock::default();
        clock.start(Timestamp(1_000));
        clock.start(Timestamp(1_500));
        clock.stop(Timestamp(2_000));
        let three_weeks_later = Timestamp(2_000 + 21 * 24 * 3_600_000);
        assert_eq!(clock.used(three_weeks_later), Millis(1_000));
        clock.start(three_weeks_later);
        assert_eq!(clock.remaining(Some(Millis(1_200)), three_weeks_later.after(Millis(50))), Some(Millis(150)));
        clock.charge(Millis(500));
        assert_eq!(clock.remaining(Some(Millis(1_200)), three_weeks_later.after(Millis(50))), Some(Millis::ZERO));
        assert_eq!(clock.remaining(None, three_weeks_later), None);
    }
}
