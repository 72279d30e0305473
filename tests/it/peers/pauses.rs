//! Operators and activities: a worker of Temporal's Python SDK whose activity is paused, reset and changed, and the
//! stock CLI's commands for that.

use serde_json::{Value, json};

use super::Desk;
use crate::support::{
    both::{printed, python},
    server::{self, Server},
};

#[test]
fn a_python_worker_learns_that_its_activity_was_paused_and_reset() {
    let expected = json!({
        "interruptions": [
            {"attempt": 1, "paused": true, "reset": false},
            {"attempt": 1, "paused": false, "reset": true},
        ],
        "paused": [2, true, "operator", "maintenance", "interrupted"],
        "attribute": "[\"property:activityType=work\"]",
        "attempts": 9,
        "result": "attempt 2, heartbeat []",
    });
    for server in [server::temporal(), server::embedded()] {
        assert_eq!(operated(server), expected, "{}", server.address);
    }
}

fn operated(server: &Server) -> Value {
    let queue = format!("pauses-{}", uuid::Uuid::now_v7().simple());
    let mut command = python(concat!(env!("CARGO_MANIFEST_DIR"), "/it/peers/pauses.py"));
    command.args([&server.address, &queue]);
    let lines = printed(command, &queue);
    serde_json::from_str(&lines.concat()).unwrap_or_else(|error| panic!("{}: {error}: {lines:?}", server.address))
}

#[test]
fn the_stock_cli_pauses_resets_and_changes_activities() {
    for server in [server::temporal(), server::embedded()] {
        let desk = Desk::open(server);
        let id = format!("operated-{}", desk.queue);
        desk.json(&["workflow", "start", "--type", "Waiting", "--workflow-id", &id, "--task-queue", &desk.queue]);
        let pending = || {
            let described = desk.json(&["workflow", "describe", "--workflow-id", &id]);
            described["pendingActivities"][0].clone()
        };
        while pending()["activityId"] != "unheard" {
            std::thread::yield_now();
        }
        let named = ["--workflow-id", &id, "--activity-id", "unheard"];
        let operate = |verb: &str, more: &[&str]| desk.temporal(&[&["activity", verb], &named[..], more].concat());

        operate("pause", &["--reason", "maintenance"]);
        let paused = pending();
        let by = &paused["pauseInfo"]["manual"]["reason"];
        assert_eq!((&paused["state"], by), (&json!("PENDING_ACTIVITY_STATE_PAUSED"), &json!("maintenance")));
        operate("update-options", &["--heartbeat-timeout", "30s", "--retry-maximum-attempts", "4"]);
        let options = pending()["activityOptions"].clone();
        assert_eq!(options["heartbeatTimeout"], "30s", "{options}");
        assert_eq!(options["retryPolicy"]["maximumAttempts"], 4, "{options}");
        operate("reset", &["--keep-paused"]);
        assert_eq!(pending()["state"], "PENDING_ACTIVITY_STATE_PAUSED");
        operate("unpause", &[]);
        assert_eq!(pending()["state"], "PENDING_ACTIVITY_STATE_SCHEDULED");
        operate("update-options", &["--restore-original-options"]);
        assert_eq!(pending()["activityOptions"]["heartbeatTimeout"], "0s");
        let (error, _) = desk.failure(&["activity", "pause", "--workflow-id", &id, "--activity-id", "absent"]);
        assert!(error.contains("Can't find pending activity with such ID"), "{error}");
        desk.temporal(&["workflow", "terminate", "--workflow-id", &id]);
    }
}
