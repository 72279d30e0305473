//! What a model wrote, and what its reason for stopping means for the run.

use std::collections::BTreeSet;

use super::{Lived, World, ensure};
use crate::{
    canonical::CanonicalJson,
    envelope::BlobRef,
    event::EventBody,
    failure::RunFailureKind,
    ids::CallId,
    message::{Content, Role},
    run::Outcome,
    stop::{AnswerFlaw, StopOutcome},
};

pub(super) fn check_15_what_was_written_is_in_the_transcript_byte_for_byte(world: &World) -> Lived {
    let transcript = &world.store.transcript;
    let written: Vec<&CanonicalJson> = world.ledger.spoken.iter().map(|spoken| &spoken.written).collect();
    let stored = transcript.iter().filter(|message| message.role == Role::Assistant).map(text);
    let stored: Vec<CanonicalJson> = stored.collect();
    ensure!(stored.iter().eq(written.iter().copied()), "the model wrote {written:?}, the transcript has {stored:?}");
    for (call, shown) in &world.ledger.shown {
        let parts = transcript.iter().flat_map(|message| &message.parts).find_map(|part| match &part.content {
            Content::ToolResult { tool_use_id, parts, .. } if tool_use_id == call => Some(text(parts)),
            _ => None,
        });
        ensure!(parts.as_ref() == Some(shown), "{call} returned {shown}, the transcript has {parts:?}");
    }
    let Some(output) = world.ending.as_ref().map(|ending| &ending.output) else { return Ok(()) };
    if let Some(answer) = output.final_ref {
        let last = written.last().map(|last| BlobRef::of(last));
        ensure!(Some(answer) == last, "the answer is {answer:?}, the last message {last:?}");
    }
    if let Some(answer) = &output.final_message {
        let last = written.last().copied();
        ensure!(Some(&text(answer)) == last, "the answer is {answer:?}, the last message {last:?}");
    }
    Ok(())
}

pub(super) fn check_16_a_turn_is_treated_as_its_stop_reason_says(world: &World) -> Lived {
    const MAX_PAUSES: usize = 16;
    let handed_out = world.store.log.iter().filter_map(|event| match &event.body {
        EventBody::LocalToolCall { tool_use_id, .. } => Some(tool_use_id),
        _ => None,
    });
    let begun: BTreeSet<&CallId> = handed_out.chain(world.ledger.executions.iter().map(|begun| &begun.call)).collect();
    let outcome = world.run.state().outcome.as_ref();
    let cancelled = matches!(outcome, Some(Outcome::Cancelled { .. }));
    let failed = |kind| matches!(outcome, Some(Outcome::Failed { failure }) if failure.kind == kind);
    let (mut pauses, mut repairs) = (0, 0);
    for (index, spoken) in world.ledger.spoken.iter().enumerate() {
        let is_last = index + 1 == world.ledger.spoken.len();
        let ends = |kind| is_last && (cancelled || failed(kind));
        let runs = spoken.calls.iter().any(|call| begun.contains(call));
        let stop = spoken.stop.outcome();
        pauses = match stop {
            StopOutcome::Continue if !spoken.asks && !spoken.finaliser => pauses + 1,
            _ => 0,
        };
        let repaired = stop == StopOutcome::Proceed && !spoken.asks && !spoken.finaliser && spoken.misfit && !is_last;
        repairs += u32::from(repaired);
        let fine = match stop {
            StopOutcome::Proceed if repaired => repairs == 1,
            StopOutcome::Proceed | StopOutcome::Continue if spoken.finaliser => is_last && !runs,
            StopOutcome::Proceed => spoken.asks || is_last,
            StopOutcome::Continue => pauses <= MAX_PAUSES || ends(RunFailureKind::AnswerUnfinished),
            StopOutcome::Incomplete(flaw) if spoken.calls.is_empty() || spoken.finaliser => !runs && ends(kind(flaw)),
            StopOutcome::Incomplete(_) => !runs,
            StopOutcome::Reject(flaw) => !runs && ends(kind(flaw)),
            StopOutcome::Repair => unreachable!("no stop reason means it"),
        };
        ensure!(fine, "after {pauses} pauses, {spoken:?} became {outcome:?}");
    }
    Ok(())
}

fn kind(flaw: AnswerFlaw) -> RunFailureKind {
    match flaw {
        AnswerFlaw::Truncated => RunFailureKind::AnswerTruncated,
        AnswerFlaw::Refused | AnswerFlaw::MalformedCall => RunFailureKind::AnswerRefused,
        AnswerFlaw::Filtered => RunFailureKind::AnswerFiltered,
        AnswerFlaw::ContextWindow => RunFailureKind::ModelFailed,
    }
}

fn text<T: serde::Serialize + ?Sized>(value: &T) -> CanonicalJson {
    CanonicalJson::of(value).unwrap()
}
