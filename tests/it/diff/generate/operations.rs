//! What operators do to activities.

use super::Generator;
use crate::diff::script::{Action, Operation, OptionChange, Selection, Who};

impl Generator {
    pub(super) fn operate(&mut self, who: Who) -> Action {
        let picture = self.picture(who);
        let known = [picture.scheduled.clone(), picture.taken.clone()].concat();
        let activity = self.one_of_or_any(&known);
        let on = self.chance.weighted(&[
            (9, Selection::Id(activity)),
            (4, Selection::Execution(activity)),
            (3, Selection::Type),
            (1, Selection::OtherType),
            (3, Selection::All),
            (1, Selection::None),
        ]);
        let one = self.chance.one_of(&[Selection::Id(activity), Selection::Execution(activity)]);
        let operation = match self.chance.roll(10) {
            0..4 => Operation::Pause { request: self.chance.one_of(&[0, 1, 2, 3]) },
            4..6 => Operation::Unpause { attempts: self.chance.percent(40), heartbeat: self.chance.percent(40) },
            6..8 => Operation::Reset {
                heartbeat: self.chance.percent(40),
                keep_paused: self.chance.percent(40),
                restore: self.chance.percent(30),
            },
            _ => Operation::Change(self.option_change()),
        };
        // The answer shows the options of one of the changed activities, of which one is chance.
        let on = if matches!(operation, Operation::Change(_)) { one } else { on };
        Action::Operate { who, on, operation }
    }

    fn option_change(&mut self) -> OptionChange {
        self.chance.weighted(&[
            (3, OptionChange::Heartbeat),
            (4, OptionChange::Attempts),
            (2, OptionChange::WholePolicy),
            (1, OptionChange::InvalidPolicy),
            (3, OptionChange::Queue),
            (2, OptionChange::Priority),
            (1, OptionChange::InvalidPriority),
            (2, OptionChange::LessTimeouts),
            (1, OptionChange::NegativeTimeout),
            (1, OptionChange::NoTimeouts),
            (1, OptionChange::UnknownField),
            (1, OptionChange::NoMask),
            (1, OptionChange::NoOptions),
            (1, OptionChange::MissingPart),
            (3, OptionChange::Restore),
            (1, OptionChange::RestoreAndMask),
        ])
    }
}
