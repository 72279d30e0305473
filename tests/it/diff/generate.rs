//! Random scripts. The generator keeps a rough picture of what its script has caused so far, so that most actions find
//! something to act on; where the picture is wrong the player leaves the action out.

mod attended;
mod operations;
mod tasks;

use std::collections::BTreeMap;

use temporalio_protos::temporal::api::enums::v1::{
    QueryRejectCondition, ResetReapplyType, UpdateWorkflowExecutionLifecycleStage as Stage, WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy, WorkflowTaskFailedCause,
};

use super::{
    chance::Chance,
    script::{
        Action, Build, By, Completion, HistoryRead, Listing, QueryAnswer, Report, ResetTo, Run, Start, StartExtra,
        Token, Update, Who,
    },
};

const ACTIONS: usize = 22;

pub(super) fn script(seed: u64) -> Vec<Action> {
    let mut generator = Generator::new(seed);
    let mut script = Vec::new();
    while script.len() < ACTIONS {
        let actions = generator.next();
        script.extend(actions);
    }
    script
}

/// How far a workflow has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Absent,
    /// A task waits to be taken.
    Waiting,
    /// A task was taken.
    Held,
    /// Open, without a task.
    Idle,
    Closed,
}

/// The generator's picture of one workflow.
#[derive(Debug, Clone)]
struct Picture {
    phase: Phase,
    /// Something arrived while the task was held.
    buffered: bool,
    scheduled: Vec<u8>,
    taken: Vec<u8>,
    timers: Vec<u8>,
    /// Its tasks have a timeout that can be awaited.
    hurried: bool,
    /// Its worker's cache is given a few seconds.
    impatient: bool,
    /// How often its task has failed or timed out in a row.
    failures: usize,
}

struct Generator {
    chance: Chance,
    /// Whether this script uses a second workflow.
    two: bool,
    /// Whether completions of this script ask for sticky queues.
    sticky: bool,
    /// Whether workers of this script answer late, or not at all.
    slow: bool,
    /// How many tasks may still time out: each takes a while.
    timeouts: usize,
    /// Whether workers of this script fail again and again.
    failing: bool,
    /// Whether workers of this script say what build they are.
    builds: bool,
    /// Whether activities of this script are paused, reset and changed.
    operated: bool,
    pictures: BTreeMap<Who, Picture>,
    requests: u8,
}

impl Generator {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::seeded(seed);
        let slow = chance.percent(20);
        Self {
            // What times out in one workflow is not to meet what times out in another.
            two: chance.percent(30) && !slow,
            sticky: chance.percent(20),
            slow,
            timeouts: 2,
            failing: chance.percent(12),
            builds: chance.percent(30),
            operated: chance.percent(30),
            chance,
            pictures: Who::ALL.into_iter().map(|who| (who, Picture::new())).collect(),
            requests: 0,
        }
    }

    fn picture(&mut self, who: Who) -> &mut Picture {
        self.pictures.get_mut(&who).expect("every workflow has a picture")
    }

    /// The next action, with those that belong right behind it.
    fn next(&mut self) -> Vec<Action> {
        let who = self.any_workflow();
        let actions = match self.picture(who).phase {
            Phase::Absent => self.on_absent(who),
            Phase::Waiting => self.on_waiting(who),
            Phase::Held => self.on_held(who),
            Phase::Idle => self.on_idle(who),
            Phase::Closed => self.on_closed(who),
        };
        for action in &actions {
            self.imagine(action);
        }
        actions
    }

    fn any_workflow(&mut self) -> Who {
        let mut choices = vec![(12, Who::W0)];
        if self.two && self.picture(Who::W0).phase != Phase::Absent {
            choices.push((6, Who::W1));
        }
        for child in Who::CHILDREN {
            if self.picture(child).phase != Phase::Absent {
                choices.push((7, child));
            }
        }
        self.chance.weighted(&choices)
    }

    fn on_absent(&mut self, who: Who) -> Vec<Action> {
        match self.chance.roll(100) {
            0..10 => vec![self.attended_start(who)],
            10..70 => vec![Action::Start(self.start(who))],
            70..84 => vec![Action::SignalWithStart(self.start(who))],
            84..92 => vec![Action::UpdateWithStart(self.start_for_update(who), self.an_update())],
            _ => vec![self.nudge(who)],
        }
    }

    fn on_waiting(&mut self, who: Who) -> Vec<Action> {
        if self.timeouts > 0 && self.picture(who).impatient && self.chance.percent(25) {
            self.timeouts -= 1;
            return vec![Action::LetTaskTimeOut(who)];
        }
        match self.chance.roll(100) {
            0..60 => vec![Action::PollTask(who)],
            60..68 => vec![self.nudge(who)],
            68..76 => vec![self.about_activities(who)],
            76..83 => vec![Action::Update(who, self.an_update())],
            // The query is answered soon; nothing else may happen to the run meanwhile.
            83..87 => vec![self.query(who), Action::PollTask(who), self.complete(who)],
            87..93 => vec![self.restart(who)],
            93..95 => vec![self.reset(who)],
            _ => vec![self.read(who)],
        }
    }

    fn on_held(&mut self, who: Who) -> Vec<Action> {
        if self.picture(who).hurried {
            return self.on_held_in_haste(who);
        }
        if self.failing && self.chance.percent(45) {
            return vec![self.fail(who)];
        }
        match self.chance.roll(100) {
            0..50 => vec![self.complete(who)],
            50..66 => vec![self.nudge(who)],
            66..78 => vec![self.about_activities(who)],
            78..84 => vec![Action::Update(who, self.an_update())],
            84..87 => vec![self.query(who), self.complete(who)],
            87..91 => vec![self.fail(who)],
            91..95 => vec![self.restart(who)],
            95..97 => vec![self.reset(who)],
            _ => vec![self.read(who)],
        }
    }

    /// Nothing that takes long: the task would time out at a moment of its own.
    fn on_held_in_haste(&mut self, who: Who) -> Vec<Action> {
        match self.chance.roll(100) {
            0..30 => vec![self.complete(who)],
            30..46 => vec![self.nudge(who)],
            46..54 => vec![Action::Update(who, self.an_update())],
            54..60 => vec![self.fail(who)],
            60..88 if self.timeouts > 0 && self.picture(who).failures < 4 => {
                self.timeouts -= 1;
                let mut actions = vec![Action::LetTaskTimeOut(who)];
                match self.chance.roll(10) {
                    // The worker answers too late; the next may have the task by then.
                    0..3 => actions.push(self.complete(who)),
                    3..5 => actions.extend([Action::PollTask(who), self.answer_late(who)]),
                    5 => actions.extend([self.nudge(who), self.complete(who)]),
                    _ => {}
                }
                actions
            }
            60..88 => vec![self.complete(who)],
            88..92 => vec![self.restart(who)],
            92..94 => vec![self.reset(who)],
            _ => vec![self.read(who)],
        }
    }

    fn on_idle(&mut self, who: Who) -> Vec<Action> {
        if self.chance.percent(8) {
            return vec![self.attended_news(who)];
        }
        match self.chance.roll(100) {
            0..22 => vec![self.nudge(who)],
            22..58 => vec![self.about_activities(who)],
            // A speculative task turns into a normal one after five seconds, so it is taken at once.
            58..75 => vec![Action::Update(who, self.an_update()), Action::PollTask(who)],
            75..84 => vec![self.query(who)],
            84..88 => vec![self.restart(who)],
            88..92 => vec![self.reset(who)],
            92..94 => vec![Action::ResetSticky(who)],
            94..96 => vec![self.complete(who)],
            _ => vec![self.read(who)],
        }
    }

    fn on_closed(&mut self, who: Who) -> Vec<Action> {
        match self.chance.roll(100) {
            0..6 => vec![self.attended_start(who)],
            6..38 => vec![self.restart(who)],
            38..50 => vec![self.nudge(who)],
            50..60 => vec![self.query(who)],
            60..66 => vec![Action::Update(who, self.an_update())],
            66..74 => vec![self.about_activities(who)],
            74..80 => vec![self.complete(who)],
            80..90 => vec![self.reset(who)],
            _ => vec![self.read(who)],
        }
    }

    /// Signals, cancellations and now and then an end.
    fn nudge(&mut self, who: Who) -> Action {
        let run = self.run();
        let request = self.request();
        match self.chance.roll(20) {
            0..13 => Action::Signal { who, request, run },
            13..18 => Action::Cancel { who, request, run },
            _ => Action::Terminate { who, run },
        }
    }

    fn restart(&mut self, who: Who) -> Action {
        match self.chance.roll(10) {
            0..6 => Action::Start(self.start(who)),
            6..8 => Action::SignalWithStart(self.start(who)),
            _ => Action::UpdateWithStart(self.start_for_update(who), self.an_update()),
        }
    }

    fn reset(&mut self, who: Who) -> Action {
        let to = self.chance.one_of(&[
            ResetTo::FirstTask,
            ResetTo::LastTask,
            ResetTo::LastTask,
            ResetTo::Event(3),
            ResetTo::Event(99),
        ]);
        let reapply =
            self.chance.one_of(&[ResetReapplyType::Signal, ResetReapplyType::None, ResetReapplyType::Unspecified]);
        Action::Reset { who, to, request: self.request(), reapply }
    }

    fn query(&mut self, who: Who) -> Action {
        let reject = self.chance.weighted(&[
            (8, QueryRejectCondition::None),
            (1, QueryRejectCondition::NotOpen),
            (1, QueryRejectCondition::NotCompletedCleanly),
        ]);
        let answer = self.chance.weighted(&[(3, QueryAnswer::Answered), (1, QueryAnswer::Failed)]);
        Action::Query { who, reject, answer }
    }

    fn read(&mut self, who: Who) -> Action {
        match self.chance.roll(12) {
            0..3 => Action::History { who, how: HistoryRead::Paged },
            3..6 => Action::History { who, how: HistoryRead::Reverse },
            6..8 => Action::History { who, how: HistoryRead::CloseEvent },
            8..10 => {
                let wait = self.chance.one_of(&[Stage::Unspecified, Stage::Accepted, Stage::Completed]);
                Action::PollUpdate { who, update: self.small(), wait }
            }
            _ => Action::List(self.chance.one_of(&[
                Listing::Running,
                Listing::Closed,
                Listing::ByType,
                Listing::ByAttribute,
                Listing::ByTime,
                Listing::CountByStatus,
                Listing::Malformed,
                Listing::UnknownAttribute,
            ])),
        }
    }

    fn about_activities(&mut self, who: Who) -> Action {
        if self.operated && self.chance.percent(35) {
            return self.operate(who);
        }
        let picture = self.picture(who).clone();
        if !picture.scheduled.is_empty() && self.chance.percent(60) {
            let activity = self.chance.one_of(&picture.scheduled);
            return Action::PollActivity { who, activity };
        }
        let activity = self.one_of_or_any(&picture.taken);
        let by = self.chance.weighted(&[(8, By::LastToken), (2, By::FirstToken), (3, By::Id), (1, By::Garbage)]);
        let report = self.chance.weighted(&[
            (6, Report::Completed),
            (4, Report::Failed("Passing")),
            (1, Report::Failed("Fatal")),
            (2, Report::FailedForGood),
            (1, Report::FailedWithDelay),
            (1, Report::FailedWithHeartbeat),
            (3, Report::Cancelled),
            (4, Report::Heartbeat),
        ]);
        Action::ReportActivity { who, activity, by, report }
    }

    fn start(&mut self, who: Who) -> Start {
        let reuse = self.chance.weighted(&[
            (5, WorkflowIdReusePolicy::Unspecified),
            (3, WorkflowIdReusePolicy::AllowDuplicate),
            (2, WorkflowIdReusePolicy::AllowDuplicateFailedOnly),
            (2, WorkflowIdReusePolicy::RejectDuplicate),
            (1, terminate_if_running()),
        ]);
        let conflict = self.chance.weighted(&[
            (5, WorkflowIdConflictPolicy::Unspecified),
            (2, WorkflowIdConflictPolicy::Fail),
            (2, WorkflowIdConflictPolicy::UseExisting),
            (2, WorkflowIdConflictPolicy::TerminateExisting),
        ]);
        let mut extras = self.start_extras();
        if self.slow && who == Who::W0 && self.chance.percent(80) {
            extras.push(StartExtra::ShortTaskTimeout);
        }
        Start { who, request: self.request(), reuse, conflict, extras }
    }

    /// An update cannot be sent along with every kind of start; refusals of those are covered by hand-written scripts.
    fn start_for_update(&mut self, who: Who) -> Start {
        let mut start = self.start(who);
        start.extras.retain(|extra| !matches!(extra, StartExtra::Eager | StartExtra::Delay));
        start
    }

    fn start_extras(&mut self) -> Vec<StartExtra> {
        let mut extras = Vec::new();
        for extra in [
            StartExtra::Input,
            StartExtra::Header,
            StartExtra::Memo,
            StartExtra::Attributes,
            StartExtra::Retry,
            StartExtra::LongRunTimeout,
            StartExtra::LongExecutionTimeout,
            StartExtra::Metadata,
            StartExtra::Priority,
        ] {
            if self.chance.percent(20) {
                extras.push(extra);
            }
        }
        if self.chance.percent(15) {
            extras.push(self.chance.one_of(&[
                StartExtra::UnknownAttribute,
                StartExtra::IllTypedAttribute,
                StartExtra::InvalidRetry,
                StartExtra::NegativeTimeout,
                StartExtra::NoType,
                StartExtra::NoQueue,
                StartExtra::NoRequestId,
                StartExtra::RetryUnlessFatal,
                StartExtra::Delay,
                StartExtra::Eager,
                StartExtra::AttachRequestId,
            ]));
        }
        extras
    }

    fn an_update(&mut self) -> Update {
        Update {
            update: self.small(),
            wait: self.chance.one_of(&[Stage::Accepted, Stage::Completed]),
            run: self.chance.weighted(&[(20, Run::Current), (1, Run::Latest), (1, Run::Unknown)]),
            named: !self.chance.percent(4),
        }
    }

    fn run(&mut self) -> Run {
        self.chance.weighted(&[
            (30, Run::Current),
            (4, Run::Latest),
            (2, Run::First),
            (1, Run::Unknown),
            (1, Run::Malformed),
        ])
    }

    /// Mostly new, sometimes one that was used before.
    fn request(&mut self) -> u8 {
        if self.chance.percent(85) {
            self.requests += 1;
        }
        self.requests
    }

    fn small(&mut self) -> u8 {
        self.chance.one_of(&[0, 1, 2])
    }

    /// One of these; sometimes any, which is mostly none of these.
    fn one_of_or_any(&mut self, known: &[u8]) -> u8 {
        if known.is_empty() || self.chance.percent(8) { self.small() } else { self.chance.one_of(known) }
    }

    /// None of these; sometimes one of them.
    fn unlike(&mut self, known: &[u8]) -> u8 {
        match (0..8).find(|number| !known.contains(number)) {
            Some(free) if !self.chance.percent(6) => free,
            _ => self.small(),
        }
    }

    fn token(&mut self) -> Token {
        self.chance.weighted(&[(15, Token::Last), (1, Token::Previous), (1, Token::First)])
    }

    fn fail(&mut self, who: Who) -> Action {
        Action::FailTask { who, token: self.token(), cause: self.cause(), build: self.build() }
    }

    fn build(&mut self) -> Build {
        if !self.builds {
            return Build::Unsaid;
        }
        let build = self.chance.one_of(&[1, 1, 2]);
        self.chance.weighted(&[
            (2, Build::Unsaid),
            (4, Build::Checksum(build)),
            (2, Build::Stamp(build)),
            (2, Build::Deployment(build)),
        ])
    }

    fn cause(&mut self) -> WorkflowTaskFailedCause {
        self.chance.one_of(&[
            WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
            WorkflowTaskFailedCause::NonDeterministicError,
            WorkflowTaskFailedCause::Unspecified,
        ])
    }

    /// What an action probably does to the picture.
    fn imagine(&mut self, action: &Action) {
        match action {
            Action::Attended { cause, with } => {
                self.imagine(cause);
                if let Some(who) = cause.names().first().copied() {
                    self.imagine(&Action::PollTask(who));
                    self.imagine_completion(who, with);
                }
            }
            Action::Start(Start { who, conflict, extras, .. }) => {
                let picture = self.picture(*who);
                let ends = *conflict == WorkflowIdConflictPolicy::TerminateExisting;
                if ends || matches!(picture.phase, Phase::Absent | Phase::Closed) {
                    *picture = Picture { phase: Phase::Waiting, ..Picture::new() };
                    picture.hurried = extras.contains(&StartExtra::ShortTaskTimeout);
                }
            }
            Action::SignalWithStart(Start { who, extras, .. })
            | Action::UpdateWithStart(Start { who, extras, .. }, _) => {
                let picture = self.picture(*who);
                if matches!(picture.phase, Phase::Absent | Phase::Closed) {
                    picture.hurried = extras.contains(&StartExtra::ShortTaskTimeout);
                }
                if picture.phase == Phase::Held {
                    picture.buffered = true;
                } else {
                    picture.phase = Phase::Waiting;
                }
            }
            Action::Signal { who, run, .. } | Action::Cancel { who, run, .. }
                if !matches!(run, Run::Unknown | Run::Malformed) =>
            {
                self.picture(*who).disturb();
            }
            Action::Update(who, _) => self.picture(*who).disturb(),
            Action::ReportActivity { who, activity, report, .. } => {
                let picture = self.picture(*who);
                if *report != Report::Heartbeat && picture.taken.contains(activity) {
                    picture.taken.retain(|taken| taken != activity);
                    match report {
                        Report::Failed(_) | Report::FailedWithDelay => picture.scheduled.push(*activity),
                        _ => picture.disturb(),
                    }
                }
            }
            Action::Terminate { who, run: Run::Current | Run::Latest } => self.picture(*who).phase = Phase::Closed,
            Action::Reset { who, .. } => {
                let picture = self.picture(*who);
                if picture.phase != Phase::Absent {
                    picture.phase = Phase::Waiting;
                }
            }
            Action::FailTask { who, .. } | Action::LetTaskTimeOut(who) => {
                let picture = self.picture(*who);
                if picture.phase != Phase::Absent {
                    picture.phase = Phase::Waiting;
                    picture.failures += 1;
                    picture.impatient = false;
                }
            }
            Action::PollTask(who) => {
                let picture = self.picture(*who);
                picture.phase = Phase::Held;
                picture.buffered = false;
            }
            Action::PollActivity { who, activity } => {
                let picture = self.picture(*who);
                picture.scheduled.retain(|scheduled| scheduled != activity);
                picture.taken.push(*activity);
            }
            Action::CompleteTask { who, with, .. } => self.imagine_completion(*who, with),
            _ => {}
        }
    }
}

impl Picture {
    fn new() -> Self {
        Self {
            phase: Phase::Absent,
            buffered: false,
            scheduled: Vec::new(),
            taken: Vec::new(),
            timers: Vec::new(),
            hurried: false,
            impatient: false,
            failures: 0,
        }
    }

    /// Something arrives that the workflow has to be told.
    fn disturb(&mut self) {
        match self.phase {
            Phase::Idle => self.phase = Phase::Waiting,
            Phase::Held => self.buffered = true,
            _ => {}
        }
    }
}

#[expect(deprecated, reason = "clients still send it")]
pub(super) fn terminate_if_running() -> WorkflowIdReusePolicy {
    WorkflowIdReusePolicy::TerminateIfRunning
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_script() {
        for seed in 0..50 {
            assert_eq!(script(seed), script(seed));
            assert!(script(seed).len() >= ACTIONS);
        }
        assert_ne!(script(1), script(2));
    }
}
