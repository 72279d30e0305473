//! Plays many scripts on both servers, some at a time, and counts.
//!
//! What the real server decides by chance, it decides differently when it is asked again. So where the engine differs,
//! the real server plays the script some more times: if one of these plays is the engine's to the last word, the server
//! differs from itself, and the engine does what it does. If none is, the engine plays it again as often: a script has
//! timeouts of a second in it, and a machine that stood still for longer played another script than the one written.
//! If the engine then does every time what the real server did, the difference is shown and counted as unrepeated.
//! Otherwise the engine is wrong.

use std::{fmt, fmt::Write as _};

use futures_util::{StreamExt as _, future::join_all, stream};

use super::{
    compare::{Divergence, first_divergence},
    peer::Peer,
    play::{Observation, Played, play},
    script::{self, Action},
    shrink::shrink,
};

pub(super) struct Named {
    pub(super) name: String,
    pub(super) script: Vec<Action>,
}

/// Scripts under way at a time, each on both servers.
const AT_A_TIME: usize = 16;

/// How often the real server plays a script again on which the engine differs from it. Where it decides by chance, it
/// will have done once what the engine did.
const REPLAYS: usize = 8;

/// Shrinking takes a while; what comes after the first few is most likely the same again.
const SHRUNK: usize = 2;

/// Each script is in one of the first four.
#[derive(Debug, Default)]
pub(super) struct Summary {
    equal: usize,
    /// The real server differs from itself, and was seen to do what the engine did.
    chance: Vec<String>,
    /// The engine differed once, and did what the real server does each time it was asked again.
    unrepeated: Vec<String>,
    /// The engine did what the real server does not.
    divergent: Vec<Report>,
    actions: usize,
    /// Actions that found nothing to act on, or whose outcome would have been a matter of moments.
    left_out: usize,
    histories: usize,
    events: usize,
    restless: Vec<String>,
}

/// A script on which the engine is wrong, and how.
#[derive(Debug)]
struct Report {
    name: String,
    text: String,
}

impl Summary {
    /// Fails with everything that is known of them, if there are any.
    pub(super) fn assert_no_divergence(&self) {
        let reports: String = self.divergent.iter().map(|report| format!("\n{}", report.text)).collect();
        assert!(reports.is_empty(), "the engine differs from the real server{reports}");
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { equal, chance, unrepeated, divergent, actions, left_out, histories, events, restless } = self;
        write!(
            f,
            "equal: {equal}, decided by chance: {}, unrepeated: {}, divergent: {}; actions: {actions}, {left_out} of \
             them left out, histories compared: {histories}, events compared: {events}",
            chance.len(),
            unrepeated.len(),
            divergent.len(),
        )?;
        let divergent = divergent.iter().map(|report| report.name.clone()).collect();
        for (names, what) in [
            (chance, "decided by chance"),
            (unrepeated, "unrepeated"),
            (&divergent, "divergent"),
            (restless, "did not come to rest on the real server"),
        ] {
            if !names.is_empty() {
                write!(f, "\n{what}: {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}

/// A script on both servers.
struct Compared {
    real: Played,
    engine: Played,
    divergence: Option<Divergence>,
}

/// With `WINDLASS_DIFF_SHOW` it prints all that the real server answered.
async fn compare(script: &[Action]) -> Compared {
    let (real, engine) = tokio::join!(Box::pin(play(Peer::Real, script)), Box::pin(play(Peer::Engine, script)));
    if std::env::var_os("WINDLASS_DIFF_SHOW").is_some() {
        for Observation { what, seen } in &real.observations {
            println!("## {what}\n{seen}");
        }
    }
    let divergence = first_divergence(&real.observations, &engine.observations);
    Compared { real, engine, divergence }
}

async fn play_again(peer: Peer, script: &[Action]) -> Vec<Played> {
    join_all((0..REPLAYS).map(|_| Box::pin(play(peer, script)))).await
}

pub(super) async fn run(scripts: Vec<Named>) -> Summary {
    // A server that has just begun to listen is not ready yet.
    Peer::Real.warm_up().await;
    Peer::Engine.warm_up().await;
    let mut summary = Summary::default();
    let mut different = Vec::new();
    let played = stream::iter(scripts).map(|named| async move { (compare(&named.script).await, named) });
    let mut played = played.buffer_unordered(AT_A_TIME);
    while let Some((Compared { real, engine, divergence }, named)) = played.next().await {
        summary.actions += named.script.len();
        summary.left_out += real.observations.iter().filter(|seen| seen.seen.starts_with("left out")).count();
        summary.histories += real.histories;
        summary.events += real.events;
        if real.restless {
            summary.restless.push(named.name.clone());
        }
        match divergence {
            Some(divergence) => different.push((named, real, engine, divergence)),
            None => summary.equal += 1,
        }
    }
    for (named, real, engine, divergence) in different {
        if Peer::is_control() {
            println!("=== {}: the real server differs from itself\n{}", named.name, divergence.report);
            summary.chance.push(named.name);
            continue;
        }
        let mut seen = play_again(Peer::Real, &named.script).await;
        let name = &named.name;
        let as_the_engine = seen.iter().filter(|real| real.observations == engine.observations).count();
        if as_the_engine > 0 {
            println!("=== {name}: {as_the_engine} of {REPLAYS} plays on the real server went as on the engine");
            println!("{}", divergence.report);
            summary.chance.push(named.name);
            continue;
        }
        seen.push(real);
        let engine_again = play_again(Peer::Engine, &named.script).await;
        if engine_again.iter().all(|engine| seen.iter().any(|real| real.observations == engine.observations)) {
            println!("=== {name}: {REPLAYS} more plays on the engine went as on the real server");
            println!("{}", divergence.report);
            summary.unrepeated.push(named.name);
            continue;
        }
        let text = report(&named, divergence, summary.divergent.len() < SHRUNK).await;
        summary.divergent.push(Report { name: named.name, text });
    }
    summary
}

async fn report(named: &Named, divergence: Divergence, worth_shrinking: bool) -> String {
    let (script, divergence) = match worth_shrinking {
        true => {
            shrink(named.script.clone(), divergence, |script| async move { compare(&script).await.divergence }).await
        }
        false => (named.script.clone(), divergence),
    };
    let mut text = format!("=== {} diverges", named.name);
    if worth_shrinking {
        let _ = write!(text, "; this much of its script is enough:\n{}", script::show(&script));
    }
    let _ = write!(text, "\n{}", divergence.report);
    text
}
