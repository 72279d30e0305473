//! Makes a script that shows a difference smaller while it still shows one.

use std::time::{Duration, Instant};

use super::{
    compare::Divergence,
    script::{Action, Completion},
};

/// Each try plays the script on both servers.
const TIME: Duration = Duration::from_secs(60);

pub(super) async fn shrink<F: Future<Output = Option<Divergence>>>(
    mut script: Vec<Action>,
    mut shown: Divergence,
    diverges: impl Fn(Vec<Action>) -> F,
) -> (Vec<Action>, Divergence) {
    let started = Instant::now();
    let mut position = 0;
    let mut candidates = smaller(&script);
    while position < candidates.len() && started.elapsed() < TIME {
        match diverges(candidates[position].clone()).await {
            Some(divergence) => {
                script = candidates.swap_remove(position);
                shown = divergence;
                candidates = smaller(&script);
                // What could not be left out before can hardly be left out now.
                position = position.min(candidates.len().saturating_sub(1));
            }
            None => position += 1,
        }
    }
    (script, shown)
}

/// Every script that is one step smaller: first with much left out, then with little, then with simpler actions.
fn smaller(script: &[Action]) -> Vec<Vec<Action>> {
    let mut candidates = Vec::new();
    let mut size = script.len() / 2;
    while size > 0 {
        // From the end: what comes after the difference is never needed.
        for from in (0..script.len()).rev().step_by(size) {
            let mut candidate = script.to_vec();
            candidate.drain(from..(from + size).min(script.len()));
            candidates.push(candidate);
        }
        size /= 2;
    }
    for (index, action) in script.iter().enumerate() {
        for simpler in simpler(action) {
            let mut candidate = script.to_vec();
            candidate[index] = simpler;
            candidates.push(candidate);
        }
    }
    candidates.retain(|candidate| !candidate.is_empty() && candidate != script);
    candidates
}

fn simpler(action: &Action) -> Vec<Action> {
    match action {
        Action::CompleteTask { who, token, with } => {
            let mut candidates: Vec<Completion> = (0..with.commands.len())
                .map(|index| {
                    let mut with = with.clone();
                    with.commands.remove(index);
                    with
                })
                .collect();
            candidates.push(Completion { commands: with.commands.clone(), ..Default::default() });
            candidates.into_iter().map(|with| Action::CompleteTask { who: *who, token: *token, with }).collect()
        }
        Action::Attended { cause, with } => {
            let mut candidates = vec![(**cause).clone()];
            candidates.extend((0..with.commands.len()).map(|index| {
                let mut with = with.clone();
                with.commands.remove(index);
                Action::Attended { cause: cause.clone(), with }
            }));
            candidates
        }
        Action::Start(start) if !start.extras.is_empty() => {
            let mut start = start.clone();
            start.extras.pop();
            vec![Action::Start(start)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diff::{generate, script::Who},
        support::block_on,
    };

    #[test]
    fn shrinking_removes_irrelevant_steps() {
        let mut script = generate::script(3);
        script.insert(9, Action::ResetSticky(Who::Unstarted));
        let needed = |script: Vec<Action>| async move {
            script
                .contains(&Action::ResetSticky(Who::Unstarted))
                .then(|| Divergence { report: format!("{} actions", script.len()) })
        };
        let shown = Divergence { report: String::new() };
        let (script, shown) = block_on(shrink(script, shown, needed));
        assert_eq!(script, [Action::ResetSticky(Who::Unstarted)]);
        assert_eq!(shown.report, "1 actions");
    }
}
