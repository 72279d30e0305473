//! `kill -9` of the server while every version is in the middle of something.

use super::{
    Outcomes,
    client::{Scenario, Sdk},
    dev::Dev,
    expected::{Case, KILLS},
    pairs,
};

/// A scenario on its way, as long as all is well with it.
type Struck = (&'static Case, Sdk, Result<Scenario, String>);

/// One kill for all: each scenario says when it is where it should be struck.
pub(super) fn play(card: &str, outcomes: &Outcomes) {
    let mut dev = Dev::start("60s");
    let start = |(case, sdk): (&'static Case, Sdk)| (case, sdk, Ok(Scenario::start(case.name, sdk, &dev.url, card)));
    let mut struck: Vec<Struck> = pairs(KILLS).into_iter().map(start).collect();
    // Who is in a tool waits for us; who reads a stream does not, so all begin to read at once.
    each(&mut struck, "kill_tool", |scenario| scenario.is_at("in the tool"));
    each(&mut struck, "kill_post", |scenario| scenario.is_at("in the tool"));
    each(&mut struck, "kill_stream", |scenario| scenario.is_at("ready"));
    each(&mut struck, "kill_stream", |scenario| scenario.tell("go"));
    each(&mut struck, "kill_stream", |scenario| scenario.is_at("in the stream"));
    dev.kill();
    each(&mut struck, "kill_post", |scenario| scenario.tell("the server is gone"));
    each(&mut struck, "kill_post", |scenario| scenario.is_at("about to return"));
    dev.start_again();
    each(&mut struck, "kill_tool", |scenario| scenario.tell("the server is back"));
    for (case, sdk, scenario) in struck {
        outcomes.enter(case, sdk, scenario.and_then(|scenario| scenario.facts()));
    }
}

/// The next step of every scenario of this name.
fn each(struck: &mut [Struck], name: &str, step: impl Fn(&mut Scenario) -> Result<(), String>) {
    for (.., scenario) in struck.iter_mut().filter(|(case, ..)| case.name == name) {
        let done = match scenario {
            Ok(scenario) => step(scenario),
            Err(_) => continue,
        };
        if let Err(why) = done {
            *scenario = Err(why);
        }
    }
}
