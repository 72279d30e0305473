//! A model's response as the run keeps it: ordered parts with call ids of our own, and the facts about its calls.

use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    body::Body,
    canonical::CanonicalJson,
    envelope::{AwaitRequest, ToolRequest},
    event::CallSummary,
    ids::CallId,
    message::{Content, Part},
};

use crate::{RunActivities, approvals::Approvals, definitions::Prepared, failures};

/// The parts of an assistant message, and the facts that the workflow decides by.
pub(crate) struct Turn {
    pub(crate) parts: Vec<Part>,
    pub(crate) calls: Vec<ToolRequest>,
    pub(crate) awaits: Vec<AwaitRequest>,
}

/// Call ids are ours, so that they are unique within the run and the same on every attempt. The provider's id stays in
/// the part's provider item.
struct Numbering {
    turn: u32,
    next: u32,
}

impl Numbering {
    fn id(&mut self) -> CallId {
        let id = CallId::new(format!("call-{}-{}", self.turn, self.next));
        self.next += 1;
        id
    }
}

impl RunActivities {
    pub(crate) async fn read_turn(
        &self,
        prepared: &Prepared,
        turn: u32,
        (mut parts, awaits): (Vec<Part>, Vec<AwaitRequest>),
        inline_limit: u64,
        approvals: Option<&Approvals<'_>>,
    ) -> Result<Turn, ActivityError> {
        let mut numbering = Numbering { turn, next: 0 };
        let mut calls = Vec::new();
        for part in &mut parts {
            if let Content::ToolUse { id, name, input } = &mut part.content {
                *id = numbering.id();
                let (args, invalid) = match prepared.check(name, input.to_value()) {
                    Ok(args) => (args.into(), None),
                    Err(hint) => (input.clone(), Some(*hint)),
                };
                *input = args;
                let (args, large) = Body::fit(input.clone(), inline_limit);
                self.put(large).await?;
                let mut call = ToolRequest::new(id.clone(), name.clone(), &args);
                call.invalid = invalid;
                if let Some(approvals) = approvals {
                    call.approval = approvals.decide(&call.name, call.payload_digest, &input.to_value()).await?;
                }
                calls.push(call);
            }
        }
        let awaits = number_awaits(awaits, &mut numbering, &mut parts);
        Ok(Turn { parts, calls, awaits })
    }

    /// Stores a body that did not fit, if there is one.
    pub(crate) async fn put(&self, large: Option<CanonicalJson>) -> Result<(), ActivityError> {
        if let Some(json) = large {
            self.store.put_blob(json).await.map_err(|error| failures::store(&error))?;
        }
        Ok(())
    }
}

/// Awaits that stand for calls get their place in the assistant's message like any other call.
fn number_awaits(awaits: Vec<AwaitRequest>, numbering: &mut Numbering, parts: &mut Vec<Part>) -> Vec<AwaitRequest> {
    let numbered = awaits.into_iter().map(|request| match request {
        AwaitRequest::Clarification { .. } => request,
        AwaitRequest::Questions { tool_name, title, questions, expires_in_ms, on_expiry, .. } => {
            let tool_call_id = numbering.id();
            let input = serde_json::json!({"title": title, "questions": questions});
            parts.push(Part::tool_use(tool_call_id.clone(), tool_name.clone(), input.into()));
            AwaitRequest::Questions { tool_call_id, tool_name, title, questions, expires_in_ms, on_expiry }
        }
        AwaitRequest::ExternalTools { mut calls, expires_in_ms, on_expiry } => {
            for call in &mut calls {
                call.tool_call_id = numbering.id();
                let input = call.inline_args().cloned().unwrap_or_else(CanonicalJson::null);
                parts.push(Part::tool_use(call.tool_call_id.clone(), call.name.clone(), input));
            }
            AwaitRequest::ExternalTools { calls, expires_in_ms, on_expiry }
        }
    });
    numbered.collect()
}

/// A call as the `assistant_message` event lists it.
pub(crate) fn summary(part: &Part) -> Option<CallSummary> {
    /// Larger arguments stay out of the event; the transcript has them.
    const SHOWN: u64 = 4096;
    match &part.content {
        Content::ToolUse { id, name, input } => {
            let shown = (input.bytes() <= SHOWN).then(|| input.clone());
            Some(CallSummary { id: id.clone(), name: name.clone(), input: shown })
        }
        _ => None,
    }
}
