//! Random lives of runs. After every step history must hold together, and must tell all there is to tell.
//!
//! `script` says what may happen, `world` makes it happen to a run as the engine would, `checks` judges what came of it.

mod checks;
mod commands;
mod script;
mod world;

use proptest::{
    collection::vec,
    test_runner::{Config, TestCaseError, TestRunner},
};

use self::{script::beginning, world::World};

#[test]
fn a_runs_state_is_what_its_history_says() {
    let mut runner = TestRunner::new(Config { cases: cases(300), failure_persistence: None, ..Config::default() });
    let lives = (beginning(), vec(script::happening(), 1..80));
    let lived = runner.run(&lives, |(beginning, happenings)| {
        let mut world = World::begin(beginning);
        world.judge().map_err(TestCaseError::fail)?;
        for happening in happenings {
            world.live(happening);
            world.judge().map_err(TestCaseError::fail)?;
        }
        Ok(())
    });
    if let Err(failure) = lived {
        panic!("{failure}");
    }
}

fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}
