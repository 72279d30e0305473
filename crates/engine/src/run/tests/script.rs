//! The actions of a script.

use proptest::{collection::vec, prelude::*};

/// The options of the run's start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beginning {
    pub(super) retried: bool,
    pub(super) is_child: bool,
    pub(super) delay_seconds: i64,
    pub(super) run_seconds: i64,
    pub(super) execution_seconds: i64,
    pub(super) described: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Action {
    TakeTask,
    Decide(Decision),
    FailTask,
    StartActivity(usize),
    EndActivity(usize, ActivityEnd),
    Heartbeat(usize),
    /// An operator does something to an activity.
    Operate(usize, Operation),
    Wait {
        seconds: i64,
    },
    Signal,
    Cancel,
    Terminate,
    AnswerMessage {
        refused: bool,
    },
    EndChild(usize, ChildEnd),
    /// A handler answers a request, or its run ends.
    AnswerNexus(usize, NexusAnswer),
    Update,
    Restart,
    Unstick,
    /// A client resets the run to an earlier event.
    Reset {
        to: usize,
        signals: bool,
        updates: bool,
        nexus: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum NexusAnswer {
    Done,
    Started,
    Failed,
    Cancelled,
    HandlerError { retryable: bool },
    EndOfRun,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ActivityEnd {
    Completed,
    Failed { retryable: bool },
    Cancelled,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    Pause,
    Unpause {
        attempts: bool,
        jitter: i64,
    },
    Reset {
        keep_paused: bool,
        heartbeat: bool,
    },
    /// To another task queue.
    Move,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ChildEnd {
    Completed,
    Failed,
    Cancelled,
    TimedOut,
    Terminated,
}

/// A worker's completion of a task.
#[derive(Debug, Clone)]
pub(super) struct Decision {
    pub(super) commands: Vec<Do>,
    pub(super) described: bool,
    pub(super) heartbeat: bool,
    pub(super) wants_next: bool,
    pub(super) caches: bool,
    pub(super) updates: UpdateAnswer,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum UpdateAnswer {
    Silence,
    Reject,
    Accept,
    Complete,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Do {
    ScheduleActivity { attempts: i32, eager: bool, heartbeat: bool, whole_seconds: i64 },
    CancelActivity(usize),
    StartTimer { seconds: i64 },
    CancelTimer(usize),
    RecordMarker,
    StartChild { policy: i32 },
    ScheduleOperation { whole_seconds: i64, run_seconds: i64 },
    CancelOperation(usize),
    SignalOther,
    CancelOther,
    Attribute { key: u8, nothing: bool },
    Memo { key: u8, nothing: bool },
    Complete,
    Fail,
    Cancel,
    ContinueAsNew { delay_seconds: i64 },
    Nonsense,
}

pub(super) fn beginning() -> impl Strategy<Value = Beginning> {
    let seconds = || prop_oneof![3 => Just(0), 1 => 20..60_i64];
    (any::<bool>(), any::<bool>(), prop_oneof![3 => Just(0), 1 => 1..5_i64], seconds(), seconds(), any::<bool>())
        .prop_map(|(retried, is_child, delay_seconds, run_seconds, execution_seconds, described)| Beginning {
            retried,
            is_child,
            delay_seconds,
            run_seconds,
            execution_seconds,
            described,
        })
}

pub(super) fn happening() -> impl Strategy<Value = Action> {
    prop_oneof![
        15 => Just(Action::TakeTask),
        30 => decision().prop_map(Action::Decide),
        4 => Just(Action::FailTask),
        15 => any::<usize>().prop_map(Action::StartActivity),
        15 => (any::<usize>(), activity_end()).prop_map(|(which, end)| Action::EndActivity(which, end)),
        3 => any::<usize>().prop_map(Action::Heartbeat),
        9 => (any::<usize>(), operation()).prop_map(|(which, operation)| Action::Operate(which, operation)),
        8 => (0..12_i64).prop_map(|seconds| Action::Wait { seconds }),
        8 => Just(Action::Signal),
        1 => Just(Action::Cancel),
        1 => Just(Action::Terminate),
        25 => prop::bool::weighted(0.3).prop_map(|refused| Action::AnswerMessage { refused }),
        20 => (any::<usize>(), child_end()).prop_map(|(which, end)| Action::EndChild(which, end)),
        24 => (any::<usize>(), nexus_answer()).prop_map(|(which, answer)| Action::AnswerNexus(which, answer)),
        8 => Just(Action::Update),
        3 => Just(Action::Restart),
        3 => Just(Action::Unstick),
        4 => (any::<usize>(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(to, signals, updates, nexus)| Action::Reset { to, signals, updates, nexus }),
    ]
}

fn activity_end() -> impl Strategy<Value = ActivityEnd> {
    prop_oneof![
        Just(ActivityEnd::Completed),
        any::<bool>().prop_map(|retryable| ActivityEnd::Failed { retryable }),
        Just(ActivityEnd::Cancelled),
    ]
}

fn nexus_answer() -> impl Strategy<Value = NexusAnswer> {
    prop_oneof![
        1 => Just(NexusAnswer::Done),
        3 => Just(NexusAnswer::Started),
        1 => Just(NexusAnswer::Failed),
        1 => Just(NexusAnswer::Cancelled),
        2 => any::<bool>().prop_map(|retryable| NexusAnswer::HandlerError { retryable }),
        1 => Just(NexusAnswer::EndOfRun),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => Just(Operation::Pause),
        3 => (any::<bool>(), 0..3_i64).prop_map(|(attempts, jitter)| Operation::Unpause { attempts, jitter }),
        2 => (any::<bool>(), any::<bool>())
            .prop_map(|(keep_paused, heartbeat)| Operation::Reset { keep_paused, heartbeat }),
        1 => Just(Operation::Move),
    ]
}

fn child_end() -> impl Strategy<Value = ChildEnd> {
    prop_oneof![
        Just(ChildEnd::Completed),
        Just(ChildEnd::Failed),
        Just(ChildEnd::Cancelled),
        Just(ChildEnd::TimedOut),
        Just(ChildEnd::Terminated),
    ]
}

fn decision() -> impl Strategy<Value = Decision> {
    let updates = prop_oneof![
        Just(UpdateAnswer::Silence),
        Just(UpdateAnswer::Reject),
        Just(UpdateAnswer::Accept),
        Just(UpdateAnswer::Complete),
    ];
    let flag = || prop::bool::weighted(0.2);
    (vec(command(), 0..5), prop::option::weighted(0.04, ending()), flag(), flag(), flag(), flag(), updates).prop_map(
        |(mut commands, ending, described, heartbeat, wants_next, caches, updates)| {
            commands.extend(ending);
            Decision { commands, described, heartbeat, wants_next, caches, updates }
        },
    )
}

fn command() -> impl Strategy<Value = Do> {
    let key = || (0..3_u8, prop::bool::weighted(0.3));
    prop_oneof![
        5 => (0..3_i32, any::<bool>(), any::<bool>(), prop_oneof![Just(0), 1..30_i64]).prop_map(
            |(attempts, eager, heartbeat, whole_seconds)| {
                Do::ScheduleActivity { attempts, eager, heartbeat, whole_seconds }
            }
        ),
        3 => any::<usize>().prop_map(Do::CancelActivity),
        4 => (0..30_i64).prop_map(|seconds| Do::StartTimer { seconds }),
        2 => any::<usize>().prop_map(Do::CancelTimer),
        1 => Just(Do::RecordMarker),
        3 => (0..4_i32).prop_map(|policy| Do::StartChild { policy }),
        4 => (prop_oneof![Just(0), 1..30_i64], prop_oneof![Just(0), 1..30_i64])
            .prop_map(|(whole_seconds, run_seconds)| Do::ScheduleOperation { whole_seconds, run_seconds }),
        6 => any::<usize>().prop_map(Do::CancelOperation),
        2 => Just(Do::SignalOther),
        2 => Just(Do::CancelOther),
        1 => key().prop_map(|(key, nothing)| Do::Attribute { key, nothing }),
        1 => key().prop_map(|(key, nothing)| Do::Memo { key, nothing }),
        1 => Just(Do::Nonsense),
    ]
}

fn ending() -> impl Strategy<Value = Do> {
    prop_oneof![
        Just(Do::Complete),
        Just(Do::Fail),
        Just(Do::Cancel),
        prop_oneof![Just(0), 1..5_i64].prop_map(|delay_seconds| Do::ContinueAsNew { delay_seconds }),
    ]
}
