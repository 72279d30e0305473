//! The invariants on the real server: random agents, random answers, and a worker that is killed again and again.
//!
//! The same invariants are checked over many more cases, and over virtual time, on the pure core
//! (`windlass-core`, module `run::invariants`). Here nothing is simulated.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use temporalio_client::UntypedWorkflow;
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use windlass_core::{
    awaits::{AwaitKind, AwaitView},
    canonical::Digest,
    envelope::{
        Answer, AnswerBody, AnswerStatus, PauseRequest, PolicyOverrides, ProvidedToolResult, ResumeRequest,
        SteerRequest, Tuning,
    },
    event::EventBody,
    ids::{AwaitId, RunId, WorkspaceId},
    message::{Content, Message},
    time::Millis,
};
use windlass_ops::{RunOps, StartRun};
use windlass_workflows::RunWorkflow;

use super::{
    dice::{self, Case, Dice},
    scale,
};
use crate::support::{
    agent, block_on, checks,
    process::Workshop,
    server,
    world::{client, open_store, within},
};

/// What one operator did to one run.
#[derive(Default)]
struct Deeds {
    /// Texts the run accepted; they must be in its conversation.
    said: Vec<String>,
    /// Digests of the arguments that were approved.
    approved: BTreeSet<Digest>,
    denied: BTreeSet<Digest>,
    rejected: usize,
}

#[test]
fn the_invariants_hold_on_a_real_server_with_a_dying_worker() {
    // A case takes seconds here and milliseconds in the core, so it gets one for twenty of those.
    let cases = scale("WINDLASS_PROP_CASES", 240) / 20;
    let seed = scale("WINDLASS_PROP_SEED", 20_260) as u64;
    block_on(async {
        let made: Vec<Case> = (0..cases).map(|n| dice::case(&mut Dice::seeded(seed + n as u64))).collect();
        let scripts: BTreeMap<String, _> =
            made.iter().enumerate().map(|(n, case)| (format!("case{n}"), case.script.clone())).collect();
        let workshop = Workshop::new(&server::shared().address, &serde_json::json!(scripts));
        let store = Arc::new(open_store(workshop.dir.path()));
        let ops = RunOps::new(client().await, store, workshop.task_queue.clone(), WorkspaceId::new("props"));
        let mut worker = workshop.spawn();
        let mut operators = Vec::new();
        for (n, case) in made.iter().enumerate() {
            let mut start = StartRun::new(agent(&format!("case{n}"), dice::tools()), "begin");
            start.policy = Some(PolicyOverrides { max_tool_calls: case.max_tool_calls, ..PolicyOverrides::default() });
            start.tuning = Some(Tuning {
                heartbeat_timeout_ms: Some(Millis(1500)),
                plan_retry_interval_ms: Some(Millis(100)),
                continue_as_new_events: Some(60),
                ..Tuning::default()
            });
            let run = ops.start(start).await.unwrap();
            let operator = operate(ops.clone(), run.clone(), Dice::seeded(seed ^ (n as u64 + 1)));
            operators.push((run, tokio::spawn(operator)));
        }
        // Killed in the middle, as often as the cases give occasion to.
        let kills = 2 + cases / 20;
        for _ in 0..kills {
            worker.wait_for("ask", cases / 2);
            drop(worker);
            worker = workshop.spawn();
        }
        let (mut rejected, mut events, mut calls) = (0, 0, 0);
        for ((run, operator), case) in operators.into_iter().zip(&made) {
            let deeds = operator.await.unwrap();
            let ended = tokio::time::timeout(std::time::Duration::from_secs(240), ops.result(&run)).await;
            ended.unwrap_or_else(|_| panic!("{run} did not end")).unwrap();
            let (log_len, executed) = judge(&ops, &run, case, &deeds).await;
            (rejected, events, calls) = (rejected + deeds.rejected, events + log_len, calls + executed);
        }
        println!(
            "live invariants: {cases} cases (seed {seed}), {kills} kills of the worker, {calls} calls executed, \
             {rejected} wrong answers refused, {events} events: invariants 1, 2, 3, 5, 6, 9, 10, 12 hold"
        );
    });
}

/// Answers a run's awaits, wrongly first now and then, and interferes in other ways.
async fn operate(ops: RunOps, run: RunId, mut dice: Dice) -> Deeds {
    let mut deeds = Deeds::default();
    let mut watch = ops.store().watch(&run);
    let mut handled = BTreeSet::new();
    loop {
        let events = ops.store().events(&run, 0, 10_000).await.unwrap();
        if events.last().is_some_and(|event| event.is_terminal()) {
            return deeds;
        }
        let opened = events.iter().filter_map(|event| match event.body() {
            Ok(EventBody::AwaitOpened { item }) => Some(item),
            _ => None,
        });
        let fresh: Vec<AwaitView> = opened.filter(|item| handled.insert(item.id.clone())).collect();
        if fresh.is_empty() {
            within("something to happen", watch.changed()).await;
            continue;
        }
        for item in fresh {
            interfere(&ops, &run, &mut dice, &mut deeds).await;
            answer(&ops, &run, &item, &mut dice, &mut deeds).await;
        }
    }
}

async fn interfere(ops: &RunOps, run: &RunId, dice: &mut Dice, deeds: &mut Deeds) {
    if dice.chance(30) {
        let text = format!("steer {}", dice.roll(1_000_000));
        ops.steer(run, &SteerRequest { text: text.clone(), ..SteerRequest::default() }).await.unwrap();
        deeds.said.push(text);
    }
    if dice.chance(20) {
        ops.pause(run, &PauseRequest { requested_by: "op".into(), ..PauseRequest::default() }).await.unwrap();
        ops.resume(run, &ResumeRequest { requested_by: "op".into(), ..ResumeRequest::default() }).await.unwrap();
    }
}

async fn answer(ops: &RunOps, run: &RunId, item: &AwaitView, dice: &mut Dice, deeds: &mut Deeds) {
    if dice.chance(50) {
        let wrong = [
            Answer::new(AwaitId::new("await-999"), "op", AnswerBody::Clarification { answer: "x".into() }),
            Answer::new(item.id.clone(), "op", AnswerBody::approval(Digest::ZERO)),
            Answer::new(item.id.clone(), "op", AnswerBody::ToolResults { results: Vec::new() }),
        ];
        let wrong = &wrong[dice.roll(3) as usize];
        let reply = patiently(ops, run, wrong).await;
        assert_ne!(reply, AnswerStatus::Accepted, "{wrong:?} to {item:?}");
        deeds.rejected += 1;
    }
    let body = match item.kind {
        AwaitKind::Clarification | AwaitKind::Input => {
            AnswerBody::Clarification { answer: format!("answer to {}", item.id) }
        }
        AwaitKind::Confirmation => {
            let digest = item.calls[0].digest;
            let approved = dice.chance(60);
            if approved {
                deeds.approved.insert(digest)
            } else {
                deeds.denied.insert(digest)
            };
            AnswerBody::Confirmation { approved, digest: approved.then_some(digest), reason: None, grant: None }
        }
        AwaitKind::ExternalTools | AwaitKind::Questions => AnswerBody::ToolResults {
            results: item
                .calls
                .iter()
                .map(|call| ProvidedToolResult {
                    name: None,
                    tool_call_id: call.tool_call_id.clone(),
                    result: Some(serde_json::json!({"from": "outside"}).into()),
                    result_ref: None,
                    bounds: None,
                    error: None,
                    retry_hint: None,
                })
                .collect(),
        },
    };
    if let AnswerBody::Clarification { answer } = &body {
        deeds.said.push(answer.clone());
    }
    let right = Answer::new(item.id.clone(), "op", body);
    // The reply may have been lost with a worker, so a repetition is as good as an acceptance.
    let reply = patiently(ops, run, &right).await;
    assert!([AnswerStatus::Accepted, AnswerStatus::Duplicate].contains(&reply), "{reply:?} to {right:?}");
}

/// Answers until a worker is there to reply.
async fn patiently(ops: &RunOps, run: &RunId, answer: &Answer) -> AnswerStatus {
    within("a reply", async {
        loop {
            match ops.answer(run, answer).await {
                Ok(reply) => return reply.status,
                // Lost with a worker, unless the run has ended: then an earlier, unheard try had been accepted.
                Err(_) if has_ended(ops, run).await => return AnswerStatus::Duplicate,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await
}

async fn has_ended(ops: &RunOps, run: &RunId) -> bool {
    ops.store().run(run).await.unwrap().is_some_and(|row| row.status.is_terminal())
}

/// Checks a finished run; returns the length of its log and how many calls it executed.
async fn judge(ops: &RunOps, run: &RunId, case: &Case, deeds: &Deeds) -> (usize, usize) {
    let log = ops.store().events(run, 0, 10_000).await.unwrap();
    checks::log_is_gapless_with_one_terminal_event_at_its_end(&log);
    let row = ops.store().run(run).await.unwrap().unwrap();
    let transcript = ops.store().transcript(run, row.head).await.unwrap();
    checks::every_call_has_one_result(&transcript);

    let bodies: Vec<EventBody> = log.iter().map(|event| event.body().unwrap()).collect();
    let mut executed = 0;
    let mut by_digest: BTreeMap<Digest, usize> = BTreeMap::new();
    for body in &bodies {
        if let EventBody::ToolCall { digest, name, .. } = body {
            executed += 1;
            if name.as_str() == "once" {
                *by_digest.entry(*digest).or_default() += 1;
            }
        }
    }
    // 3: never more than the cap.
    assert!(
        case.max_tool_calls.is_none_or(|cap| executed <= cap as usize),
        "{executed} calls under {:?}",
        case.max_tool_calls
    );
    // 9: an approved call runs at most once, with exactly the arguments that were approved; no other runs.
    for (digest, times) in &by_digest {
        assert!(deeds.approved.contains(digest) && *times == 1, "{digest} ran {times} times");
        assert!(!deeds.denied.contains(digest));
    }
    // 5: what was refused is on record.
    let refused = bodies.iter().filter(|body| matches!(body, EventBody::AnswerRejected { .. })).count();
    assert!(refused >= deeds.rejected, "{refused} recorded of {}", deeds.rejected);
    // 12: what was accepted is in the conversation.
    let spoken: BTreeSet<String> =
        transcript.iter().filter(|message| is_text(message)).map(Message::plain_text).collect();
    for text in &deeds.said {
        assert!(spoken.contains(text), "{text:?} was accepted and is lost");
    }
    // 6: the history replays.
    let handle = ops.client().get_workflow_handle::<UntypedWorkflow>(run.to_string());
    let options = WorkflowReplayerOptions::new().register_workflow::<RunWorkflow>().unwrap().build();
    let history = handle.fetch_history(Default::default());
    WorkflowReplayer::new(options).unwrap().replay_workflow(history).await.unwrap();
    (log.len(), executed)
}

fn is_text(message: &Message) -> bool {
    matches!(message.parts.first().map(|part| &part.content), Some(Content::Text { .. }))
}
