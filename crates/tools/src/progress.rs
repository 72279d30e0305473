//! Progress reports of a tool.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// One report. MCP servers and heartbeats of activities speak in the same terms.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
    /// For people.
    pub message: Option<String>,
    /// How much is done, in the unit of `total`; it only grows.
    pub done: Option<f64>,
    pub total: Option<f64>,
}

impl Progress {
    pub fn message(text: impl Into<String>) -> Self {
        Self { message: Some(text.into()), ..Self::default() }
    }

    #[must_use]
    pub fn of(mut self, done: f64, total: f64) -> Self {
        (self.done, self.total) = (Some(done), Some(total));
        self
    }
}

/// Takes reports without making the tool wait.
#[derive(Debug, Clone)]
pub struct ProgressSink(Option<Arc<Shared>>);

/// The reports of a call, as they come.
#[derive(Debug)]
pub struct ProgressReports(Arc<Shared>);

/// Reports that were not taken yet. Most calls report nothing, so this holds no buffer until one does.
#[derive(Debug, Default)]
struct Shared {
    reports: Mutex<VecDeque<Progress>>,
    arrived: Notify,
}

/// At most so many reports are buffered; then the oldest is dropped, because a later one supersedes it.
const BACKLOG: usize = 16;

impl ProgressSink {
    pub fn new() -> (Self, ProgressReports) {
        let shared = Arc::<Shared>::default();
        (Self(Some(Arc::clone(&shared))), ProgressReports(shared))
    }

    /// For calls whose progress is not recorded.
    pub fn none() -> Self {
        Self(None)
    }

    pub fn report(&self, progress: Progress) {
        let Some(shared) = &self.0 else { return };
        let mut reports = shared.lock();
        if reports.len() == BACKLOG {
            reports.pop_front();
        }
        reports.push_back(progress);
        drop(reports);
        shared.arrived.notify_one();
    }
}

impl ProgressReports {
    /// The next report; pending until there is one.
    pub async fn next(&self) -> Progress {
        loop {
            if let Some(report) = self.take() {
                return report;
            }
            self.0.arrived.notified().await;
        }
    }

    /// The next report that is there already.
    pub fn take(&self) -> Option<Progress> {
        self.0.lock().pop_front()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Progress>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reports_come_in_order_and_the_oldest_give_way() {
        let (sink, reports) = ProgressSink::new();
        sink.report(Progress::message("a").of(1.0, 2.0));
        assert_eq!(reports.next().await, Progress { message: Some("a".into()), done: Some(1.0), total: Some(2.0) });
        for number in 0..20 {
            sink.report(Progress::message(number.to_string()));
        }
        assert_eq!(reports.next().await, Progress::message("4"));
        let rest = std::iter::from_fn(|| reports.take()).count();
        assert_eq!(rest, BACKLOG - 1);
        let (waiting, ()) = tokio::join!(reports.next(), async { sink.report(Progress::message("late")) });
        assert_eq!(waiting, Progress::message("late"));
    }
}
