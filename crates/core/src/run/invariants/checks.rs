//! The invariants, one function each. They judge a run that has ended, from its log, its transcript and the ledger.

mod turns;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Lived, ensure, ledger::Promise, script::hand_out, world::World};
use crate::{
    agent::{Enforcement, HandOut},
    canonical::CanonicalJson,
    envelope::{FinalizeReason, SchemaFit, ToolCallOutput, ToolErrorKind},
    event::EventBody,
    failure::{RunFailure, RunFailureKind},
    ids::CallId,
    message::{Content, Message, Part, Role},
    run::Outcome,
    stop::StopOutcome,
    time::Millis,
};

type Check = fn(&World) -> Lived;

pub(super) const COUNT: usize = 16;

/// Judges a run and every run below it.
pub(super) fn all(world: &World) -> Lived {
    const CHECKS: [(&str, Check); COUNT] = [
        ("1", check_1_every_tool_use_has_exactly_one_result),
        ("2", check_2_exactly_one_terminal_event_and_it_is_last),
        ("3", check_3_executed_calls_stay_within_every_cap),
        ("4", check_4_after_the_deadline_only_the_finaliser_runs),
        ("5", check_5_what_is_rejected_changes_nothing),
        ("6", check_6_replay_gives_the_same_states),
        ("7", check_7_waiting_costs_no_budget),
        ("8", check_8_a_child_gets_no_more_than_is_left),
        ("9", check_9_an_approved_call_runs_once_with_the_approved_arguments),
        ("10", check_10_the_log_is_gapless_and_redelivery_idempotent),
        ("11", check_11_bytes_per_turn_do_not_grow),
        ("12", check_12_nothing_acknowledged_is_lost),
        ("13", check_13_the_callers_calls_go_out_in_turn_and_come_back_once),
        ("14", check_14_a_turn_has_one_message_and_the_end_repeats_the_last),
        ("15", turns::check_15_what_was_written_is_in_the_transcript_byte_for_byte),
        ("16", turns::check_16_a_turn_is_treated_as_its_stop_reason_says),
    ];
    for (number, check) in CHECKS {
        check(world).map_err(|why| format!("invariant {number}: {why}"))?;
    }
    world.ledger.children.iter().try_for_each(|child| all(child).map_err(|why| format!("of a child: {why}")))
}

fn check_1_every_tool_use_has_exactly_one_result(world: &World) -> Lived {
    let mut announced: BTreeMap<&CallId, usize> = BTreeMap::new();
    for event in &world.store.log {
        if let EventBody::ToolResult { tool_use_id, .. } = &event.body {
            *announced.entry(tool_use_id).or_default() += 1;
        }
    }
    let mut uses = 0;
    for (index, message) in world.store.transcript.iter().enumerate() {
        let asked: Vec<&CallId> = message.parts.iter().filter_map(used).collect();
        let next = world.store.transcript.get(index + 1);
        let given: Vec<&CallId> = next.into_iter().flat_map(|next| &next.parts).filter_map(result_of).collect();
        ensure!(asked == given, "message {index} asks for {asked:?} and is followed by results of {given:?}");
        for call in &asked {
            ensure!(announced.get(call) == Some(&1), "{call} has {:?} tool_result events", announced.get(call));
        }
        uses += asked.len();
    }
    ensure!(uses == announced.len(), "{uses} calls, but results of {announced:?} are in the log");
    Ok(())
}

fn check_2_exactly_one_terminal_event_and_it_is_last(world: &World) -> Lived {
    let log = &world.store.log;
    let terminal: Vec<usize> = (0..log.len()).filter(|index| log[*index].body.is_terminal()).collect();
    ensure!(terminal == [log.len() - 1], "terminal events at {terminal:?} of {} events", log.len());
    let outcome = world.ending.as_ref().map(|ending| &ending.outcome);
    let fits = match &log[log.len() - 1].body {
        EventBody::Result { error: None, subtype, finalized, .. } => {
            subtype == EventBody::SUCCESS && outcome == Some(&Outcome::Completed { finalized: *finalized })
        }
        EventBody::Result { error: Some(_), subtype, .. } => {
            let late = |failure: &RunFailure| failure.kind == RunFailureKind::LocalToolTimedOut;
            subtype == EventBody::LOCAL_TOOL_TIMEOUT
                && matches!(outcome, Some(Outcome::Failed { failure }) if late(failure))
        }
        EventBody::Error { .. } => matches!(outcome, Some(Outcome::Failed { .. })),
        EventBody::Cancelled { .. } => matches!(outcome, Some(Outcome::Cancelled { .. })),
        _ => false,
    };
    ensure!(fits, "the last event does not tell the outcome {outcome:?}");
    if let Some(answer) = &world.run.state().last_answer {
        let held = world.story.enforcement == Some(Enforcement::Strict);
        let stopped = world.ledger.spoken.last().map(|spoken| spoken.stop.outcome());
        let unfinished =
            matches!(outcome, Some(Outcome::Failed { failure }) if failure.kind == RunFailureKind::AnswerUnfinished);
        let good = matches!(stopped, Some(StopOutcome::Proceed | StopOutcome::Continue))
            && !unfinished
            && (!held || answer.schema_fit == Some(SchemaFit::Fits));
        let completed = matches!(outcome, Some(Outcome::Completed { .. }));
        ensure!(good == completed, "{answer:?} became {outcome:?}");
    }
    Ok(())
}

fn check_3_executed_calls_stay_within_every_cap(world: &World) -> Lived {
    let policy = &world.run.state().policy;
    let begun = world.calls_begun();
    if let Some(cap) = policy.max_tool_calls {
        ensure!(begun <= cap, "{begun} calls were begun, {cap} are allowed");
    }
    let own = world.ledger.executions.len() + world.handed_out().count();
    let known = u32::try_from(own).unwrap() + world.ledger.charged;
    let reported = world.ending.as_ref().map(|ending| ending.output.tool_calls);
    ensure!(reported == Some(known), "{known} calls are known to have begun, the run reports {reported:?}");
    let mut by_turn: BTreeMap<u32, u32> = BTreeMap::new();
    let mut by_tool: BTreeMap<&str, u32> = BTreeMap::new();
    for call in world.ledger.executions.iter().map(|execution| &execution.call).chain(world.handed_out()) {
        let requested = &world.ledger.requested[call];
        *by_turn.entry(requested.turn).or_default() += 1;
        *by_tool.entry(requested.tool.as_str()).or_default() += 1;
    }
    if let Some(cap) = policy.per_turn_max_tool_calls {
        ensure!(by_turn.values().all(|calls| *calls <= cap), "{by_turn:?} calls by turn, {cap} are allowed");
    }
    for (tool, budget) in &policy.tool_budgets {
        let calls = by_tool.get(tool.as_str()).copied().unwrap_or(0);
        ensure!(calls <= *budget, "{calls} calls of {tool}, {budget} are allowed");
    }
    if let Some(cap) = policy.max_tool_turns {
        let turns = (0..).zip(&world.ledger.plans).filter(|(_, plan)| !plan.finaliser).map(|(turn, _)| turn);
        let calls = |turn: &u32| world.ledger.requested.values().any(|call| call.turn == *turn && !call.by_await);
        let turns = turns.filter(calls).count();
        ensure!(turns <= cap as usize, "the model called tools in {turns} turns, {cap} are allowed");
    }
    if let Some(max) = policy.max_tokens {
        // The scripted planner uses 10 tokens a turn. The turn that reaches the limit is the last one before the finaliser.
        let turns = world.ledger.spoken.iter().filter(|spoken| !spoken.finaliser).count() as u64;
        ensure!(turns <= max.div_ceil(10), "{turns} turns of 10 tokens, {max} tokens are allowed");
    }
    let events = || world.store.log.iter().map(|event| &event.body);
    let capped = events().any(|event| matches!(event, EventBody::Finalizing { reason: FinalizeReason::ToolCap }));
    let refused = events().any(|event| matches!(event, EventBody::CallRefused { reason: ToolErrorKind::ToolCap, .. }));
    ensure!(!capped || refused, "the run was finalised for a cap that no call met");
    Ok(())
}

fn check_4_after_the_deadline_only_the_finaliser_runs(world: &World) -> Lived {
    let grace = world.run.state().policy.finalizer_grace;
    for plan in &world.ledger.plans {
        if plan.finaliser {
            let in_grace = plan.timeout <= grace && plan.deadline.is_some_and(|deadline| deadline <= grace);
            ensure!(in_grace, "the finaliser may take longer than the grace: {plan:?}");
        } else {
            ensure!(plan.left != Some(Millis::ZERO), "a plan began after the deadline: {plan:?}");
            ensure!(plan.left.is_none_or(|left| plan.deadline <= Some(left)), "it may outlive the deadline: {plan:?}");
        }
    }
    let finalisers = world.ledger.plans.iter().skip_while(|plan| !plan.finaliser);
    ensure!(finalisers.clone().count() <= 1, "plans followed the finaliser: {:?}", finalisers.collect::<Vec<_>>());
    for execution in &world.ledger.executions {
        let in_time = execution.left != Some(Millis::ZERO) && !execution.finalising;
        ensure!(in_time, "a call began too late: {execution:?}");
    }
    let after = world.store.log.iter().skip_while(|event| !matches!(event.body, EventBody::Finalizing { .. }));
    let begins = |event: &EventBody| {
        matches!(
            event,
            EventBody::AwaitOpened { .. } | EventBody::LocalToolCall { .. } | EventBody::ChildRunLinked { .. }
        )
    };
    let late: Vec<_> = after.filter(|event| begins(&event.body)).collect();
    ensure!(late.is_empty(), "begun while finalising: {late:?}");
    Ok(())
}

fn check_5_what_is_rejected_changes_nothing(world: &World) -> Lived {
    let mut due = Vec::new();
    for heard in &world.ledger.heard {
        ensure!(heard.accepted == heard.welcome, "accepted or refused wrongly: {heard:?}");
        ensure!(heard.status.is_none() || heard.status == heard.due_status, "another reply was due: {heard:?}");
        if !heard.accepted {
            ensure!(heard.before == heard.after, "it was refused and changed the state: {heard:?}");
            if !heard.too_late {
                due.push((heard.status.map(|_| heard.what.as_str()), heard.status));
            }
        }
    }
    let recorded = world.store.log.iter().filter_map(|event| match &event.body {
        EventBody::AnswerRejected { await_id, status, .. } => Some((Some(await_id.as_str()), Some(*status))),
        EventBody::SignalRejected { .. } => Some((None, None)),
        _ => None,
    });
    let recorded: Vec<_> = recorded.collect();
    ensure!(recorded == due, "refused {due:?}, recorded {recorded:?}");
    Ok(())
}

fn check_6_replay_gives_the_same_states(world: &World) -> Lived {
    let twin = world.tape.replay()?;
    ensure!(twin.continue_as_new() == world.run.continue_as_new(), "the replayed run ends as another");
    Ok(())
}

fn check_7_waiting_costs_no_budget(world: &World) -> Lived {
    for (index, (reckoned, reported)) in world.ledger.clock.iter().enumerate() {
        ensure!(reckoned == reported, "after input {index}, {reckoned:?} is left, the run says {reported:?}");
    }
    let reported = world.ending.as_ref().map(|ending| ending.output.active_ms);
    ensure!(reported == Some(world.ledger.active), "worked {:?}, reports {reported:?}", world.ledger.active);
    Ok(())
}

fn check_8_a_child_gets_no_more_than_is_left(world: &World) -> Lived {
    let cap = world.run.state().policy.max_tool_calls;
    for lease in &world.ledger.leases {
        ensure!(lease.ceiling.time_budget_ms == lease.time_left, "it was lent more time than is left: {lease:?}");
        ensure!(lease.ceiling.max_tool_calls.is_some() == cap.is_some(), "it was lent no calls of {cap:?}: {lease:?}");
        if let (Some(lent), Some(cap)) = (lease.ceiling.max_tool_calls, cap) {
            ensure!(lent + lease.taken <= cap, "it was lent more calls than are left of {cap}: {lease:?}");
        }
    }
    for (lease, child) in world.ledger.leases.iter().zip(&world.ledger.children) {
        let (lent, policy) = (lease.ceiling, &child.run.state().policy);
        let within = lent.max_tool_calls.is_none_or(|lent| policy.max_tool_calls.is_some_and(|own| own <= lent))
            && lent.time_budget_ms.is_none_or(|lent| policy.time_budget.is_some_and(|own| own <= lent));
        ensure!(within, "{lease:?} became the policy {policy:?}");
    }
    Ok(())
}

fn check_9_an_approved_call_runs_once_with_the_approved_arguments(world: &World) -> Lived {
    let mut begun: BTreeMap<&CallId, usize> = BTreeMap::new();
    for execution in &world.ledger.executions {
        *begun.entry(&execution.call).or_default() += 1;
        let requested = &world.ledger.requested[&execution.call];
        ensure!(execution.digest == requested.digest, "begun with other arguments: {execution:?}, {requested:?}");
        if needs_approval(execution.tool.as_str()) {
            let mut heard = world.ledger.heard[..execution.after_heard].iter();
            let approved = heard.any(|heard| heard.approves == Some((execution.call.clone(), execution.digest)));
            ensure!(approved, "begun without an approval of its arguments: {execution:?}");
        }
    }
    for call in world.handed_out() {
        *begun.entry(call).or_default() += 1;
        let requested = &world.ledger.requested[call];
        let approval = Some((call.clone(), requested.digest));
        let approved = world.ledger.heard.iter().any(|heard| heard.approves == approval);
        ensure!(approved || !needs_approval(requested.tool.as_str()), "handed out without an approval: {requested:?}");
    }
    ensure!(begun.values().all(|times| *times == 1), "a call was begun more than once: {begun:?}");
    Ok(())
}

fn check_10_the_log_is_gapless_and_redelivery_idempotent(world: &World) -> Lived {
    let own = world.store.log.iter().filter_map(|event| event.key.strip_prefix("w/"));
    let numbers: Vec<usize> = own.map(|number| number.parse().unwrap_or(0)).collect();
    let gapless: Vec<usize> = (1..=numbers.len()).collect();
    ensure!(numbers == gapless, "the run's own events arrived as {numbers:?}");
    let mut keys: Vec<&str> = world.store.log.iter().map(|event| event.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    ensure!(keys.len() == world.store.log.len(), "two events share a key");
    Ok(())
}

fn check_11_bytes_per_turn_do_not_grow(world: &World) -> Lived {
    /// The largest state these cases can make: its tools, 64 closed awaits, 16 reported results, one batch.
    const CARRIED: usize = 40 * 1024;
    for (turn, traffic) in &world.ledger.traffic {
        ensure!(traffic.bytes <= traffic.allowed, "turn {turn} took more bytes than its content: {traffic:?}");
    }
    ensure!(world.ledger.carried.values().all(|bytes| *bytes <= CARRIED), "carried {:?}", world.ledger.carried);
    let limit = world.run.tuning().inline_limit();
    for body in world.run.state().reported.iter().filter_map(ToolCallOutput::result) {
        let kept = body.inline().map_or(0, CanonicalJson::bytes);
        ensure!(kept <= limit, "a body above the limit of {limit} is kept: {body:?}");
    }
    Ok(())
}

fn check_12_nothing_acknowledged_is_lost(world: &World) -> Lived {
    for plan in &world.ledger.plans {
        let mut said = plan.said.iter();
        let heard = plan.owed.iter().all(|owed| said.any(|text| text == owed));
        ensure!(heard, "the model was not told all that is owed: {plan:?}");
    }
    for promise in &world.ledger.promises {
        match promise {
            Promise::Text(text) => {
                let times = world.store.transcript.iter().filter(|message| says(message, text)).count();
                ensure!(times == 1, "{text:?} is {times} times in the transcript");
            }
            Promise::Result { call, content, is_error } => {
                let result = result(world, call);
                ensure!(result == Some((content.clone(), *is_error)), "{call} was given {content}, not {result:?}");
            }
            Promise::Approved(call) => {
                let executed = world.ledger.executions.iter().any(|execution| execution.call == *call);
                let executed = executed || world.handed_out().any(|handed| handed == call);
                let refused = result(world, call).is_some_and(|(_, is_error)| is_error);
                ensure!(executed || refused, "{call} was approved; it did not run and no event says why");
            }
            Promise::Input { call, text } => {
                let given = world.ledger.given.contains(&(call.clone(), text.clone()));
                let stopped = result(world, call).is_some_and(|(_, is_error)| is_error);
                ensure!(given || stopped, "{text:?} was given to {call}, which went on without it");
            }
            Promise::Denied(call) => {
                let kind = result(world, call).map(|(content, _)| content["kind"].clone());
                ensure!(kind == Some("denied".into()), "{call} was denied, its result says {kind:?}");
            }
        }
    }
    Ok(())
}

fn check_13_the_callers_calls_go_out_in_turn_and_come_back_once(world: &World) -> Lived {
    let place = |call: &CallId| call.as_str().rsplit_once('-').and_then(|(_, place)| place.parse::<u32>().ok());
    let own = |call: &CallId| world.ledger.requested.get(call).and_then(|asked| hand_out(asked.tool.as_str()));
    let (mut out, mut come, mut done) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    for event in &world.store.log {
        match &event.body {
            EventBody::LocalToolCall { tool_use_id: call, .. } => {
                out.insert(call);
                let Some(how) = own(call) else { continue };
                let turn = world.ledger.requested[call].turn;
                let before = world.ledger.requested.iter().filter(|(other, asked)| {
                    let together = how == HandOut::Together && own(other) == Some(HandOut::Together);
                    asked.turn == turn && own(other).is_some() && place(other) < place(call) && !together
                });
                let waiting: Vec<&CallId> =
                    before.map(|(other, _)| other).filter(|other| !done.contains(other)).collect();
                ensure!(waiting.is_empty(), "{call} was handed out before {waiting:?} had their results");
            }
            EventBody::LocalToolResultIn { tool_use_id: call, .. } => {
                ensure!(out.contains(call) && !done.contains(call), "a result of {call} came unasked");
                come.push(call);
            }
            EventBody::ToolResult { tool_use_id: call, .. } => {
                done.insert(call);
            }
            _ => {}
        }
    }
    let promised = world.ledger.promises.iter().filter_map(|promise| match promise {
        Promise::Result { call, .. } => Some(call),
        _ => None,
    });
    let promised: Vec<&CallId> = promised.collect();
    ensure!(come == promised, "results of {promised:?} were taken, those of {come:?} are in the log");
    Ok(())
}

fn check_14_a_turn_has_one_message_and_the_end_repeats_the_last(world: &World) -> Lived {
    let messages = world.store.log.iter().filter_map(|event| match &event.body {
        EventBody::AssistantMessage { turn, text, .. } => Some((turn, text)),
        _ => None,
    });
    let messages: Vec<(&u32, &String)> = messages.collect();
    ensure!(messages.is_sorted_by(|one, next| one.0 < next.0), "more than one message of a turn: {messages:?}");
    let last = messages.last().map(|(_, text)| *text);
    match &world.store.log[world.store.log.len() - 1].body {
        EventBody::Result { error: None, text, .. } => {
            ensure!(Some(text) == last, "the answer is {text:?}, the last message {last:?}");
        }
        EventBody::Error { partial_text: Some(text), .. } => {
            ensure!(Some(text) == last, "the rest is {text:?}, the last message {last:?}");
        }
        _ => {}
    }
    Ok(())
}

fn needs_approval(tool: &str) -> bool {
    ["pay", "sign", "vault", "deputy"].contains(&tool)
}

fn used(part: &Part) -> Option<&CallId> {
    if let Content::ToolUse { id, .. } = &part.content { Some(id) } else { None }
}

fn result_of(part: &Part) -> Option<&CallId> {
    if let Content::ToolResult { tool_use_id, .. } = &part.content { Some(tool_use_id) } else { None }
}

fn result(world: &World, call: &CallId) -> Option<(Value, bool)> {
    world.store.transcript.iter().flat_map(|message| &message.parts).find_map(|part| match &part.content {
        Content::ToolResult { tool_use_id, content, is_error, .. } if tool_use_id == call => {
            Some((content.to_value(), *is_error))
        }
        _ => None,
    })
}

fn says(message: &Message, text: &str) -> bool {
    message.role == Role::User && message.plain_text() == text
}
