//! Calls in flight: tool activities with their losses, and agents as runs of their own.

use serde_json::{Value, json};

use super::{
    Lived,
    ledger::{Execution, Lease},
    script::{End, Fate, Loss, Round, Stopped, Story},
    tape::{Input, Reply, wired},
    world::World,
};
use crate::{
    canonical::{CanonicalJson, Digest},
    envelope::{
        BlobRef, CallStatus, Continuation, InputRequest, SettleOutput, ToolError, ToolErrorKind, ToolInput, ToolOutput,
    },
    event::{EventBody, NewEvent},
    ids::CallId,
    run::{CallLoss, ChildOrder, ChildReport, LossVerdict, Order, Outcome, ToolOrder, after_loss},
    time::{Millis, Timestamp},
};

/// A call that was begun.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) call: CallId,
    pub(super) lands_at: Timestamp,
    pub(super) landing: Landing,
    /// What happens to it if its run ends first.
    when_stopped: Stopped,
    input: Option<Box<ToolInput>>,
}

#[derive(Debug)]
pub(super) enum Landing {
    Tool {
        output: Box<ToolOutput>,
        recorded: bool,
        /// An execution began, so its first event is in the log.
        began: bool,
    },
    Child {
        report: ChildReport,
        active_before: Millis,
        /// Calls it was lent; what it used is in its own world.
        lent: u32,
        used: u32,
    },
}

impl World {
    pub(super) fn dispatch(&mut self) -> Lived {
        let Reply::Orders(orders) = self.feed(Input::Dispatch)? else { return Ok(()) };
        for order in orders {
            match order {
                Order::Tool(order) => self.begin_tool(*order),
                Order::Child(order) => self.begin_child(*order)?,
                Order::Temporal(order) => return Err(format!("no tool of these cases is {order:?}")),
            }
            self.history += 3;
        }
        Ok(())
    }

    fn begin(&mut self, call: &CallId, tool: &str, digest: Digest) {
        self.ledger.executions.push(Execution {
            call: call.clone(),
            tool: tool.into(),
            digest,
            left: self.time_left(),
            finalising: self.run.state().finalize.is_some(),
            after_heard: self.ledger.heard.len(),
        });
    }

    fn begin_tool(&mut self, order: ToolOrder) {
        let order = ToolOrder { input: wired(&order.input), ..order };
        let bytes = serde_json::to_string(&order.input).unwrap().len();
        self.ledger.carry(order.input.turn, bytes, 1, 0);
        let input = order.input.clone();
        let digest = input.args().map(|args| args.digest()).unwrap_or_default();
        match &input.resumption {
            None => self.begin(&input.tool_call_id, input.tool_name.as_str(), digest),
            Some(resumption) => {
                let texts = resumption.responses.values().filter_map(|response| response.content.as_ref());
                let call = &input.tool_call_id;
                let given = texts.map(|text| (call.clone(), text.to_value().as_str().unwrap_or_default().to_owned()));
                self.ledger.given.extend(given);
            }
        }
        let fate = self.ledger.requested[&input.tool_call_id].fate.clone();
        let (lands_at, landing) = self.fly(&order, &fate);
        self.flights.push(Flight {
            call: input.tool_call_id.clone(),
            lands_at,
            landing,
            when_stopped: fate.when_stopped,
            input: Some(Box::new(input)),
        });
    }

    /// How the execution goes, lost reports and repeats included.
    fn fly(&mut self, order: &ToolOrder, fate: &Fate) -> (Timestamp, Landing) {
        let ends_by = order.deadline.map(|left| self.now.after(left));
        let capped = |at: Timestamp| ends_by.map_or(at, |by| at.min(by));
        let output = self.round_output(&order.input, fate);
        let (mut at, mut dispatch, mut losses) = (self.now, 1, fate.losses.iter());
        loop {
            let due = at.after(fate.takes);
            at = capped(at.after(fate.takes.min(order.timeout)));
            let settled = match losses.next() {
                None if at >= due => {
                    let landing = Landing::Tool { output: Box::new(output), recorded: true, began: true };
                    return (at, landing);
                }
                Some(Loss::NeverStarted) => SettleOutput::NeverStarted,
                Some(Loss::Finished) => SettleOutput::Finished { output: Box::new(output.clone()) },
                // It timed out, and its outcome is unknown.
                Some(Loss::Unknown) | None => SettleOutput::Unknown,
            };
            let recorded = matches!(settled, SettleOutput::Finished { .. });
            let began = !matches!(settled, SettleOutput::NeverStarted);
            let time_left = ends_by.is_none_or(|by| at < by);
            match after_loss(CallLoss::TimedOut, settled, dispatch, time_left) {
                LossVerdict::Again => dispatch += 1,
                LossVerdict::Conclude(output) => return (at, Landing::Tool { output, recorded, began }),
            }
        }
    }

    fn round_output(&mut self, input: &ToolInput, fate: &Fate) -> ToolOutput {
        let round = input.resumption.as_ref().map_or(1, |resumption| resumption.round);
        let Some(round) = fate.rounds.get(round as usize - 1) else { return self.output(input, fate.end) };
        let asked = InputRequest { key: "text".to_owned(), prompt: "What next?".to_owned(), schema: None, url: None };
        let mut output = ToolOutput::new(CallStatus::Failed);
        output.continuation = Some(Continuation {
            state: json!({"of": input.tool_call_id}).into(),
            inputs: matches!(round, Round::Asks).then_some(asked).into_iter().collect(),
            repeatable: matches!(round, Round::GoesOn),
        });
        output
    }

    fn output(&mut self, input: &ToolInput, end: End) -> ToolOutput {
        let value = match end {
            End::Failed => {
                return ToolOutput::new(CallStatus::Failed).with_error(ToolError::new(ToolErrorKind::ToolFailed, "no"));
            }
            End::Ok | End::Parts => json!({"of": input.tool_call_id}),
            End::Null => json!(null),
            End::Large => json!({"of": input.tool_call_id, "body": "x".repeat(3_000)}),
        };
        let shown = matches!(end, End::Parts).then(|| {
            let parts = json!([{"kind": "text", "text": "seen"}, {"kind": "image", "format": "png", "bytes": "AAEC"},
                               {"kind": "hologram", "of": input.tool_call_id}]);
            self.store.fit(parts.into(), input.inline_limit)
        });
        let result = self.store.fit(value.into(), input.inline_limit);
        ToolOutput::new(CallStatus::Ok).with_result(&result).with_content(shown.as_ref())
    }

    fn begin_child(&mut self, order: ChildOrder) -> Lived {
        let ChildOrder { call, input } = order;
        let request = &self.ledger.requested[&call];
        let (tool, turn) = (request.tool.clone(), request.turn);
        let bytes = serde_json::to_string(&input).unwrap().len();
        self.ledger.carry(turn, bytes, 1, 0);
        let args = input.tool_args.as_ref().map(CanonicalJson::digest);
        let digest = args.or_else(|| input.tool_args_ref.map(|stored| stored.digest)).unwrap_or_default();
        self.begin(&call, tool.as_str(), digest);
        let ceiling = input.budget_ceiling.unwrap_or_default();
        self.ledger.leases.push(Lease { ceiling, time_left: self.time_left(), taken: self.calls_taken() });

        let story = self.story.children.get(self.ledger.children.len()).cloned();
        let story = story.unwrap_or_else(|| Story {
            turns: Vec::new(),
            people: Vec::new(),
            answers: Vec::new(),
            children: Vec::new(),
            ..self.story.clone()
        });
        let child = Self::live(story, wired(&input), self.now)?;
        let report = match child.ending.as_deref() {
            Some(ending) => match &ending.outcome {
                Outcome::Completed { .. } => ChildReport::Finished(Box::new(wired(&ending.output))),
                Outcome::Failed { failure } => ChildReport::Failed { message: failure.to_string() },
                Outcome::Cancelled { .. } => ChildReport::Cancelled,
            },
            None => ChildReport::Failed { message: "it never ended".to_owned() },
        };
        self.store.share(&child.store);
        self.flights.push(Flight {
            call,
            lands_at: child.now,
            landing: Landing::Child {
                report,
                active_before: self.ledger.active,
                lent: ceiling.max_tool_calls.unwrap_or(0),
                used: child.calls_begun(),
            },
            when_stopped: Stopped::Obeys,
            input: None,
        });
        self.ledger.children.push(child);
        Ok(())
    }

    /// Calls begun by this run and all runs below it.
    pub(super) fn calls_begun(&self) -> u32 {
        let own = u32::try_from(self.ledger.executions.len() + self.handed_out().count()).unwrap();
        own + self.ledger.children.iter().map(Self::calls_begun).sum::<u32>()
    }

    /// Calls of the table that were handed out to an external executor.
    pub(super) fn handed_out(&self) -> impl Iterator<Item = &CallId> {
        let handed = self.store.log.iter().filter_map(|event| match &event.body {
            EventBody::LocalToolCall { tool_use_id, .. } => Some(tool_use_id),
            _ => None,
        });
        handed.filter(|call| !self.ledger.requested[*call].by_await)
    }

    fn calls_taken(&self) -> u32 {
        let landed: u32 = self.ledger.children.iter().map(Self::calls_begun).sum();
        let flying = self.flights.iter().map(|flight| match flight.landing {
            Landing::Child { lent, used, .. } => (lent, used),
            Landing::Tool { .. } => (0, 0),
        });
        let (lent, used) = flying.fold((0, 0), |(lent, used), one| (lent + one.0, used + one.1));
        u32::try_from(self.ledger.executions.len()).unwrap() + landed - used + lent
    }

    pub(super) fn next_landing(&self) -> Option<Timestamp> {
        self.flights.iter().map(|flight| flight.lands_at).min()
    }

    /// The run has ended: what flies is called back.
    pub(super) fn stop_flights(&mut self) {
        let (now, mut flights) = (self.now, std::mem::take(&mut self.flights));
        for flight in flights.iter_mut().filter(|flight| flight.lands_at > now) {
            flight.lands_at = now;
            flight.landing = match (&flight.input, &flight.landing) {
                (Some(input), _) => self.stopped(input, flight.when_stopped),
                (None, Landing::Child { active_before, lent, used, .. }) => Landing::Child {
                    report: ChildReport::Cancelled,
                    active_before: *active_before,
                    lent: *lent,
                    used: *used,
                },
                (None, Landing::Tool { .. }) => continue,
            };
        }
        self.flights = flights;
    }

    fn stopped(&mut self, input: &ToolInput, how: Stopped) -> Landing {
        let settled = match how {
            Stopped::Obeys => {
                let error = ToolError::new(ToolErrorKind::Cancelled, "stopped");
                let output = ToolOutput::new(CallStatus::Cancelled).with_error(error);
                return Landing::Tool { output: Box::new(output), recorded: true, began: true };
            }
            Stopped::NeverBegan => SettleOutput::NeverStarted,
            Stopped::Vanishes => SettleOutput::Unknown,
            Stopped::HadFinished => SettleOutput::Finished { output: Box::new(self.output(input, End::Ok)) },
        };
        let recorded = matches!(how, Stopped::HadFinished);
        let began = !matches!(how, Stopped::NeverBegan);
        match after_loss(CallLoss::Cancelled, settled, 1, false) {
            LossVerdict::Conclude(output) => Landing::Tool { output, recorded, began },
            LossVerdict::Again => unreachable!("a cancelled call is not handed out again"),
        }
    }

    /// The first flight to land reports.
    pub(super) fn land_next(&mut self) -> Lived {
        let first = (0..self.flights.len()).min_by_key(|index| self.flights[*index].lands_at);
        let Some(index) = first else { return Err("waits for calls, but none is in flight".to_owned()) };
        self.deeds_until(self.flights[index].lands_at)?;
        self.advance(self.flights[index].lands_at);
        let flight = self.flights.remove(index);
        self.history += 3;
        match flight.landing {
            Landing::Tool { output, recorded, began } => {
                if let Some(input) = flight.input {
                    self.log_execution(&input, &output, began, recorded)?;
                }
                let output: Box<ToolOutput> = wired(&output);
                self.note_parts(&flight.call, &output);
                self.feed(Input::ToolFinished { call: flight.call, output, recorded })?;
            }
            Landing::Child { report, active_before, lent, .. } => {
                if let ChildReport::Finished(output) = &report {
                    // Its time is charged as far as this run did not work at the same time.
                    let overlap = self.ledger.active.saturating_sub(active_before);
                    self.ledger.active = self.ledger.active.plus(output.active_ms.saturating_sub(overlap));
                    self.ledger.charged += output.tool_calls;
                } else {
                    self.ledger.charged += lent;
                }
                self.feed(Input::ChildFinished { call: flight.call, report })?;
            }
        }
        Ok(())
    }

    /// The parts of an output, as they are on the wire.
    fn note_parts(&mut self, call: &CallId, output: &ToolOutput) {
        let mut fields = serde_json::to_value(output).unwrap();
        let stored = serde_json::from_value::<Option<BlobRef>>(fields["contentRef"].take()).unwrap();
        let parts = match (stored, fields["content"].take()) {
            (Some(stored), _) => self.store.body(stored.digest),
            (None, Value::Null) => return,
            (None, parts) => parts.into(),
        };
        self.ledger.shown.insert(call.clone(), parts);
    }

    /// What the tool activity itself writes.
    fn log_execution(&mut self, input: &ToolInput, output: &ToolOutput, began: bool, recorded: bool) -> Lived {
        let (call, name) = (input.tool_call_id.clone(), input.tool_name.clone());
        let bytes = serde_json::to_string(output).unwrap().len();
        self.ledger.carry(input.turn, bytes, 1, 0);
        if began {
            let body = EventBody::ToolCall {
                tool_use_id: call.clone(),
                name: name.clone(),
                input: input.payload.clone(),
                digest: input.payload_digest,
                turn: input.turn,
            };
            self.store.log(vec![NewEvent::new(format!("call/{call}/begin"), body)])?;
        }
        if recorded && output.continuation.is_none() {
            let body = EventBody::ToolResult {
                tool_use_id: call.clone(),
                name,
                ok: output.status == CallStatus::Ok,
                status: output.status,
                result: None,
                result_bytes: output.result_bytes,
                error: output.error.clone(),
                retry_hint: None,
                telemetry: None,
            };
            self.store.log(vec![NewEvent::new(format!("call/{call}/result"), body)])?;
        }
        Ok(())
    }
}
