//! What the simulated model, tools and agents do in a case. Generated once, then played by the world.

use std::collections::BTreeMap;

use proptest::{collection::vec, option, prelude::*};

use super::{
    answering::{Reaction, reaction},
    content::{Piece, pieces, stop},
    people::{Deed, deed},
};
use crate::{
    agent::{ConfirmationSpec, Enforcement, HandOut, ToolDispatch, ToolEntry, ToolTable},
    awaits::ExpiryOutcome,
    canonical::Digest,
    envelope::{GuardOverrides, LoopDetection, LoopThresholds, PolicyOverrides, SchemaFit, ToolBudget, Tuning},
    ids::ToolName,
    stop::StopReason,
    time::Millis,
};

/// A run to simulate.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) story: Story,
    pub(super) policy: PolicyOverrides,
    pub(super) guards: Option<GuardOverrides>,
    pub(super) tuning: Tuning,
}

/// An agent, what its model says turn by turn, and what people do meanwhile.
#[derive(Debug, Clone)]
pub(super) struct Story {
    pub(super) policy: PolicyOverrides,
    pub(super) guards: GuardOverrides,
    /// How the agent's output schema is enforced, if it has one.
    pub(super) enforcement: Option<Enforcement>,
    /// Of `pay`, `form`, `sign` as handed out, and `sign` as confirmed.
    pub(super) patience: [Patience; 4],
    pub(super) turns: Vec<Turn>,
    /// What the model does when it is told to finish.
    pub(super) finale: Turn,
    pub(super) people: Vec<Deed>,
    /// What those do who are asked something.
    pub(super) answers: Vec<Reaction>,
    /// What the agents behind `helper` and `deputy` do, in the order they are called.
    pub(super) children: Vec<Story>,
}

/// How long an await stays open, and what its expiry does.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Patience {
    pub(super) expires_in: Option<Millis>,
    pub(super) on_expiry: Option<ExpiryOutcome>,
}

#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) end: PlanEnd,
    pub(super) takes: Millis,
    pub(super) calls: Vec<Call>,
    pub(super) asks: Vec<Ask>,
    /// What the model writes among its calls.
    pub(super) pieces: Vec<Piece>,
    pub(super) stop: StopReason,
    /// Its message does not fit the output schema, should it be the last one.
    pub(super) misfit: bool,
}

/// How the plan activity ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum PlanEnd {
    /// Every attempt writes what it was given.
    Answers {
        attempts: u8,
    },
    /// For good; `written` says whether what it was given reached the store, `spoken` whether it had begun to answer.
    Fails {
        written: bool,
        spoken: bool,
    },
    Hangs {
        written: bool,
    },
    /// The answer is in the journal, but its report came too late.
    Unheard,
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) tool: &'static str,
    pub(super) arg: u8,
    /// The arguments do not travel.
    pub(super) large: bool,
    pub(super) invalid: bool,
    pub(super) fate: Fate,
}

#[derive(Debug, Clone)]
pub(super) struct Fate {
    pub(super) takes: Millis,
    pub(super) end: End,
    /// Executions whose report is lost, before one that reports.
    pub(super) losses: Vec<Loss>,
    pub(super) when_stopped: Stopped,
    /// Rounds before the last one.
    pub(super) rounds: Vec<Round>,
}

/// How a round ends that is not the call's last.
#[derive(Debug, Clone, Copy)]
pub(super) enum Round {
    GoesOn,
    Asks,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Ok,
    Large,
    Null,
    /// Parts beside the structured result.
    Parts,
    Failed,
}

/// What the journal says of a lost execution.
#[derive(Debug, Clone, Copy)]
pub(super) enum Loss {
    NeverStarted,
    Finished,
    Unknown,
}

/// How a running call takes the end of its run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stopped {
    Obeys,
    NeverBegan,
    Vanishes,
    HadFinished,
}

/// What the planner wants from outside.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    Clarification { default: bool, patience: Patience },
    Questions { patience: Patience },
    External { calls: u8, patience: Patience },
}

const TOOLS: [&str; 13] =
    ["read", "fetch", "write", "pay", "form", "sign", "local", "peek", "vault", "helper", "deputy", "recall", "nope"];
const TAGS: [&str; 4] = ["read", "write", "net", "agent"];

impl Story {
    /// The agent's tools: activities, idempotent or not, awaits, the caller's own, agents; some need a person's approval.
    /// `nope` is none.
    pub(super) fn tools(&self) -> ToolTable {
        let [pay, form, sign_out, sign] = self.patience;
        let child = || ToolDispatch::Child { agent_id: "child".into(), agent_digest: Digest::ZERO };
        let outside = |patience: Patience, client| ToolDispatch::External {
            expires_in_ms: patience.expires_in,
            on_expiry: patience.on_expiry,
            client,
        };
        let confirmed = |patience: Patience| {
            Some(ConfirmationSpec {
                title: None,
                prompt: Some("Really {n}?".to_owned()),
                expires_in_ms: patience.expires_in,
                on_expiry: patience.on_expiry,
                four_eyes: false,
            })
        };
        let entries = [
            ("read", ToolDispatch::Activity, vec!["read"], None),
            ("fetch", ToolDispatch::Activity, vec!["read", "net"], None),
            ("write", ToolDispatch::Activity, vec!["write"], None),
            ("pay", ToolDispatch::Activity, vec!["write"], confirmed(pay)),
            ("form", outside(form, None), vec!["read"], None),
            ("sign", outside(sign_out, None), vec!["write"], confirmed(sign)),
            ("local", outside(form, Some(HandOut::InTurn)), vec!["write"], None),
            ("peek", outside(sign_out, Some(HandOut::Together)), vec!["read"], None),
            ("vault", outside(sign_out, Some(HandOut::InTurn)), vec!["write"], confirmed(sign)),
            ("helper", child(), vec!["agent"], None),
            ("deputy", child(), vec!["agent"], confirmed(pay)),
            ("recall", ToolDispatch::Activity, vec!["read"], None),
        ];
        let entry = |(name, dispatch, tags, confirmation): (&str, _, Vec<&str>, _)| {
            let tags = tags.into_iter().map(str::to_owned).collect();
            (name.into(), ToolEntry { dispatch, tags, timeout_ms: None, idempotent: name == "fetch", confirmation })
        };
        entries.into_iter().map(entry).collect()
    }
}

/// How a tool's calls are handed out, if the caller executes them.
pub(super) fn hand_out(tool: &str) -> Option<HandOut> {
    match tool {
        "local" | "vault" => Some(HandOut::InTurn),
        "peek" => Some(HandOut::Together),
        _ => None,
    }
}

/// A final answer at once.
pub(super) fn silence() -> Turn {
    Turn {
        end: PlanEnd::Answers { attempts: 1 },
        takes: Millis(10),
        calls: Vec::new(),
        asks: Vec::new(),
        pieces: Vec::new(),
        stop: StopReason::EndTurn,
        misfit: false,
    }
}

impl Turn {
    pub(super) fn fit(&self, enforcement: Option<Enforcement>) -> Option<SchemaFit> {
        let misfit = || SchemaFit::Misfit { problem: "it is no JSON".to_owned() };
        enforcement.map(|_| if self.misfit { misfit() } else { SchemaFit::Fits })
    }
}

pub(super) fn case() -> impl Strategy<Value = Case> {
    let tuning = (option::weighted(0.6, 10..60u32), option::weighted(0.3, 16..200u64)).prop_map(|(events, limit)| {
        Tuning { continue_as_new_events: events, inline_limit_bytes: limit, ..Tuning::default() }
    });
    (story(2), policy(), option::of(guards()), tuning).prop_map(|(story, policy, guards, tuning)| Case {
        story,
        policy,
        guards,
        tuning,
    })
}

/// One turn of calls and questions, over and over; nothing limits it and no user interferes.
pub(super) fn long_case(turns: u32) -> impl Strategy<Value = Case> {
    let steady = |turn: Turn| {
        let end = PlanEnd::Answers { attempts: 1 };
        let calls = turn.calls.into_iter().map(|call| Call { fate: Fate { losses: Vec::new(), ..call.fate }, ..call });
        let patience = Patience::default();
        let asks = turn.asks.into_iter().map(|ask| match ask {
            Ask::Clarification { default, .. } => Ask::Clarification { default, patience },
            Ask::Questions { .. } => Ask::Questions { patience },
            Ask::External { calls, .. } => Ask::External { calls, patience },
        });
        Turn { end, calls: calls.collect(), asks: asks.collect(), stop: StopReason::ToolUse, ..turn }
    };
    let busy = turn().prop_filter("a final answer", |turn| !turn.calls.is_empty() || !turn.asks.is_empty());
    busy.prop_map(move |turn| {
        let endless =
            GuardOverrides { loop_detection: Some(LoopDetection::Enabled(false)), tool_budgets: Some(BTreeMap::new()) };
        let story = Story {
            policy: PolicyOverrides::default(),
            guards: endless,
            enforcement: None,
            patience: [Patience::default(); 4],
            turns: vec![steady(turn); usize::try_from(turns).unwrap()],
            finale: silence(),
            people: Vec::new(),
            answers: Vec::new(),
            children: Vec::new(),
        };
        Case { story, policy: PolicyOverrides::default(), guards: None, tuning: Tuning::default() }
    })
}

fn story(depth: u32) -> BoxedStrategy<Story> {
    let (turns, deeds) = if depth == 2 { (1..=6, 8) } else { (0..=3, 2) };
    let repeats = prop_oneof![6 => Just(1_usize), 1 => 2..8_usize];
    let turns = vec(prop_oneof![25 => (turn(), repeats), 1 => (paused(), 14..=20_usize)], turns);
    let children = if depth == 0 { Just(Vec::new()).boxed() } else { vec(story(depth - 1), 0..=2).boxed() };
    let patience = [patience(), patience(), patience(), patience()];
    let people = (vec(deed(), 0..=deeds), vec(reaction(), 0..=deeds));
    let enforcement = prop_oneof![
        4 => Just(None),
        1 => Just(Some(Enforcement::BestEffort)),
        1 => Just(Some(Enforcement::Strict)),
    ];
    (policy(), guards(), enforcement, patience, turns, turn(), people, children)
        .prop_map(|(policy, guards, enforcement, patience, turns, finale, (people, answers), children)| {
            let turns = turns.into_iter().flat_map(|(turn, repeats)| vec![turn; repeats]).collect();
            Story { policy, guards, enforcement, patience, turns, finale, people, answers, children }
        })
        .boxed()
}

fn patience() -> impl Strategy<Value = Patience> {
    let outcome = prop_oneof![
        3 => Just(ExpiryOutcome::Deny),
        3 => Just(ExpiryOutcome::Default),
        3 => Just(ExpiryOutcome::Replan),
        1 => Just(ExpiryOutcome::Fail),
    ];
    (option::of((0..30_000_u64).prop_map(Millis)), option::of(outcome))
        .prop_map(|(expires_in, on_expiry)| Patience { expires_in, on_expiry })
}

fn turn() -> BoxedStrategy<Turn> {
    let end = prop_oneof![
        60 => (1..=3_u8).prop_map(|attempts| PlanEnd::Answers { attempts }),
        1 => any::<(bool, bool)>().prop_map(|(written, spoken)| PlanEnd::Fails { written, spoken }),
        1 => any::<bool>().prop_map(|written| PlanEnd::Hangs { written }),
        1 => Just(PlanEnd::Unheard),
    ];
    let calls = prop_oneof![1 => Just(Vec::new()), 14 => vec(call(), 1..=5)];
    let asks = prop_oneof![3 => Just(Vec::new()), 1 => vec(ask(), 1..=2)];
    (end, span(), calls, asks, pieces(), stop(), prop::bool::weighted(0.3))
        .prop_map(|(end, takes, calls, asks, pieces, stop, misfit)| Turn {
            end,
            takes,
            calls,
            asks,
            pieces,
            stop,
            misfit,
        })
        .boxed()
}

/// One of many turns in which the provider pauses the same answer.
fn paused() -> impl Strategy<Value = Turn> {
    pieces().prop_map(|pieces| Turn { pieces, stop: StopReason::PauseTurn, ..silence() })
}

fn call() -> BoxedStrategy<Call> {
    let common = prop::sample::select(vec!["read", "pay", "form", "sign", "local", "peek", "helper"]);
    let tool = prop_oneof![common, prop::sample::select(TOOLS.as_slice())];
    (tool, 0..3_u8, prop::bool::weighted(0.1), prop::bool::weighted(0.1), fate())
        .prop_map(|(tool, arg, large, invalid, fate)| Call { tool, arg, large, invalid, fate })
        .boxed()
}

fn fate() -> impl Strategy<Value = Fate> {
    let end = prop_oneof![5 => Just(End::Ok), 1 => Just(End::Large), 1 => Just(End::Null), 1 => Just(End::Parts), 3 => Just(End::Failed)];
    let loss = prop_oneof![4 => Just(Loss::NeverStarted), 1 => Just(Loss::Finished), 1 => Just(Loss::Unknown)];
    let losses = prop_oneof![5 => Just(Vec::new()), 1 => vec(loss, 1..=5)];
    let stopped = prop_oneof![
        Just(Stopped::Obeys),
        Just(Stopped::NeverBegan),
        Just(Stopped::Vanishes),
        Just(Stopped::HadFinished)
    ];
    let round = prop_oneof![Just(Round::GoesOn), Just(Round::Asks)];
    let rounds = prop_oneof![5 => Just(Vec::new()), 1 => vec(round, 1..=3)];
    (span(), end, losses, stopped, rounds).prop_map(|(takes, end, losses, when_stopped, rounds)| Fate {
        takes,
        end,
        losses,
        when_stopped,
        rounds,
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        (any::<bool>(), patience()).prop_map(|(default, patience)| Ask::Clarification { default, patience }),
        patience().prop_map(|patience| Ask::Questions { patience }),
        (0..=2_u8, patience()).prop_map(|(calls, patience)| Ask::External { calls, patience }),
    ]
}

fn span() -> impl Strategy<Value = Millis> {
    (0..2_000_u64).prop_map(Millis)
}

fn policy() -> BoxedStrategy<PolicyOverrides> {
    let rarely = 0.06;
    let tags = || option::weighted(rarely, vec(prop::sample::select(TAGS.as_slice()).prop_map(str::to_owned), 0..=3));
    let up_to = |limit: u64| option::weighted(rarely, (limit / 3..limit).prop_map(Millis));
    let counts = (
        option::weighted(0.15, 0..5_u32),
        option::weighted(0.3, 0..12_u32),
        option::weighted(0.2, 1..4_u32),
        option::weighted(0.15, 0..6_u32),
        option::weighted(0.02, prop::sample::select(TOOLS.as_slice()).prop_map(ToolName::from)),
    );
    let times = (
        option::weighted(0.3, (0..15_000_u64).prop_map(Millis)),
        up_to(4_000),
        up_to(3_000),
        up_to(3_000),
        option::weighted(rarely, (0..3_000_u64).prop_map(|span| BTreeMap::from([("re*".to_owned(), Millis(span))]))),
    );
    let interrupts = option::weighted(rarely, any::<bool>());
    let tokens = option::weighted(rarely, 1..80_u64);
    (counts, times, tags(), tags(), interrupts, tokens)
        .prop_map(
            |(
                (per_turn, total, failed, turns, only),
                (budget, plan, tool, grace, per_tool),
                allowed,
                denied,
                interrupts,
                tokens,
            )| {
                PolicyOverrides {
                    per_turn_max_tool_calls: per_turn,
                    restrict_to_tool: only,
                    allowed_tags: allowed,
                    denied_tags: denied,
                    max_tool_calls: total,
                    max_tool_turns: turns,
                    max_consecutive_failed_tool_calls: failed,
                    max_tokens: tokens,
                    time_budget_ms: budget,
                    plan_timeout_ms: plan,
                    tool_timeout_ms: tool,
                    per_tool_timeout_ms: per_tool,
                    finalizer_grace_ms: grace,
                    interrupts_allowed: interrupts,
                    ..PolicyOverrides::default()
                }
            },
        )
        .boxed()
}

fn guards() -> BoxedStrategy<GuardOverrides> {
    let thresholds = (option::of(2..5_u32), option::of(3..8_u32)).prop_map(|(soft, hard)| {
        LoopDetection::Thresholds(LoopThresholds { consecutive_threshold: soft, hard_cutoff_threshold: hard })
    });
    let loops = option::of(prop_oneof![1 => Just(LoopDetection::Enabled(false)), 3 => thresholds]);
    let budget = (0..4_u32).prop_map(|max_calls| ToolBudget { max_calls });
    let budgets =
        prop::collection::btree_map(prop::sample::select(TOOLS.as_slice()).prop_map(str::to_owned), budget, 0..=3);
    (loops, option::weighted(0.3, budgets))
        .prop_map(|(loop_detection, tool_budgets)| GuardOverrides { loop_detection, tool_budgets })
        .boxed()
}
