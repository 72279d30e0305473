//! Heartbeats are not written one by one. They still count when memory is short and after a restart of the engine.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use tempfile::TempDir;
use temporalio_protos::temporal::api::workflowservice::v1::{
    PollActivityTaskQueueResponse, RecordActivityTaskHeartbeatRequest, RecordActivityTaskHeartbeatResponse,
};
use tokio::sync::Notify;
use tonic::{Code, Status};
use windlass_engine::{Clock, Limits};

use super::{
    client::NAMESPACE,
    host::{Host, workflow_of},
    plan::{AGAIN, heartbeating_activity, timer},
};
use crate::support::block_on;

const SECOND: i64 = 1_000_000_000;
/// The heartbeat timeout, in seconds.
const SILENCE: i64 = 10;

/// A clock that the test sets.
#[derive(Default)]
struct Hands {
    now: AtomicI64,
    moved: Notify,
}

impl Hands {
    fn set(&self, seconds: i64) {
        self.now.store(seconds * SECOND, Ordering::SeqCst);
        self.moved.notify_waiters();
    }
}

impl Clock for Hands {
    fn now(&self) -> i64 {
        self.now.load(Ordering::SeqCst)
    }

    fn reach(&self, at: i64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            loop {
                let moved = self.moved.notified();
                if self.now() >= at {
                    return;
                }
                moved.await;
            }
        })
    }
}

/// Sets the clock, and returns when the engine has processed everything that was due: a timer of another run is the
/// last.
async fn pass(host: &Host, clock: &Hands, until: i64) {
    let name = format!("until {until}");
    host.begin(&name).await.unwrap();
    let task = host.workflow_task(false).await.unwrap();
    let left = u64::try_from(until * SECOND - clock.now()).unwrap() / 1_000_000;
    host.decide(&task, vec![timer("t".to_owned(), left)]).await.unwrap();
    clock.set(until);
    let task = host.workflow_task(false).await.unwrap();
    assert_eq!(workflow_of(&task), name);
    host.decide(&task, Vec::new()).await.unwrap();
}

async fn beat(host: &Host, activity: &PollActivityTaskQueueResponse) -> Result<(), Status> {
    let request = RecordActivityTaskHeartbeatRequest {
        namespace: NAMESPACE.to_owned(),
        task_token: activity.task_token.clone(),
        ..RecordActivityTaskHeartbeatRequest::default()
    };
    host.call("RecordActivityTaskHeartbeat", &request, false).await.map(|RecordActivityTaskHeartbeatResponse { .. }| ())
}

#[test]
fn an_activity_that_heartbeats_does_not_time_out() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let clock = Arc::new(Hands::default());
        clock.set(1000);
        let limits = Limits { cached_runs: 1, ..Limits::default() };
        let host = Host::start_with(&directory, limits.clone(), clock.clone()).await;
        host.begin("w").await.unwrap();
        let task = host.workflow_task(false).await.unwrap();
        host.decide(&task, vec![heartbeating_activity(AGAIN, "a", SILENCE.cast_unsigned() * 1000)]).await.unwrap();
        let activity = host.activity(false).await.unwrap();

        // Other runs evict this one, and with it the heartbeat that is only in memory.
        pass(&host, &clock, 1008).await;
        beat(&host, &activity).await.unwrap();
        pass(&host, &clock, 1012).await;
        beat(&host, &activity).await.unwrap();
        host.stop().await;

        // The new engine did not get the last heartbeat, and must not time out because of it.
        clock.set(1020);
        let host = Host::start_with(&directory, limits, clock.clone()).await;
        pass(&host, &clock, 1024).await;
        beat(&host, &activity).await.unwrap();
        pass(&host, &clock, 1035).await;
        assert_eq!(beat(&host, &activity).await.unwrap_err().code(), Code::NotFound);
        clock.set(1036);
        assert_eq!(host.activity(false).await.unwrap().attempt, 2);
        host.stop().await;
    });
}
