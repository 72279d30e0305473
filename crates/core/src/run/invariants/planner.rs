//! The plan activity as the world plays it: it writes what it is given, then says what the script says.

use serde_json::{Value, json};

use super::{
    Lived, content,
    ledger::{Planned, Requested, Spoken},
    people::CancelledPlan,
    script::{Ask, Call, End, Fate, Patience, PlanEnd, Stopped, Turn, silence},
    tape::{Input, Reply, wired},
    world::World,
};
use crate::{
    body::Body,
    canonical::CanonicalJson,
    envelope::{
        AwaitRequest, Extra, FinalFacts, OutboxMessage, PlanActivityInput, PlanActivityOutput, PlanResult, Question,
        RetryHint, RetryReason, TokenUsage, ToolRequest, TranscriptHead, Tuning, VERSION,
    },
    event::{EventBody, NewEvent},
    ids::CallId,
    message::Message,
    run::{PlanFailure, PlanOrder},
    time::Millis,
};

/// How the activity ended, for the workflow.
enum Planning {
    Answered,
    Failed { written: bool, spoken: bool, timed_out: bool },
}

impl World {
    pub(super) fn plan(&mut self) -> Lived {
        let left = self.time_left();
        let carried = serde_json::to_string(&self.run.continue_as_new()).unwrap().len();
        self.ledger.carried.insert(self.run.state().turn, carried);
        let Reply::Plan(order) = self.feed(Input::BeginPlan)? else { return Ok(()) };
        let turn = self.scripted_turn(&order.input);
        self.note_plan(&order, left);
        self.planning = true;
        let ended = self.think(&order, &turn)?;
        self.planning = false;
        self.history += 3;
        let input = wired(&order.input);
        let answered = match ended {
            Planning::Failed { written, spoken, timed_out } => {
                if written {
                    self.write_before(&input)?;
                }
                let partial_text = spoken.then(|| format!("turn {} be", input.turn));
                Err(PlanFailure { timed_out, retryable: true, partial_text, ..PlanFailure::new("no answer") })
            }
            Planning::Answered => {
                let attempts = if let PlanEnd::Answers { attempts } = turn.end { attempts } else { 1 };
                let mut head = self.write_before(&input)?;
                for _ in 1..attempts {
                    head = self.write_before(&input)?;
                }
                Ok(self.commit(&input, head, &turn)?)
            }
        };
        self.notice_cancellation()?;
        match answered {
            Ok(output) => {
                let sent = self.ledger.plans.last().map_or(0, |plan| plan.owed.len());
                self.ledger.owed.drain(..sent);
                self.feed(Input::PlanSucceeded(Box::new(wired(&output))))?;
            }
            Err(failure) => {
                self.feed(Input::PlanFailed(failure))?;
            }
        }
        Ok(())
    }

    fn scripted_turn(&self, input: &PlanActivityInput) -> Turn {
        if input.finalize.is_some() {
            return self.story.finale.clone();
        }
        let index = usize::try_from(input.turn).unwrap();
        self.story.turns.get(index).cloned().unwrap_or_else(silence)
    }

    fn note_plan(&mut self, order: &PlanOrder, left: Option<Millis>) {
        let said = order.input.outbox.messages.iter().filter_map(|entry| match entry {
            OutboxMessage::Message { message } => Some(message.plain_text()),
            OutboxMessage::ToolResults { .. } => None,
        });
        let said: Vec<String> = said.collect();
        let bytes = serde_json::to_string(&order.input).unwrap().len();
        let parts = order.input.outbox.events.len() + order.input.tool_outputs.len() + said.len();
        self.ledger.carry(order.input.turn, bytes, parts, said.iter().map(String::len).sum());
        self.ledger.plans.push(Planned {
            finaliser: order.input.finalize.is_some(),
            left,
            timeout: order.timeout,
            deadline: order.deadline,
            owed: self.ledger.owed.clone(),
            said,
        });
    }

    /// Lets the model think, and people act meanwhile.
    fn think(&mut self, order: &PlanOrder, turn: &Turn) -> Lived<Planning> {
        let late = matches!(turn.end, PlanEnd::Hangs { .. } | PlanEnd::Unheard);
        let takes = if late { Millis(u64::MAX) } else { turn.takes };
        let limit = order.deadline.map_or(order.timeout, |deadline| deadline.min(order.timeout));
        let ends_at = self.now.after(takes.min(limit));
        while let Some(at) = self.next_deed_at()
            && at <= ends_at
            && !self.cancelled
        {
            let cancels = self.cancels_next();
            self.next_deed()?;
            match cancels.filter(|_| self.cancelled) {
                Some(CancelledPlan::Answers) => return Ok(Planning::Answered),
                Some(CancelledPlan::Fails { written }) => {
                    return Ok(Planning::Failed { written, spoken: true, timed_out: false });
                }
                None => {}
            }
        }
        self.advance(ends_at);
        Ok(match turn.end {
            PlanEnd::Unheard => Planning::Answered,
            PlanEnd::Hangs { written } => Planning::Failed { written, spoken: false, timed_out: true },
            _ if takes > limit => Planning::Failed { written: true, spoken: false, timed_out: true },
            PlanEnd::Fails { written, spoken } => Planning::Failed { written, spoken, timed_out: false },
            PlanEnd::Answers { .. } => Planning::Answered,
        })
    }

    fn write_before(&mut self, input: &PlanActivityInput) -> Lived<TranscriptHead> {
        self.store.write(input.head, input.tool_outputs.clone(), input.outbox.clone())
    }

    fn commit(&mut self, input: &PlanActivityInput, head: TranscriptHead, turn: &Turn) -> Lived<PlanActivityOutput> {
        let mut saying = Saying { turn: input.turn, calls: Vec::new() };
        let mut tool_calls = Vec::new();
        for call in &turn.calls {
            tool_calls.push(self.request(&mut saying, call, input.inline_limit, false));
        }
        let mut awaits = Vec::new();
        for ask in &turn.asks {
            awaits.push(self.ask(&mut saying, ask, input.inline_limit));
        }
        let calls: Vec<CallId> = saying.calls.iter().map(|call| CallId::new(call["id"].as_str().unwrap())).collect();
        let written = json!({"role": "assistant", "parts": content::parts(&turn.pieces, saying.calls)});
        let message: Message = serde_json::from_value(written.clone()).unwrap();
        let text = message.plain_text();
        self.ledger.spoken.push(Spoken {
            written: written.into(),
            calls,
            asks: !tool_calls.is_empty() || !awaits.is_empty(),
            finaliser: input.finalize.is_some(),
            stop: turn.stop.clone(),
            misfit: turn.misfit && self.story.enforcement.is_some(),
        });
        let message_ref = self.store.put(CanonicalJson::of(&message).unwrap());
        let is_final = input.finalize.is_some() || (tool_calls.is_empty() && awaits.is_empty());
        let fits = message_ref.bytes <= Tuning::answer_limit(input.inline_limit);
        let final_response = is_final.then(|| FinalFacts {
            message: fits.then(|| message.clone()),
            message_ref,
            flaw: turn.stop.known_flaw(),
            schema_fit: turn.fit(self.story.enforcement),
        });
        let parts = tool_calls.len() + awaits.len();
        let output = PlanActivityOutput {
            v: VERSION,
            result: PlanResult { tool_calls, awaits, final_response, ..PlanResult::default() },
            transcript: Vec::new(),
            usage: TokenUsage { input_tokens: 10, total_tokens: 10, ..TokenUsage::default() },
            head: self.store.append(head, vec![message])?,
            finish_reason: Some(turn.stop.clone()),
            enforced: None,
            extra: Extra::new(),
        };
        let said = EventBody::AssistantMessage {
            text,
            turn: input.turn,
            finish_reason: Some(turn.stop.clone()),
            tool_calls: Vec::new(),
            model: "script:case".to_owned(),
        };
        self.store.log(vec![NewEvent::new(format!("turn/{}/message", input.turn), said)])?;
        let last_words = if is_final && fits { usize::try_from(message_ref.bytes).unwrap() } else { 0 };
        self.ledger.carry(input.turn, serde_json::to_string(&output).unwrap().len(), 2 * parts, last_words);
        Ok(output)
    }

    fn request(&mut self, saying: &mut Saying, call: &Call, inline_limit: u64, by_await: bool) -> ToolRequest {
        let args = if call.large { json!({"n": call.arg, "x": "x".repeat(3_000)}) } else { json!({"n": call.arg}) };
        let args = CanonicalJson::from(args);
        let id = saying.tool_use(call.tool, args.clone());
        let args = self.store.fit(args, inline_limit);
        let requested = Requested {
            tool: call.tool.into(),
            turn: saying.turn,
            digest: args.digest(),
            by_await,
            fate: call.fate.clone(),
        };
        self.ledger.requested.insert(id.clone(), requested);
        let mut request = ToolRequest::new(id, call.tool.into(), &args);
        request.invalid = call.invalid.then(|| RetryHint {
            message: Some("n is too small".to_owned()),
            ..RetryHint::new(RetryReason::InvalidArguments)
        });
        request
    }

    fn ask(&mut self, saying: &mut Saying, ask: &Ask, inline_limit: u64) -> AwaitRequest {
        let outside = |tool| Call { tool, arg: 0, large: false, invalid: false, fate: unused_fate() };
        match ask {
            Ask::Clarification { default, patience: Patience { expires_in, on_expiry } } => {
                AwaitRequest::Clarification {
                    question: "which one?".to_owned(),
                    missing_fields: Vec::new(),
                    restrict_to_tool: None,
                    example_input: None,
                    clarifying_prompt: None,
                    default_answer: default.then(|| "the first".to_owned()),
                    expires_in_ms: *expires_in,
                    on_expiry: *on_expiry,
                }
            }
            Ask::Questions { patience: Patience { expires_in, on_expiry } } => {
                let request = self.request(saying, &outside("questions"), inline_limit, true);
                let question = Question {
                    id: "q".to_owned(),
                    prompt: "how many?".to_owned(),
                    options: Vec::new(),
                    allow_multiple: false,
                };
                AwaitRequest::Questions {
                    tool_call_id: request.tool_call_id,
                    tool_name: request.name,
                    title: None,
                    questions: vec![question],
                    expires_in_ms: *expires_in,
                    on_expiry: *on_expiry,
                }
            }
            Ask::External { calls, patience: Patience { expires_in, on_expiry } } => {
                let request = |_| {
                    let request = self.request(saying, &outside("phone"), inline_limit, true);
                    ToolRequest::new(request.tool_call_id, request.name, &Body::Inline(CanonicalJson::null()))
                };
                let calls = (0..*calls).map(request).collect();
                AwaitRequest::ExternalTools { calls, expires_in_ms: *expires_in, on_expiry: *on_expiry }
            }
        }
    }
}

/// An assistant's message in the making; its calls are numbered as the real activity numbers them.
struct Saying {
    turn: u32,
    calls: Vec<Value>,
}

impl Saying {
    fn tool_use(&mut self, tool: &str, input: CanonicalJson) -> CallId {
        let id = CallId::new(format!("call-{}-{}", self.turn, self.calls.len()));
        self.calls.push(json!({"kind": "tool_use", "id": id, "name": tool, "input": input}));
        id
    }
}

/// The fate of a call that is never dispatched from here.
fn unused_fate() -> Fate {
    Fate { takes: Millis::ZERO, end: End::Ok, losses: Vec::new(), when_stopped: Stopped::Obeys, rounds: Vec::new() }
}
