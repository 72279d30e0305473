//! Checks that hold for every run, whatever happened to it.

use std::collections::BTreeMap;

use windlass_core::{
    event::Event,
    message::{Content, Message, Role},
};

/// Invariant 1: every tool_use is answered exactly once, by the message right after it.
pub(crate) fn every_call_has_one_result(transcript: &[Message]) {
    for (index, message) in transcript.iter().enumerate() {
        let mut uses = BTreeMap::new();
        for part in &message.parts {
            if let Content::ToolUse { id, .. } = &part.content {
                assert!(uses.insert(id.clone(), 0).is_none(), "call id {id} is used twice");
            }
        }
        if uses.is_empty() {
            continue;
        }
        let answer = transcript.get(index + 1).unwrap_or_else(|| panic!("calls {uses:?} have no results"));
        assert_eq!(answer.role, Role::User);
        for part in &answer.parts {
            if let Content::ToolResult { tool_use_id, .. } = &part.content {
                *uses.get_mut(tool_use_id).unwrap_or_else(|| panic!("a result for no call: {tool_use_id}")) += 1;
            }
        }
        assert!(uses.values().all(|count| *count == 1), "results per call: {uses:?}");
    }
}

/// Invariants 2 and 10.
pub(crate) fn log_is_gapless_with_one_terminal_event_at_its_end(log: &[Event]) {
    let seqs: Vec<u64> = log.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=log.len() as u64).collect::<Vec<_>>(), "seq has no gaps");
    let terminal: Vec<usize> =
        log.iter().enumerate().filter(|(_, event)| event.is_terminal()).map(|(index, _)| index).collect();
    assert_eq!(terminal, [log.len() - 1], "one terminal event, last");
}
