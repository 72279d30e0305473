//! Scripts written by hand.
use super::script::*;
use Action::*;
use Who::*;

pub(super) fn all() -> Vec<(&'static str, Vec<Action>)> {
    vec![
        ("plain", vec![Start(super::script::Start::new(W0)), PollTask(W0), done(vec![Do::Complete])]),
        (
            "buffered signal",
            vec![
                Start(super::script::Start::new(W0)),
                PollTask(W0),
                Signal { who: W0, request: 1, run: Run::Current },
                done(vec![Do::Complete]),
                PollTask(W0),
                done(vec![Do::Complete]),
            ],
        ),
    ]
}

fn done(commands: Vec<Do>) -> Action {
    CompleteTask { who: W0, token: Token::Last, with: Completion { commands, ..Default::default() } }
}
