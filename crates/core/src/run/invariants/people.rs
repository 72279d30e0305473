//! What people do to a run unasked, rightly and wrongly, and what they must get for it.

use proptest::prelude::*;

use super::{
    Lived,
    answering::{How, Reaction, how},
    ledger::{Heard, Promise},
    tape::Input,
    world::World,
};
use crate::{
    envelope::{PauseRequest, ResumeRequest, SteerRequest},
    ids::RunId,
    message::Message,
    time::{Millis, Timestamp},
};

/// An action of a user, some time after the previous one.
#[derive(Debug, Clone)]
pub(super) struct Deed {
    after: Millis,
    act: Act,
}

#[derive(Debug, Clone)]
enum Act {
    Answer { pick: u8, how: How, elsewhere: bool },
    Pause { elsewhere: bool },
    Resume { elsewhere: bool, says: bool },
    Steer { elsewhere: bool, text: Steer },
    Noise,
    Cancel(CancelledPlan),
    Crash { carry: bool },
    Redeliver { pick: u8 },
}

#[derive(Debug, Clone, Copy)]
enum Steer {
    Words,
    Nothing,
    TooMuch,
}

/// What becomes of a plan that is under way when its run is cancelled.
#[derive(Debug, Clone, Copy)]
pub(super) enum CancelledPlan {
    Answers,
    Fails { written: bool },
}

pub(super) fn deed() -> impl Strategy<Value = Deed> {
    let after = prop_oneof![6 => 0..1_500_u64, 2 => 0..20_000_u64, 1 => 3_600_000..2_000_000_000_u64];
    let elsewhere = || prop::bool::weighted(0.1);
    let plan =
        prop_oneof![Just(CancelledPlan::Answers), any::<bool>().prop_map(|written| CancelledPlan::Fails { written })];
    let act = prop_oneof![
        4 => (any::<u8>(), how(), elsewhere()).prop_map(|(pick, how, elsewhere)| Act::Answer { pick, how, elsewhere }),
        2 => elsewhere().prop_map(|elsewhere| Act::Pause { elsewhere }),
        2 => (elsewhere(), any::<bool>()).prop_map(|(elsewhere, says)| Act::Resume { elsewhere, says }),
        4 => (elsewhere(), prop_oneof![8 => Just(Steer::Words), 1 => Just(Steer::Nothing), 1 => Just(Steer::TooMuch)])
            .prop_map(|(elsewhere, text)| Act::Steer { elsewhere, text }),
        1 => Just(Act::Noise),
        1 => plan.prop_map(Act::Cancel),
        5 => any::<bool>().prop_map(|carry| Act::Crash { carry }),
        2 => any::<u8>().prop_map(|pick| Act::Redeliver { pick }),
    ];
    (after, act).prop_map(|(after, act)| Deed { after: Millis(after), act })
}

impl World {
    pub(super) fn next_deed_at(&self) -> Option<Timestamp> {
        [self.next_act_at(), self.next_reaction_at()].into_iter().flatten().min()
    }

    fn next_act_at(&self) -> Option<Timestamp> {
        self.deeds.front().map(|deed| self.last_deed.after(deed.after))
    }

    /// People react while something is asked.
    fn next_reaction_at(&self) -> Option<Timestamp> {
        let asked = self.run.state().awaits.pending().first()?;
        let soonest = self.last_reaction.max(asked.opened_at);
        self.reactions.front().map(|reaction| match (reaction.after, self.run.next_deadline()) {
            (Some(after), _) => soonest.after(after),
            (None, Some(last_moment)) => soonest.max(last_moment),
            (None, None) => soonest,
        })
    }

    /// Whether the next deed is a cancellation, and how a plan takes it.
    pub(super) fn cancels_next(&self) -> Option<CancelledPlan> {
        // Nothing is asked while a plan is under way, so there are no reactions.
        match self.deeds.front()?.act {
            Act::Cancel(plan) => Some(plan),
            _ => None,
        }
    }

    pub(super) fn deeds_until(&mut self, until: Timestamp) -> Lived {
        while self.next_deed_at().is_some_and(|at| at <= until) {
            self.next_deed()?;
        }
        Ok(())
    }

    pub(super) fn next_deed(&mut self) -> Lived {
        let Some(at) = self.next_deed_at() else { return Ok(()) };
        self.advance(at);
        self.history += 1;
        if self.next_reaction_at() == Some(at) {
            self.last_reaction = at;
            let Some(Reaction { pick, how, .. }) = self.reactions.pop_front() else { return Ok(()) };
            return self.give_answer(pick, how, false);
        }
        self.last_deed = at;
        let Some(deed) = self.deeds.pop_front() else { return Ok(()) };
        match deed.act {
            Act::Answer { pick, how, elsewhere } => self.give_answer(pick, how, elsewhere),
            Act::Pause { elsewhere } => self.give_pause(elsewhere),
            Act::Resume { elsewhere, says } => self.give_resume(elsewhere, says),
            Act::Steer { elsewhere, text } => self.give_steer(elsewhere, text),
            Act::Noise => self.give(Input::Noise, "noise", false).map(|_| ()),
            Act::Cancel(_) => {
                self.cancelled = true;
                Ok(())
            }
            Act::Crash { carry } if carry && !self.run.state().is_working() && self.ending.is_none() => {
                self.carry_over()
            }
            Act::Crash { .. } => self.crash(),
            Act::Redeliver { pick } => self.store.redeliver(pick),
        }
    }

    /// Nothing else will happen: a user does what the run waits for.
    pub(super) fn help(&mut self) -> Lived {
        if self.run.state().pause.is_some() {
            return self.give_resume(false, false);
        }
        if self.run.state().awaits.is_empty() {
            return Err(format!("nothing can happen any more: {:?}", self.run.state()));
        }
        self.give_answer(0, How::Right, false)
    }

    pub(super) fn unique(&mut self, word: &str) -> String {
        self.words += 1;
        format!("{word} {}", self.words)
    }

    pub(super) fn addressee(&self, elsewhere: bool) -> Option<RunId> {
        elsewhere.then(|| RunId::new("another-run"))
    }

    /// Whether a signal that is itself in order is obeyed.
    fn obeys(&self, elsewhere: bool) -> bool {
        !elsewhere && self.run.state().outcome.is_none()
    }

    fn give_pause(&mut self, elsewhere: bool) -> Lived {
        let (run_id, state) = (self.addressee(elsewhere), self.run.state());
        let welcome = self.obeys(elsewhere) && state.policy.interrupts_allowed && state.pause.is_none();
        self.give(Input::Pause(PauseRequest { run_id, ..PauseRequest::default() }), "pause", welcome)?;
        Ok(())
    }

    fn give_resume(&mut self, elsewhere: bool, says: bool) -> Lived {
        let run_id = self.addressee(elsewhere);
        let text = self.unique("resume");
        let messages = if says { vec![Message::user(text.clone())] } else { Vec::new() };
        let welcome = self.obeys(elsewhere) && self.run.state().pause.is_some();
        let request = ResumeRequest { run_id, messages, ..ResumeRequest::default() };
        if self.give(Input::Resume(request), "resume", welcome)? && says {
            self.owe(text);
        }
        Ok(())
    }

    fn give_steer(&mut self, elsewhere: bool, steer: Steer) -> Lived {
        let run_id = self.addressee(elsewhere);
        let text = match steer {
            Steer::Words => self.unique("steer"),
            Steer::Nothing => " \n".to_owned(),
            Steer::TooMuch => "x".repeat(70_000),
        };
        let welcome =
            self.obeys(elsewhere) && self.run.state().policy.interrupts_allowed && matches!(steer, Steer::Words);
        let request = SteerRequest { run_id, text: text.clone(), ..SteerRequest::default() };
        if self.give(Input::Steer(request), "steer", welcome)? {
            self.owe(text);
        }
        Ok(())
    }

    pub(super) fn owe(&mut self, text: String) {
        self.ledger.owed.push(text.clone());
        self.ledger.promises.push(Promise::Text(text));
    }

    /// Says something to the run; whether it was taken shows in its state.
    fn give(&mut self, input: Input, what: &str, welcome: bool) -> Lived<bool> {
        self.feed(input)?;
        let (before, after) = self.tape.last_digests();
        self.ledger.heard.push(Heard {
            what: what.to_owned(),
            welcome,
            accepted: before != after,
            status: None,
            due_status: None,
            before,
            after,
            too_late: self.ending.is_some(),
            approves: None,
        });
        Ok(before != after)
    }
}
