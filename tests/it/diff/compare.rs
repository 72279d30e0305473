//! The first place where two servers differ, shown with what led to it.

use std::fmt::Write as _;

use super::{peer::Peer, play::Observation};

/// What both servers did up to the first difference.
#[derive(Debug)]
pub(super) struct Divergence {
    pub(super) report: String,
}

/// How many equal lines are shown around the first different one.
const CONTEXT: usize = 12;

pub(super) fn first_divergence(real: &[Observation], engine: &[Observation]) -> Option<Divergence> {
    let differs = |index: &usize| real.get(*index) != engine.get(*index);
    let index = (0..real.len().max(engine.len())).find(differs)?;
    let mut report = String::new();
    for observation in real[..index.min(real.len())].iter().rev().take(2).rev() {
        let _ = writeln!(report, "the same on both: {}", observation.what);
    }
    match (real.get(index), engine.get(index)) {
        (Some(real), Some(engine)) if real.what == engine.what => {
            let _ = writeln!(report, "different: {}", real.what);
            report.push_str(&lines(&real.seen, &engine.seen));
        }
        (real, engine) => {
            for (peer, observation) in [(Peer::Real, real), (Peer::Engine, engine)] {
                let _ = match observation {
                    Some(Observation { what, seen }) => writeln!(report, "--- {}: {what}\n{seen}", peer.name()),
                    None => writeln!(report, "--- {}: nothing", peer.name()),
                };
            }
        }
    }
    Some(Divergence { report })
}

/// Both texts from a little before the first different line to a little after it.
fn lines(real: &str, engine: &str) -> String {
    let (real, engine): (Vec<&str>, Vec<&str>) = (real.lines().collect(), engine.lines().collect());
    let first = (0..real.len().max(engine.len())).find(|line| real.get(*line) != engine.get(*line)).unwrap_or_default();
    let mut text = String::new();
    for (peer, lines) in [(Peer::Real, &real), (Peer::Engine, &engine)] {
        let _ = writeln!(text, "--- {} (lines {} of {})", peer.name(), first + 1, lines.len());
        let from = first.saturating_sub(CONTEXT);
        for (number, line) in lines.iter().enumerate().skip(from).take(2 * CONTEXT) {
            let mark = if number == first { ">" } else { " " };
            let _ = writeln!(text, "{mark} {line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(what: &str, seen: &str) -> Observation {
        Observation { what: what.to_owned(), seen: seen.to_owned() }
    }

    #[test]
    fn equal_observations_do_not_diverge() {
        assert!(first_divergence(&[seen("a", "1")], &[seen("a", "1")]).is_none());
    }

    #[test]
    fn the_first_different_line_is_marked() {
        let real = [seen("a", "1"), seen("b", "x\ny\nz")];
        let engine = [seen("a", "1"), seen("b", "x\nY\nz")];
        assert_eq!(
            first_divergence(&real, &engine).unwrap().report,
            "the same on both: a\ndifferent: b\n--- real server (lines 2 of 3)\n  x\n> y\n  z\n\
             --- engine (lines 2 of 3)\n  x\n> Y\n  z\n"
        );
    }

    #[test]
    fn a_missing_observation_is_a_difference() {
        assert_eq!(
            first_divergence(&[seen("a", "1")], &[]).unwrap().report,
            "--- real server: a\n1\n--- engine: nothing\n"
        );
    }
}
