//! A receiver of notifications that is away for a day.

use std::time::Duration;

use serde_json::json;
use temporalio_client::UntypedWorkflow;
use windlass_engine::Clock as _;

use super::{DAY, Rig, assert_passed};
use crate::{
    replay::shapes::push_to,
    support::{
        agent, block_on,
        receiver::{Receiver, reach_receivers},
        script,
        world::{scripts, within},
    },
};

/// With an agent that asks, and a way out to this machine.
async fn rig() -> Rig {
    let ask = json!({"await": {"kind": "clarification", "question": "Which city?"}});
    let rig = Rig::new(scripts([("ask", script(&[ask]))])).await;
    reach_receivers(&rig.world).await;
    rig
}

#[test]
fn a_receiver_that_is_away_for_a_day_is_given_up_after_pauses_that_grow() {
    block_on(async {
        let rig = rig().await;
        let mut receiver = Receiver::answering(&[503]).await;
        let run = rig.world.start(agent("ask", json!([])), "go").await;
        rig.world.opened(&run, 1).await;
        let began = rig.clock.now();
        let workflow = push_to(&rig.world, &run, receiver.url("/")).await;
        rig.clock.unlock().unwrap();
        let handle = rig.world.ops.client().get_workflow_handle::<UntypedWorkflow>(workflow.to_string());
        within("the end of the push workflow", handle.get_result(Default::default())).await.unwrap();

        // The pauses are 1, 2, 4 … 512 seconds, then 10 minutes. The next one would end after a day.
        let growing = (1 << 10) - 1;
        let steady = (DAY.as_secs() - growing) / 600;
        let last = Duration::from_secs(growing + steady * 600);
        assert_passed(Duration::from_nanos((rig.clock.now() - began) as u64), last);
        let attempts = receiver.rest();
        assert_eq!(attempts.len() as u64, 1 + 10 + steady);
        assert!(attempts.iter().all(|attempt| attempt.id() == attempts[0].id()));
        let config = rig.world.ops.store().push_config(&run, "c").await.unwrap().unwrap();
        assert_eq!(config.error.as_deref(), Some("no attempt succeeded within 24 h: the receiver answered 503"));
        rig.close().await;
    });
}

#[test]
fn a_receiver_says_when_it_wants_the_next_attempt() {
    block_on(async {
        let rig = rig().await;
        let pause = Duration::from_secs(1800);
        let mut receiver = Receiver::asking_for_a_pause(503, 1800).await;
        let run = rig.world.start(agent("ask", json!([])), "go").await;
        rig.world.opened(&run, 1).await;
        push_to(&rig.world, &run, receiver.url("/")).await;
        assert_eq!(receiver.next().await.status, 503);
        let began = rig.clock.now();
        rig.clock.unlock().unwrap();
        assert_eq!(receiver.next().await.status, 200);
        assert_passed(Duration::from_nanos((rig.clock.now() - began) as u64), pause);
        rig.close().await;
    });
}
