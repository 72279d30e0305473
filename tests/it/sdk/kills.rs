//! The end of the server while every version is in the middle of something: `kill -9`, and a stop as a deployment does
//! it.

use super::{
    Outcomes,
    client::{Scenario, Sdk},
    dev::Dev,
    expected::Case,
    pairs,
};

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Kill,
    Stop,
}

/// A running scenario, or why it failed.
type Struck = (&'static Case, Sdk, Result<Scenario, String>);

/// One end for all: each scenario says when it is where it should be struck.
pub(super) fn play(cases: &'static [Case], end: End, card: &str, outcomes: &Outcomes) {
    let mut dev = Dev::start("60s");
    let start = |(case, sdk): (&'static Case, Sdk)| (case, sdk, Ok(Scenario::start(case.name, sdk, &dev.url, card)));
    let mut struck: Vec<Struck> = pairs(cases).into_iter().map(start).collect();
    // Who is in a tool waits for us; who reads a stream does not, so all begin to read at once.
    each(&mut struck, "_tool", |scenario| scenario.is_at("in the tool"));
    each(&mut struck, "_post", |scenario| scenario.is_at("in the tool"));
    each(&mut struck, "_stream", |scenario| scenario.is_at("ready"));
    each(&mut struck, "_stream", |scenario| scenario.tell("go"));
    each(&mut struck, "_stream", |scenario| scenario.is_at("in the stream"));
    match end {
        End::Kill => dev.kill(),
        End::Stop => dev.stop(),
    }
    each(&mut struck, "_post", |scenario| scenario.tell("the server is gone"));
    each(&mut struck, "_post", |scenario| scenario.is_at("about to return"));
    dev.start_again();
    each(&mut struck, "_tool", |scenario| scenario.tell("the server is back"));
    for (case, sdk, scenario) in struck {
        outcomes.enter(case, sdk, scenario.and_then(|scenario| scenario.facts()));
    }
}

/// The next step of every scenario with this in its name.
fn each(struck: &mut [Struck], what: &str, step: impl Fn(&mut Scenario) -> Result<(), String>) {
    for (.., scenario) in struck.iter_mut().filter(|(case, ..)| case.name.contains(what)) {
        let done = match scenario {
            Ok(scenario) => step(scenario),
            Err(_) => continue,
        };
        if let Err(why) = done {
            *scenario = Err(why);
        }
    }
}
