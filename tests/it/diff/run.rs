//! Plays many scripts on both servers, some at a time, and counts.

use std::{fmt, fmt::Write as _};

use futures_util::{StreamExt as _, stream};

use super::{
    compare::{Divergence, first_divergence},
    peer::Peer,
    play::{Observation, play},
    script::{self, Action},
    shrink::shrink,
};

pub(super) struct Named {
    pub(super) name: String,
    pub(super) script: Vec<Action>,
}

/// Scripts under way at a time, each on both servers.
const AT_A_TIME: usize = 16;

/// Shrinking takes a while; what comes after the first few is most likely the same again.
const SHRUNK: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Summary {
    actions: usize,
    histories: usize,
    events: usize,
    pub(super) divergences: usize,
    unsteady: Vec<String>,
    restless: Vec<String>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { actions, histories, events, divergences, unsteady, restless } = self;
        write!(
            f,
            "actions: {actions}, histories compared: {histories}, events compared: {events}, divergences: {divergences}"
        )?;
        for (names, what) in
            [(unsteady, "differed once and not again"), (restless, "did not come to rest on the real server")]
        {
            if !names.is_empty() {
                write!(f, "\n{what}: {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}

/// What one script showed.
struct Compared {
    histories: usize,
    events: usize,
    divergence: Option<Divergence>,
    restless: bool,
}

/// With `WINDLASS_DIFF_SHOW` it prints all that the real server answered.
async fn compare(script: &[Action]) -> Compared {
    let (real, engine) = tokio::join!(Box::pin(play(Peer::Real, script)), Box::pin(play(Peer::Engine, script)));
    if std::env::var_os("WINDLASS_DIFF_SHOW").is_some() {
        for Observation { what, seen } in &real.observations {
            println!("## {what}\n{seen}");
        }
    }
    Compared {
        histories: real.histories,
        events: real.events,
        divergence: first_divergence(&real.observations, &engine.observations),
        restless: real.restless,
    }
}

pub(super) async fn run(scripts: Vec<Named>) -> Summary {
    // A server that has just begun to listen is not ready yet.
    Peer::Real.warm_up().await;
    Peer::Engine.warm_up().await;
    let mut summary = Summary::default();
    let mut divergent = Vec::new();
    let played = stream::iter(scripts).map(|named| async move { (compare(&named.script).await, named) });
    let mut played = played.buffer_unordered(AT_A_TIME);
    while let Some((compared, named)) = played.next().await {
        summary.actions += named.script.len();
        summary.histories += compared.histories;
        summary.events += compared.events;
        if compared.restless {
            summary.restless.push(named.name.clone());
        }
        divergent.extend(compared.divergence.map(|divergence| (named, divergence)));
    }
    // A busy real server refuses a call now and then, so a difference counts when it shows again.
    let again = stream::iter(divergent)
        .map(|(named, first)| async move { (compare(&named.script).await.divergence, first, named) });
    let mut again = again.buffer_unordered(AT_A_TIME);
    let mut steady = Vec::new();
    while let Some((second, first, named)) = again.next().await {
        match second {
            Some(divergence) => steady.push((named, divergence)),
            None => {
                println!("=== {} differed once and not again\n{}", named.name, first.report);
                summary.unsteady.push(named.name);
            }
        }
    }
    summary.divergences = steady.len();
    for (index, (named, divergence)) in steady.into_iter().enumerate() {
        println!("{}", report(&named, divergence, index < SHRUNK).await);
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
