//! The world around one run: it drives the core exactly as the workflow's loop does, on a virtual clock.

use std::collections::VecDeque;

use super::{
    Lived,
    answering::Reaction,
    ensure,
    flights::{Flight, Landing},
    ledger::Ledger,
    people::Deed,
    script::Story,
    store::Store,
    tape::{Input, Reply, Tape, wired},
};
use crate::{
    envelope::{Answer, OpenOutput, RecordInput, RunInput, VERSION},
    event::{EventBody, NewEvent},
    message::Message,
    policy::AgentPolicy,
    run::{Run, RunEnding, RunStatus, Step},
    time::{Millis, Timestamp},
};

/// Far more steps than any case needs.
const MAX_STEPS: usize = 3_000;

#[derive(Debug)]
pub(super) struct World {
    pub(super) story: Story,
    pub(super) run: Run,
    pub(super) now: Timestamp,
    pub(super) store: Store,
    pub(super) tape: Tape,
    pub(super) ledger: Ledger,
    pub(super) flights: Vec<Flight>,
    /// A plan is being worked on.
    pub(super) planning: bool,
    pub(super) deeds: VecDeque<Deed>,
    pub(super) last_deed: Timestamp,
    pub(super) reactions: VecDeque<Reaction>,
    pub(super) last_reaction: Timestamp,
    pub(super) cancelled: bool,
    pub(super) ending: Option<Box<RunEnding>>,
    pub(super) steps: usize,
    /// How long the history of this execution is, and the status it last showed.
    pub(super) history: u32,
    shown: RunStatus,
    /// Answers that were accepted.
    pub(super) answered: Vec<Answer>,
    /// Makes what people say unique.
    pub(super) words: u32,
}

impl World {
    /// Lives one run from its start to its end.
    pub(super) fn live(story: Story, input: RunInput, now: Timestamp) -> Lived<Self> {
        let mut store = Store::open(vec![Message::user("do it")]);
        let agent_id = input.agent_id.clone();
        let (workspace, labels) = (input.workspace(), input.labels.clone());
        let started = EventBody::Started {
            agent_id,
            workspace,
            session_id: None,
            parent_run_id: input.parent_run_id.clone(),
            parent_tool_call_id: input.parent_tool_call_id.clone(),
            model_id: "script:case".to_owned(),
            labels,
            metadata: input.metadata.clone(),
            started_by: input.started_by.clone(),
        };
        store.log(vec![NewEvent::new("started", started)])?;
        let opened = OpenOutput {
            v: VERSION,
            agent_digest: crate::canonical::Digest::ZERO,
            policy: AgentPolicy { policy: story.policy.clone(), guards: story.guards.clone() },
            tools: story.tools(),
            head: store.head(),
            model_id: Some("script:case".to_owned()),
            enforcement: story.enforcement,
            fallback: Vec::new(),
            primary_model_id: None,
        };
        let (tape, run) = Tape::start(input, opened)?;
        let mut world = Self {
            deeds: story.people.clone().into(),
            reactions: story.answers.clone().into(),
            story,
            run,
            now,
            store,
            tape,
            ledger: Ledger::default(),
            flights: Vec::new(),
            planning: false,
            last_deed: now,
            last_reaction: now,
            cancelled: false,
            ending: None,
            steps: 0,
            history: 3,
            shown: RunStatus::Running,
            answered: Vec::new(),
            words: 0,
        };
        world.drive()?;
        Ok(world)
    }

    fn drive(&mut self) -> Lived {
        loop {
            self.steps += 1;
            ensure!(self.steps < MAX_STEPS, "the run does not end: {:?}", self.run.state());
            self.deeds_until(self.now)?;
            self.notice_cancellation()?;
            let Reply::Step(step) = self.feed(Input::Look { history: self.history })? else { continue };
            if step != Step::HandOut {
                self.show_status()?;
            }
            match step {
                Step::Plan => self.plan()?,
                Step::HandOut => {
                    self.feed(Input::HandOut)?;
                }
                Step::Dispatch => self.dispatch()?,
                Step::Wait => self.wait()?,
                Step::ContinueAsNew => self.carry_over()?,
                Step::Finish => return self.finish(),
            }
        }
    }

    fn show_status(&mut self) -> Lived {
        let status = self.run.status();
        if std::mem::replace(&mut self.shown, status) != status && !status.is_terminal() {
            self.feed(Input::Show)?;
        }
        Ok(())
    }

    /// Gives the run an input, and compares its clock with the world's.
    pub(super) fn feed(&mut self, input: Input) -> Lived<Reply> {
        let reply = self.tape.feed(&mut self.run, input, self.now)?;
        let policy = &self.run.state().policy;
        let reported = self.run.state().clock.remaining(policy.time_budget, self.now);
        self.ledger.clock.push((self.time_left(), reported));
        Ok(reply)
    }

    /// What is left of the time budget by the world's own reckoning.
    pub(super) fn time_left(&self) -> Option<Millis> {
        self.run.state().policy.time_budget.map(|budget| budget.saturating_sub(self.ledger.active))
    }

    /// Lets time pass. It counts as working time while a plan or a tool of this run works.
    pub(super) fn advance(&mut self, to: Timestamp) {
        let own = self.flights.iter().any(|flight| matches!(flight.landing, Landing::Tool { .. }));
        if self.planning || own {
            self.ledger.active = self.ledger.active.plus(to.since(self.now));
        }
        self.now = self.now.max(to);
    }

    pub(super) fn notice_cancellation(&mut self) -> Lived {
        if self.cancelled {
            self.feed(Input::Cancel)?;
        }
        Ok(())
    }

    fn wait(&mut self) -> Lived {
        if self.record()? {
            return Ok(());
        }
        if self.run.state().outcome.is_some() {
            self.stop_flights();
            return self.land_next();
        }
        let landing = self.next_landing();
        let (deed, expiry) = (self.next_deed_at(), self.run.next_deadline());
        let others = [deed, expiry].into_iter().flatten().min();
        match (landing, others) {
            (Some(at), None) => self.land_at(at),
            (Some(at), Some(other)) if at <= other => self.land_at(at),
            _ if deed.is_some_and(|at| expiry.is_none_or(|expiry| at <= expiry)) => self.next_deed(),
            (_, Some(expiry)) => {
                self.advance(expiry);
                Ok(())
            }
            (None, None) => self.help(),
        }
    }

    fn land_at(&mut self, at: Timestamp) -> Lived {
        self.advance(at);
        self.land_next()
    }

    /// Writes what the run caused so far; says whether there was anything.
    fn record(&mut self) -> Lived<bool> {
        let Reply::Record(Some(input)) = self.feed(Input::Record)? else { return Ok(false) };
        self.advance(self.now.after(Millis(1)));
        self.deeds_until(self.now)?;
        let head = self.write_record(*input)?;
        self.feed(Input::Recorded(head))?;
        Ok(true)
    }

    fn write_record(&mut self, input: RecordInput) -> Lived<crate::envelope::TranscriptHead> {
        let turn = self.run.state().turn.saturating_sub(1);
        let bytes = serde_json::to_string(&input).unwrap().len();
        let text = input.outbox.messages.iter().map(|message| serde_json::to_string(message).unwrap().len()).sum();
        self.ledger.carry(turn, bytes, input.outbox.events.len(), text);
        self.history += 2;
        let mut input = wired(&input);
        if let Some(stored) = input.final_ref {
            let answer: Message = self.store.body(stored.digest).decode().unwrap();
            for event in &mut input.outbox.events {
                if let EventBody::Result { text, .. } | EventBody::Error { partial_text: Some(text), .. } =
                    &mut event.body
                {
                    *text = answer.plain_text();
                }
            }
        }
        self.store.write(input.head, Vec::new(), input.outbox)
    }

    /// A new execution takes over; nothing but the history's length may tell.
    pub(super) fn carry_over(&mut self) -> Lived {
        let before = serde_json::to_string(&self.run.continue_as_new()).unwrap();
        self.feed(Input::ContinueAsNew)?;
        let carried = serde_json::to_string(&self.run.continue_as_new()).unwrap();
        ensure!(carried == before, "a run that continued as new is not what it was: {carried}, {before}");
        let (digest, after) = self.tape.last_digests();
        ensure!(digest == after, "continuing as new changed the state");
        self.ledger.crashes += 1;
        (self.history, self.shown) = (3, RunStatus::Running);
        Ok(())
    }

    /// The worker dies and another one lives the history again.
    pub(super) fn crash(&mut self) -> Lived {
        let twin = self.tape.replay()?;
        ensure!(twin.continue_as_new() == self.run.continue_as_new(), "a replayed run is not what it was");
        self.run = twin;
        self.ledger.crashes += 1;
        Ok(())
    }

    fn finish(&mut self) -> Lived {
        let Reply::Ending(ending) = self.feed(Input::End)? else { return Err("no ending".to_owned()) };
        self.ending = Some(ending.clone());
        self.advance(self.now.after(Millis(1)));
        // The last record is under way: people can still speak, but nothing can be written any more.
        for _ in 0..2.min(self.deeds.len()) {
            self.next_deed()?;
        }
        // Its activity may be repeated.
        self.write_record(ending.record.clone())?;
        self.write_record(ending.record)?;
        Ok(())
    }
}
