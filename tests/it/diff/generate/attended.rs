//! Random things that happen while a worker waits for them.

use temporalio_protos::temporal::api::enums::v1::WorkflowIdConflictPolicy;

use super::{Action, Completion, Generator, Run, Start, StartExtra, Who};
use crate::diff::script::Do;

impl Generator {
    /// A start whose first task is taken and answered at once; often that is the end of the run.
    pub(super) fn attended_start(&mut self, who: Who) -> Action {
        let start = self.start_for_worker(who);
        let cause = match self.chance.roll(10) {
            0..2 => Action::Start(start),
            2..4 => Action::SignalWithStart(start),
            _ => Action::UpdateWithStart(start, self.an_update()),
        };
        self.attended(who, cause)
    }

    /// News for an idle run whose worker waits.
    pub(super) fn attended_news(&mut self, who: Who) -> Action {
        let cause = match self.chance.roll(10) {
            0..3 => Action::Signal { who, request: self.request(), run: Run::Current },
            3..7 => Action::Update(who, self.an_update()),
            _ => {
                let start = self.start_for_worker(who);
                let start = Start { conflict: WorkflowIdConflictPolicy::UseExisting, ..start };
                Action::UpdateWithStart(start, self.an_update())
            }
        };
        self.attended(who, cause)
    }

    /// A start that may be refused would leave the worker waiting for nothing.
    fn start_for_worker(&mut self, who: Who) -> Start {
        let mut start = self.start_for_update(who);
        start.extras.retain(|extra| !matches!(extra, StartExtra::InvalidRetry | StartExtra::NegativeTimeout));
        start
    }

    fn attended(&mut self, who: Who, cause: Action) -> Action {
        let with = if self.chance.percent(40) {
            let updates = self.completion(who).updates;
            let build = self.build();
            Completion { commands: vec![Do::Complete], updates, build, ..Completion::default() }
        } else {
            self.completion(who)
        };
        Action::Attended { cause: Box::new(cause), with }
    }
}
