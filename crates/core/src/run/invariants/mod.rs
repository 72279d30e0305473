//! The invariants of a run, as properties over random scripts, policies, timings, people and crashes.
//!
//! A simulated world drives the real core as the workflow's loop does (`world`), with a scripted model (`planner`) that
//! writes parts of every kind (`content`), tools and agents (`flights`), people (`people`, `answering`) and a store
//! (`store`). It writes facts down (`ledger`); `checks` judges them when the run has ended. `PROPTEST_CASES` sets the
//! number of cases.

mod answering;
mod checks;
mod content;
mod flights;
mod ledger;
mod people;
mod planner;
mod script;
mod steady;
mod store;
mod tape;
mod world;

use std::{cell::RefCell, collections::BTreeMap};

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use self::{
    script::{Case, case},
    world::World,
};
use crate::{
    envelope::RunInput,
    ids::{AgentId, RunId},
    message::{Content, Role},
    time::Timestamp,
};

/// What became of an attempt to live a case; the error says which promise was broken.
type Lived<T = ()> = Result<T, String>;

macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}
use ensure;

/// How much was lived, for the last line.
#[derive(Default)]
struct Tally {
    steps: usize,
    answers: usize,
    rejected: usize,
    crashes: usize,
    children: usize,
    turns: usize,
    parts: usize,
    items: usize,
    unknown: usize,
    stops: BTreeMap<String, usize>,
}

impl Tally {
    fn add(&mut self, world: &World) {
        let answers = world.ledger.heard.iter().filter(|heard| heard.due_status.is_some());
        self.steps += world.tape.len();
        self.answers += answers.clone().count();
        self.rejected += answers.filter(|heard| !heard.accepted).count();
        self.crashes += world.ledger.crashes;
        self.children += world.ledger.children.len();
        self.turns += world.ledger.spoken.len();
        for spoken in &world.ledger.spoken {
            *self.stops.entry(spoken.stop.to_string()).or_default() += 1;
        }
        let messages = world.store.transcript.iter().filter(|message| message.role == Role::Assistant);
        for part in messages.flat_map(|message| &message.parts) {
            self.parts += 1;
            self.items += usize::from(part.provider_item.is_some());
            self.unknown += usize::from(matches!(part.content, Content::Other { .. }));
        }
        world.ledger.children.iter().for_each(|child| self.add(child));
    }
}

fn live(case: Case) -> Lived<World> {
    let input = RunInput {
        policy: Some(case.policy),
        guards: case.guards,
        tuning: Some(case.tuning),
        ..RunInput::new(AgentId::new("agent"), RunId::new("run"))
    };
    World::live(case.story, input, Timestamp(1_000))
}

#[test]
fn hold_for_every_run() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let tally = RefCell::new(Tally::default());
    let lived = runner.run(&case(), |case| {
        let world = live(case).map_err(TestCaseError::fail)?;
        checks::all(&world).map_err(TestCaseError::fail)?;
        tally.borrow_mut().add(&world);
        Ok(())
    });
    lived.unwrap_or_else(|broken| panic!("{broken}"));
    let (cases, tally) = (runner.config().cases, tally.into_inner());
    println!(
        "invariants: {cases} cases, {} steps, {} answers ({} rejected), {} crashes, {} children, {} turns with {} parts \
         ({} provider items, {} of unknown kinds), stops {:?}, all {} invariants hold",
        tally.steps,
        tally.answers,
        tally.rejected,
        tally.crashes,
        tally.children,
        tally.turns,
        tally.parts,
        tally.items,
        tally.unknown,
        tally.stops,
        checks::COUNT,
    );
}
