//! What a script can do. A script names everything itself (workflows, timers, activities, updates), so that its actions
//! can be dropped one by one and the rest still makes sense.

use temporalio_protos::temporal::api::enums::v1::{
    ParentClosePolicy, QueryRejectCondition, ResetReapplyType, UpdateWorkflowExecutionLifecycleStage as Stage,
    WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowTaskFailedCause,
};

/// The workflows of a script: two that clients start and two that are started as children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    W0,
    W1,
    C0,
    C1,
    /// Never started.
    Unstarted,
}

impl Who {
    pub(super) const CHILDREN: [Self; 2] = [Self::C0, Self::C1];
    pub(super) const ALL: [Self; 4] = [Self::W0, Self::W1, Self::C0, Self::C1];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::W0 => "w0",
            Self::W1 => "w1",
            Self::C0 => "c0",
            Self::C1 => "c1",
            Self::Unstarted => "unstarted",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Start(Start),
    SignalWithStart(Start),
    UpdateWithStart(Start, Update),
    Signal {
        who: Who,
        request: u8,
        run: Run,
    },
    Cancel {
        who: Who,
        request: u8,
        run: Run,
    },
    Terminate {
        who: Who,
        run: Run,
    },
    Reset {
        who: Who,
        to: ResetTo,
        request: u8,
        reapply: ResetReapplyType,
    },
    Delete {
        who: Who,
        run: Run,
    },
    PollTask(Who),
    /// A poll that must come back empty.
    PollNothing(Who, Queue),
    CompleteTask {
        who: Who,
        token: Token,
        with: Completion,
    },
    FailTask {
        who: Who,
        token: Token,
        cause: WorkflowTaskFailedCause,
        build: Build,
    },
    /// Waits until the task has timed out, whether it was taken or not.
    LetTaskTimeOut(Who),
    /// A worker polls before something happens that brings a task, takes the task as soon as it is there, and answers
    /// at once.
    Attended {
        cause: Box<Action>,
        with: Completion,
    },
    Query {
        who: Who,
        reject: QueryRejectCondition,
        answer: QueryAnswer,
    },
    Update(Who, Update),
    PollUpdate {
        who: Who,
        update: u8,
        wait: Stage,
    },
    PollActivity {
        who: Who,
        activity: u8,
    },
    ReportActivity {
        who: Who,
        activity: u8,
        by: By,
        report: Report,
    },
    /// What an operator does to pending activities.
    Operate {
        who: Who,
        on: Selection,
        operation: Operation,
    },
    History {
        who: Who,
        how: HistoryRead,
    },
    List(Listing),
    ResetSticky(Who),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Start {
    pub(super) who: Who,
    pub(super) request: u8,
    pub(super) reuse: WorkflowIdReusePolicy,
    pub(super) conflict: WorkflowIdConflictPolicy,
    pub(super) extras: Vec<StartExtra>,
}

/// One thing that a start, a child or a continuation can have beyond the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartExtra {
    Input,
    Header,
    Memo,
    Attributes,
    UnknownAttribute,
    IllTypedAttribute,
    /// Three attempts, ten milliseconds apart.
    Retry,
    /// Failures of the type `Fatal` are not retried.
    RetryUnlessFatal,
    InvalidRetry,
    LongRunTimeout,
    LongExecutionTimeout,
    /// Can be awaited.
    ShortTaskTimeout,
    DefaultTaskTimeout,
    NegativeTimeout,
    /// Awaited by the player.
    OneSecondRunTimeout,
    /// Awaited by the player.
    Delay,
    Eager,
    Metadata,
    Priority,
    NoType,
    NoQueue,
    NoRequestId,
    AttachRequestId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    Current,
    /// By the id of the first run seen of this workflow.
    First,
    /// By the id of the latest run seen.
    Latest,
    Unknown,
    Malformed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResetTo {
    FirstTask,
    LastTask,
    Event(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    Normal,
    Sticky,
}

/// Which of the tokens a workflow's tasks came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Last,
    /// The one before the last.
    Previous,
    First,
}

/// What a worker says about its build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Build {
    Unsaid,
    /// The checksum of its binary, and what an SDK says of itself.
    Checksum(u8),
    /// A version stamp that asks for no versioning.
    Stamp(u8),
    /// A deployment that is not versioned.
    Deployment(u8),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Completion {
    pub(super) commands: Vec<Do>,
    /// What becomes of the updates that came with the task.
    pub(super) updates: UpdateAnswer,
    /// Whether updates that an earlier task accepted are completed.
    pub(super) finish_updates: bool,
    /// Ask for another task.
    pub(super) force: bool,
    /// Ask for the next task in the answer.
    pub(super) inline: bool,
    pub(super) sticky: Option<Sticky>,
    pub(super) may_discard: bool,
    pub(super) build: Build,
}

impl Completion {
    /// Whether another run may follow this one.
    pub(super) fn may_go_on(&self) -> bool {
        self.commands.iter().any(|command| matches!(command, Do::ContinueAsNew(_) | Do::Fail { .. }))
    }

    /// Workflows that may refuse what this asks of them.
    fn may_be_refused_by(&self) -> impl Iterator<Item = Who> {
        self.commands.iter().filter_map(|command| match command {
            // The second cancellation is refused.
            Do::CancelExternal { target, .. } => Some(*target),
            Do::SignalExternal { target, run, child_only } => {
                Some(*target).filter(|_| *child_only || *run != Run::Current)
            }
            _ => None,
        })
    }

    fn children(&self) -> impl Iterator<Item = Who> {
        self.commands.iter().filter_map(|command| match command {
            Do::StartChild { child, .. } => Some(*child),
            _ => None,
        })
    }
}

impl Default for Completion {
    fn default() -> Self {
        Self {
            commands: Vec::new(),
            updates: UpdateAnswer::Complete,
            finish_updates: false,
            force: false,
            inline: false,
            sticky: None,
            may_discard: true,
            build: Build::Unsaid,
        }
    }
}

/// For how long the next task is kept for the worker that has the run in its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sticky {
    Long,
    /// Can be awaited.
    Short,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateAnswer {
    Accept,
    Complete,
    CompleteWithFailure,
    Reject,
    Ignore,
}

/// A command of a workflow task's completion.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Do {
    Schedule {
        activity: u8,
        extras: Vec<ActivityExtra>,
    },
    CancelActivity(u8),
    StartTimer {
        timer: u8,
        length: TimerLength,
    },
    CancelTimer(u8),
    Marker {
        named: bool,
    },
    Attributes(AttributeChange),
    Memo(MemoChange),
    StartChild {
        child: Who,
        policy: ParentClosePolicy,
        reuse: WorkflowIdReusePolicy,
        extras: Vec<StartExtra>,
    },
    SignalExternal {
        target: Who,
        run: Run,
        child_only: bool,
    },
    CancelExternal {
        target: Who,
        run: Run,
        child_only: bool,
    },
    Complete,
    Fail {
        fatal: bool,
        kind: Option<&'static str>,
    },
    CancelSelf,
    ContinueAsNew(Vec<StartExtra>),
    /// A command of a type that has no attributes set.
    Hollow,
    /// Refers to a message that was not sent.
    AbsentMessage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActivityExtra {
    Input,
    Header,
    NoRetry,
    /// Two attempts, ten milliseconds apart.
    RetryOnce,
    /// Three attempts; failures of the type `Fatal` are not retried.
    RetryUnlessFatal,
    InvalidRetry,
    Heartbeat,
    Eager,
    NoType,
    NoTimeouts,
    NegativeTimeout,
    OnlyStartToClose,
    Priority,
    /// No worker takes it within a second; awaited by the player.
    QueueTimeout,
    /// Its worker does not finish within a second; awaited by the player when it is taken.
    RunTimeout,
    /// Its worker is silent for longer than a second; awaited by the player when it is taken.
    HeartbeatTimeout,
    /// It is not finished within a second, whatever its attempts; awaited by the player.
    CloseTimeout,
    Summary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimerLength {
    Long,
    /// Fires soon; awaited by the player.
    Short,
    /// Fires at once; awaited by the player.
    Zero,
    Negative,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttributeChange {
    Set,
    Remove,
    Unknown,
    IllTyped,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemoChange {
    Set,
    Remove,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryAnswer {
    Answered,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Update {
    pub(super) update: u8,
    pub(super) wait: Stage,
    pub(super) run: Run,
    pub(super) named: bool,
}

/// How a worker names the activity it reports on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    LastToken,
    FirstToken,
    Id,
    Garbage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    Completed,
    /// A failure of this type.
    Failed(&'static str),
    FailedForGood,
    /// Asks for the next attempt at once.
    FailedWithDelay,
    /// Sends its last heartbeat along.
    FailedWithHeartbeat,
    Cancelled,
    Heartbeat,
}

/// Which activities an operator means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    Id(u8),
    /// By id, with the newer requests.
    Execution(u8),
    /// All have one type.
    Type,
    OtherType,
    All,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Pause { request: u8 },
    Unpause { attempts: bool, heartbeat: bool },
    Reset { heartbeat: bool, keep_paused: bool, restore: bool },
    Change(OptionChange),
}

/// A change of activity options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionChange {
    Heartbeat,
    Attempts,
    WholePolicy,
    InvalidPolicy,
    Queue,
    Priority,
    InvalidPriority,
    LessTimeouts,
    NegativeTimeout,
    NoTimeouts,
    UnknownField,
    NoMask,
    NoOptions,
    MissingPart,
    Restore,
    RestoreAndMask,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HistoryRead {
    Paged,
    Reverse,
    CloseEvent,
    /// A long poll on a closed run, or one that times out on an open one.
    Wait,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    All,
    Running,
    Closed,
    ByType,
    ByAttribute,
    ByTime,
    CountByStatus,
    Malformed,
    UnknownAttribute,
}

/// A script as a list, one action a line.
pub(super) fn show(script: &[Action]) -> String {
    let lines = script.iter().enumerate().map(|(index, action)| format!("  {}. {action:?}", index + 1));
    lines.collect::<Vec<_>>().join("\n")
}

/// The workflows that take part in a script.
pub(super) fn cast(script: &[Action]) -> Vec<Who> {
    let mut named: Vec<Who> = script.iter().flat_map(Action::names).filter(|who| Who::ALL.contains(who)).collect();
    named.sort();
    named.dedup();
    named
}

impl Action {
    pub(super) fn may_end_a_run(&self) -> bool {
        match self {
            Self::Start(_) | Self::SignalWithStart(_) | Self::UpdateWithStart(..) => true,
            Self::Terminate { .. } | Self::Reset { .. } => true,
            Self::CompleteTask { with, .. } => with.commands.iter().any(Do::closes),
            Self::Attended { cause, with } => cause.may_end_a_run() || with.commands.iter().any(Do::closes),
            _ => false,
        }
    }

    pub(super) fn may_be_refused(&self) -> bool {
        match self {
            Self::PollTask(_) | Self::PollNothing(..) | Self::PollActivity { .. } | Self::LetTaskTimeOut(_) => false,
            Self::CompleteTask { token, .. } | Self::FailTask { token, .. } => *token != Token::Last,
            Self::Signal { run, .. } | Self::Cancel { run, .. } | Self::Terminate { run, .. } => *run != Run::Current,
            Self::Query { .. } | Self::Update(..) | Self::PollUpdate { .. } | Self::History { .. } | Self::List(_) => {
                false
            }
            Self::Attended { cause, .. } => cause.may_be_refused(),
            _ => true,
        }
    }

    /// Workflows that may refuse what a worker of another one asks of them.
    pub(super) fn may_be_refused_by(&self) -> Vec<Who> {
        match self {
            Self::CompleteTask { with, .. } | Self::Attended { with, .. } => with.may_be_refused_by().collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn names(&self) -> Vec<Who> {
        match self {
            Self::Start(start) | Self::SignalWithStart(start) | Self::UpdateWithStart(start, _) => vec![start.who],
            Self::CompleteTask { who, with, .. } => std::iter::once(*who).chain(with.children()).collect(),
            Self::Attended { cause, with } => cause.names().into_iter().chain(with.children()).collect(),
            Self::Signal { who, .. }
            | Self::Cancel { who, .. }
            | Self::Terminate { who, .. }
            | Self::Reset { who, .. }
            | Self::Delete { who, .. }
            | Self::PollTask(who)
            | Self::PollNothing(who, _)
            | Self::FailTask { who, .. }
            | Self::LetTaskTimeOut(who)
            | Self::Query { who, .. }
            | Self::Update(who, _)
            | Self::PollUpdate { who, .. }
            | Self::PollActivity { who, .. }
            | Self::ReportActivity { who, .. }
            | Self::Operate { who, .. }
            | Self::History { who, .. }
            | Self::ResetSticky(who) => vec![*who],
            Self::List(_) => Vec::new(),
        }
    }
}

impl Do {
    /// Whether something happens after the command was recorded, at a moment of the server's choosing. Two of these in
    /// one task would race.
    pub(super) fn has_an_echo(&self) -> bool {
        match self {
            Self::StartChild { .. } | Self::SignalExternal { .. } | Self::CancelExternal { .. } => true,
            Self::StartTimer { length, .. } => matches!(length, TimerLength::Short | TimerLength::Zero),
            Self::Schedule { extras, .. } => {
                extras.contains(&ActivityExtra::QueueTimeout) || extras.contains(&ActivityExtra::CloseTimeout)
            }
            _ => false,
        }
    }

    pub(super) fn closes(&self) -> bool {
        matches!(self, Self::Complete | Self::Fail { .. } | Self::CancelSelf | Self::ContinueAsNew(_))
    }
}

impl Start {
    pub(super) fn new(who: Who) -> Self {
        Self {
            who,
            request: 0,
            reuse: WorkflowIdReusePolicy::Unspecified,
            conflict: WorkflowIdConflictPolicy::Unspecified,
            extras: Vec::new(),
        }
    }
}
