//! Random completions of workflow tasks.

use temporalio_protos::temporal::api::enums::v1::{ParentClosePolicy, WorkflowIdReusePolicy};

use super::{Generator, Phase};
use crate::diff::script::{
    Action, ActivityExtra, AttributeChange, Completion, Do, MemoChange, Run, StartExtra, Sticky, TimerLength, Token,
    UpdateAnswer, Who,
};

/// The real server keeps such a timer in memory, but not on disk: it is lost as soon as the run is loaded again, which
/// no worker provokes, since each of its timers has an id of its own.
fn starts_what_was_just_cancelled(command: &Do, before: &[Do]) -> bool {
    matches!(command, Do::StartTimer { timer, .. } if before.contains(&Do::CancelTimer(*timer)))
}

/// Done by the server in its own time, also when the run has closed meanwhile; nothing shows that it is still to come.
fn outlives_its_run(command: &Do) -> bool {
    match command {
        Do::SignalExternal { .. } | Do::CancelExternal { .. } => true,
        Do::StartChild { policy, .. } => *policy == ParentClosePolicy::Abandon,
        _ => false,
    }
}

impl Generator {
    pub(super) fn complete(&mut self, who: Who) -> Action {
        let with = self.completion(who);
        Action::CompleteTask { who, token: self.token(), with }
    }

    /// An answer to the task before the last.
    pub(super) fn answer_late(&mut self, who: Who) -> Action {
        let with = self.completion(who);
        Action::CompleteTask { who, token: Token::Previous, with }
    }

    pub(super) fn completion(&mut self, who: Who) -> Completion {
        let mut commands: Vec<Do> = Vec::new();
        for _ in 0..self.chance.one_of(&[0, 1, 1, 2, 2, 3, 4]) {
            let command = self.command(who, &commands);
            let echoes = command.has_an_echo() && commands.iter().any(Do::has_an_echo);
            if !echoes && !starts_what_was_just_cancelled(&command, &commands) {
                commands.push(command);
            }
        }
        if self.chance.percent(22) {
            let closing = self.closing();
            if !commands.iter().any(outlives_its_run) {
                commands.push(closing);
            }
        }
        // The outcome of an external command is invisible while a task is held.
        let external =
            commands.iter().any(|command| matches!(command, Do::SignalExternal { .. } | Do::CancelExternal { .. }));
        Completion {
            commands,
            updates: self.chance.weighted(&[
                (4, UpdateAnswer::Complete),
                (2, UpdateAnswer::Accept),
                (1, UpdateAnswer::CompleteWithFailure),
                (2, UpdateAnswer::Reject),
                (1, UpdateAnswer::Ignore),
            ]),
            finish_updates: self.chance.percent(50),
            force: self.chance.percent(15),
            inline: !external && self.chance.percent(20),
            sticky: self.sticky_for(who),
            may_discard: self.chance.percent(70),
            build: self.build(),
        }
    }

    fn sticky_for(&mut self, who: Who) -> Option<Sticky> {
        if !self.sticky || !self.chance.percent(70) {
            return None;
        }
        let short = self.slow && who == Who::W0 && self.chance.percent(50);
        Some(if short { Sticky::Short } else { Sticky::Long })
    }

    /// The commands so far count as known, so that a task can use what it has just made.
    fn command(&mut self, who: Who, before: &[Do]) -> Do {
        let mut activities = [self.picture(who).scheduled.clone(), self.picture(who).taken.clone()].concat();
        let mut timers = self.picture(who).timers.clone();
        for command in before {
            match command {
                Do::Schedule { activity, .. } => activities.push(*activity),
                Do::StartTimer { timer, .. } => timers.push(*timer),
                Do::CancelTimer(timer) => timers.retain(|known| known != timer),
                _ => {}
            }
        }
        match self.chance.roll(100) {
            0..40 => Do::Schedule { activity: self.unlike(&activities), extras: self.activity_extras() },
            40..46 if !activities.is_empty() => Do::CancelActivity(self.one_of_or_any(&activities)),
            46..57 => {
                let length = self.chance.weighted(&[
                    (20, TimerLength::Long),
                    (6, TimerLength::Short),
                    (2, TimerLength::Zero),
                    (1, TimerLength::Negative),
                ]);
                Do::StartTimer { timer: self.unlike(&timers), length }
            }
            57..62 if !timers.is_empty() => Do::CancelTimer(self.one_of_or_any(&timers)),
            62..65 => Do::Marker { named: !self.chance.percent(4) },
            65..69 => Do::Attributes(self.chance.weighted(&[
                (20, AttributeChange::Set),
                (8, AttributeChange::Remove),
                (1, AttributeChange::Unknown),
                (1, AttributeChange::IllTyped),
                (1, AttributeChange::Nothing),
            ])),
            69..73 => Do::Memo(self.chance.weighted(&[
                (20, MemoChange::Set),
                (8, MemoChange::Remove),
                (1, MemoChange::Nothing),
            ])),
            73..85 => Do::StartChild {
                child: self.chance.one_of(&Who::CHILDREN),
                policy: self.chance.one_of(&[
                    ParentClosePolicy::Unspecified,
                    ParentClosePolicy::Terminate,
                    ParentClosePolicy::RequestCancel,
                    ParentClosePolicy::Abandon,
                ]),
                reuse: self.chance.one_of(&[
                    WorkflowIdReusePolicy::Unspecified,
                    WorkflowIdReusePolicy::AllowDuplicate,
                    WorkflowIdReusePolicy::RejectDuplicate,
                    WorkflowIdReusePolicy::AllowDuplicateFailedOnly,
                ]),
                extras: self.child_extras(),
            },
            85..91 => Do::SignalExternal {
                target: self.target(),
                run: self.external_run(),
                child_only: self.chance.percent(20),
            },
            91..97 => Do::CancelExternal {
                target: self.target(),
                run: self.external_run(),
                child_only: self.chance.percent(20),
            },
            97 => self.chance.one_of(&[Do::Hollow, Do::AbsentMessage]),
            _ => Do::Marker { named: true },
        }
    }

    fn closing(&mut self) -> Do {
        match self.chance.roll(10) {
            0..4 => Do::Complete,
            4..7 => {
                let kind = self.chance.weighted(&[(4, Some("Passing")), (2, Some("Fatal")), (1, None)]);
                Do::Fail { fatal: self.chance.percent(20), kind }
            }
            7 => Do::CancelSelf,
            _ => Do::ContinueAsNew(self.child_extras()),
        }
    }

    fn target(&mut self) -> Who {
        self.chance.one_of(&[Who::W0, Who::W1, Who::C0, Who::C1, Who::Unstarted])
    }

    fn external_run(&mut self) -> Run {
        self.chance.weighted(&[
            (24, Run::Current),
            (4, Run::Latest),
            (2, Run::First),
            (2, Run::Unknown),
            (1, Run::Malformed),
        ])
    }

    fn activity_extras(&mut self) -> Vec<ActivityExtra> {
        let mut extras = Vec::new();
        for extra in [
            ActivityExtra::Input,
            ActivityExtra::Header,
            ActivityExtra::Heartbeat,
            ActivityExtra::Priority,
            ActivityExtra::Summary,
        ] {
            if self.chance.percent(15) {
                extras.push(extra);
            }
        }
        extras.extend(self.chance.weighted(&[
            (3, None),
            (3, Some(ActivityExtra::NoRetry)),
            (3, Some(ActivityExtra::RetryOnce)),
            (2, Some(ActivityExtra::RetryUnlessFatal)),
        ]));
        extras.extend(self.chance.weighted(&[
            (140, None),
            (14, Some(ActivityExtra::Eager)),
            (6, Some(ActivityExtra::OnlyStartToClose)),
            (1, Some(ActivityExtra::InvalidRetry)),
            (1, Some(ActivityExtra::NoType)),
            (1, Some(ActivityExtra::NoTimeouts)),
            (1, Some(ActivityExtra::NegativeTimeout)),
            (2, Some(ActivityExtra::QueueTimeout)),
            (3, Some(ActivityExtra::RunTimeout)),
            (2, Some(ActivityExtra::HeartbeatTimeout)),
            (2, Some(ActivityExtra::CloseTimeout)),
        ]));
        extras
    }

    /// Without a queue a child would share its parent's, and their tasks would come in any order.
    fn child_extras(&mut self) -> Vec<StartExtra> {
        let mut extras = Vec::new();
        for extra in [
            StartExtra::Input,
            StartExtra::Header,
            StartExtra::Memo,
            StartExtra::Attributes,
            StartExtra::Retry,
            StartExtra::LongRunTimeout,
            StartExtra::LongExecutionTimeout,
            StartExtra::Priority,
        ] {
            if self.chance.percent(15) {
                extras.push(extra);
            }
        }
        if self.chance.percent(10) {
            extras.push(self.chance.one_of(&[
                StartExtra::UnknownAttribute,
                StartExtra::InvalidRetry,
                StartExtra::NegativeTimeout,
                StartExtra::NoType,
            ]));
        }
        extras
    }

    pub(super) fn imagine_completion(&mut self, who: Who, with: &Completion) {
        for command in &with.commands {
            if let Do::StartChild { child, .. } = command
                && matches!(self.picture(*child).phase, Phase::Absent | Phase::Closed)
            {
                self.picture(*child).phase = Phase::Waiting;
            }
        }
        let picture = self.picture(who);
        if picture.phase != Phase::Held {
            return;
        }
        for command in &with.commands {
            match command {
                Do::Schedule { activity, extras } if extras.contains(&ActivityExtra::Eager) => {
                    picture.taken.push(*activity);
                }
                Do::Schedule { activity, .. } => picture.scheduled.push(*activity),
                Do::StartTimer { timer, length: TimerLength::Long } => picture.timers.push(*timer),
                Do::CancelTimer(timer) => picture.timers.retain(|known| known != timer),
                _ => {}
            }
        }
        picture.failures = 0;
        picture.impatient = with.sticky == Some(Sticky::Short);
        picture.hurried &= !matches!(with.commands.last(), Some(Do::ContinueAsNew(_)));
        let another = with.force || picture.buffered;
        picture.phase = match with.commands.last() {
            Some(Do::ContinueAsNew(_)) if !picture.buffered => Phase::Waiting,
            Some(last) if last.closes() && !picture.buffered => Phase::Closed,
            Some(last) if last.has_an_echo() => Phase::Waiting,
            _ if another && with.inline => Phase::Held,
            _ if another => Phase::Waiting,
            _ => Phase::Idle,
        };
        picture.buffered = false;
    }
}
