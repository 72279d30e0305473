//! Plays many scripts on both servers, some at a time, and counts.
//!
//! What the real server decides by chance, it decides differently when it is asked again. So where the engine differs,
//! the real server plays the script some more times: if one of these plays is the engine's to the last word, the server
//! differs from itself, and the engine does what it does. If none is, the engine plays it again as often: a script has
//! timeouts of a second in it, and a machine that stood still for longer played another script than the one written.
//! If the engine then does every time what the real server did, the difference is shown and counted as unrepeated.
//! Otherwise the engine is wrong.
//!
//! A play that took longer than a timeout in its script is no play of that script. It is repeated, and if it stays so, the
//! script is counted as too slow for the machine.

use std::{
    fmt,
    fmt::Write as _,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

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

/// If more than one in so many scripts could not be played as written, a run proves little.
const MOST_TOO_SLOW: usize = 20;

/// How often a long run says how far it has come.
const PROGRESS: Duration = Duration::from_secs(10);

/// Each script is in one of the first five.
#[derive(Debug, Default)]
pub(super) struct Summary {
    equal: usize,
    /// The real server differs from itself, and was seen to do what the engine did.
    chance: Vec<String>,
    /// The engine differed once, and did what the real server does each time it was asked again.
    unrepeated: Vec<String>,
    /// The engine did what the real server does not.
    divergent: Vec<Report>,
    /// The machine was too slow for the timeouts of the script, time and again.
    too_slow: Vec<String>,
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
    fn add(&mut self, judged: Judged) {
        let Judged { name, outcome, actions, left_out, histories, events, restless } = judged;
        self.actions += actions;
        self.left_out += left_out;
        self.histories += histories;
        self.events += events;
        if restless {
            self.restless.push(name.clone());
        }
        match outcome {
            Outcome::Equal => self.equal += 1,
            Outcome::Chance => self.chance.push(name),
            Outcome::Unrepeated => self.unrepeated.push(name),
            Outcome::Divergent(text) => self.divergent.push(Report { name, text }),
            Outcome::TooSlow => self.too_slow.push(name),
        }
    }

    fn played(&self) -> usize {
        self.equal + self.chance.len() + self.unrepeated.len() + self.divergent.len() + self.too_slow.len()
    }

    /// Fails with everything that is known of them, if there are any.
    pub(super) fn assert_no_divergence(&self) {
        let reports: String = self.divergent.iter().map(|report| format!("\n{}", report.text)).collect();
        assert!(reports.is_empty(), "the engine differs from the real server{reports}");
        let (slow, played) = (self.too_slow.len(), self.played());
        assert!(slow <= 1 + played / MOST_TOO_SLOW, "the machine was too slow for {slow} of {played} scripts");
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { equal, chance, unrepeated, divergent, too_slow, .. } = self;
        let Self { actions, left_out, histories, events, restless, .. } = self;
        write!(
            f,
            "equal: {equal}, decided by chance: {}, unrepeated: {}, divergent: {}, too slow: {}; actions: {actions}, {left_out} of \
             them left out, histories compared: {histories}, events compared: {events}",
            chance.len(),
            unrepeated.len(),
            divergent.len(),
            too_slow.len(),
        )?;
        let divergent = divergent.iter().map(|report| report.name.clone()).collect();
        for (names, what) in [
            (chance, "decided by chance"),
            (unrepeated, "unrepeated"),
            (&divergent, "divergent"),
            (too_slow, "the machine was too slow for"),
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

/// Some more plays, as far as the machine was fast enough for them.
async fn play_again(peer: Peer, script: &[Action]) -> Vec<Played> {
    let mut played = join_all((0..REPLAYS).map(|_| Box::pin(play(peer, script)))).await;
    played.retain(|played| !played.was_too_slow(peer));
    played
}

/// Plays the scripts and judges each as soon as it was played. What is divergent is printed when it is found.
pub(super) async fn run(scripts: impl ExactSizeIterator<Item = Named>) -> Summary {
    // A server that has just begun to listen is not ready yet.
    Peer::Real.warm_up().await;
    Peer::Engine.warm_up().await;
    let mut progress = Progress::new(scripts.len());
    let mut summary = Summary::default();
    let shrunk = AtomicUsize::new(0);
    let mut judged = stream::iter(scripts).map(|named| judge(named, &shrunk)).buffer_unordered(AT_A_TIME);
    while let Some(judged) = judged.next().await {
        summary.add(judged);
        progress.show(&summary);
    }
    summary
}

/// What came of a script.
struct Judged {
    name: String,
    outcome: Outcome,
    actions: usize,
    left_out: usize,
    histories: usize,
    events: usize,
    restless: bool,
}

enum Outcome {
    Equal,
    Chance,
    Unrepeated,
    Divergent(String),
    TooSlow,
}

async fn judge(named: Named, shrunk: &AtomicUsize) -> Judged {
    let Compared { real, engine, divergence } = compare(&named.script).await;
    let mut judged = Judged {
        name: named.name.clone(),
        outcome: Outcome::Equal,
        actions: named.script.len(),
        left_out: real.observations.iter().filter(|seen| seen.seen.starts_with("left out")).count(),
        histories: real.histories,
        events: real.events,
        restless: real.restless,
    };
    if let Some(divergence) = divergence {
        if real.was_too_slow(Peer::Real) || engine.was_too_slow(Peer::Engine) {
            println!("=== {}: the machine was too slow", named.name);
            judged.outcome = Outcome::TooSlow;
            return judged;
        }
        judged.outcome = Box::pin(explain(&named, real, engine, divergence, shrunk)).await;
    }
    judged
}

/// Why the two servers differed on a script.
async fn explain(named: &Named, real: Played, engine: Played, divergence: Divergence, shrunk: &AtomicUsize) -> Outcome {
    let name = &named.name;
    if Peer::is_control() {
        println!("=== {name}: the real server differs from itself\n{}", divergence.report);
        return Outcome::Chance;
    }
    let mut seen = play_again(Peer::Real, &named.script).await;
    let as_the_engine = seen.iter().filter(|real| real.observations == engine.observations).count();
    if as_the_engine > 0 {
        let count = seen.len();
        println!("=== {name}: {as_the_engine} of {count} plays on the real server went as on the engine");
        println!("{}", divergence.report);
        return Outcome::Chance;
    }
    seen.push(real);
    let engine_again = play_again(Peer::Engine, &named.script).await;
    if engine_again.is_empty() {
        println!("=== {name}: the machine was too slow");
        return Outcome::TooSlow;
    }
    if engine_again.iter().all(|engine| seen.iter().any(|real| real.observations == engine.observations)) {
        let count = engine_again.len();
        println!("=== {name}: {count} more plays on the engine went as on the real server");
        println!("{}", divergence.report);
        return Outcome::Unrepeated;
    }
    let text = report(named, divergence, shrunk.fetch_add(1, Ordering::Relaxed) < SHRUNK).await;
    println!("{text}");
    Outcome::Divergent(text)
}

/// Says now and then how far a long run has come.
struct Progress {
    scripts: usize,
    started: Instant,
    shown: Instant,
}

impl Progress {
    fn new(scripts: usize) -> Self {
        Self { scripts, started: Instant::now(), shown: Instant::now() }
    }

    fn show(&mut self, summary: &Summary) {
        if self.shown.elapsed() < PROGRESS {
            return;
        }
        self.shown = Instant::now();
        let done = summary.played();
        let rate = done as f64 / self.started.elapsed().as_secs_f64();
        println!("... {done} of {} scripts, {} divergent, {rate:.1} scripts/s", self.scripts, summary.divergent.len());
    }
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
