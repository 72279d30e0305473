//! `windlass runs …`: the commands of operators.

mod answer;
mod control;
mod cost;
mod events;
mod list;
mod show;
mod transcript;

use std::{process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use windlass_core::ids::RunId;

use super::{
    Failure, Global,
    follow::{self, follow},
    person::Person,
    reach::{Reach, Visitor},
    start::GIVE_UP_AFTER,
    usage, values,
};
use crate::service::Missing;

#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List runs, newest first.
    List(list::ListArgs),
    /// Add up what runs cost, by agent, model or workspace.
    Cost(cost::CostArgs),
    /// Show a run in detail.
    Show(RunArg),
    /// Follow a run as `windlass run` does, and answer its questions.
    Attach(AttachArgs),
    /// Show the transcript: messages, calls and results, questions and answers.
    Transcript(transcript::TranscriptArgs),
    /// Print a run's event log.
    Events(events::EventsArgs),
    /// Show the open awaits of a run, with arguments.
    Awaits(RunArg),
    /// Pause a run: it starts nothing new until it is resumed.
    Pause(control::PauseArgs),
    /// Resume a paused run.
    Resume(control::ResumeArgs),
    /// Steer a run: add a user message before the model's next turn.
    Steer(control::SteerArgs),
    /// Answer a question, or provide the results of external calls.
    Answer(answer::AnswerArgs),
    /// Approve a call with exactly the arguments shown.
    Approve(answer::ApproveArgs),
    /// Deny a call; the model gets the reason.
    Deny(answer::DenyArgs),
    /// Cancel a run.
    Cancel(control::CancelArgs),
}

#[derive(Debug, Args)]
pub struct RunArg {
    /// Id of the run
    #[arg(value_parser = values::run)]
    run: RunId,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Ctrl-C stops following; the run continues. Exit codes are those of `windlass run`.")]
pub struct AttachArgs {
    #[command(flatten)]
    run: RunArg,

    /// Exit, with code 4, when the run waits for an answer
    #[arg(long)]
    until_waiting: bool,

    /// How long to wait for a server that does not respond
    #[arg(long, value_name = "DURATION", default_value = GIVE_UP_AFTER, value_parser = values::span)]
    give_up_after: Duration,

    #[command(flatten)]
    person: Person,
}

/// How long commands that do not follow a run wait for a server that does not respond.
const SHORT_WAIT: Duration = Duration::from_secs(10);

pub(super) async fn run(global: &Global, command: RunsCommand) -> Result<ExitCode, Failure> {
    match command {
        RunsCommand::List(args) => list::run(global, args).await,
        RunsCommand::Cost(args) => cost::run(global, args).await,
        RunsCommand::Show(args) => show::run(&existing(global, "", SHORT_WAIT).await?, &args.run).await,
        RunsCommand::Awaits(args) => show::awaits(&existing(global, "", SHORT_WAIT).await?, &args.run).await,
        RunsCommand::Transcript(args) => transcript::run(&existing(global, "", SHORT_WAIT).await?, args).await,
        RunsCommand::Events(args) => events::run(&existing(global, "", args.give_up_after).await?, args).await,
        RunsCommand::Pause(args) => {
            control::pause(&existing(global, &args.person.name(), SHORT_WAIT).await?, args).await
        }
        RunsCommand::Resume(args) => {
            control::resume(&existing(global, &args.person.name(), SHORT_WAIT).await?, args).await
        }
        RunsCommand::Steer(args) => {
            control::steer(&existing(global, &args.person.name(), SHORT_WAIT).await?, args).await
        }
        RunsCommand::Cancel(args) => {
            let reach = open(global, "", SHORT_WAIT).await?;
            closed(control::cancel(&reach, args).await, reach).await
        }
        RunsCommand::Attach(args) => attach(global, args).await,
        RunsCommand::Answer(args) => {
            let reach = to_answer(global, &args.to).await?;
            closed(answer::answer(&reach, args).await, reach).await
        }
        RunsCommand::Approve(args) => {
            let reach = to_answer(global, &args.to).await?;
            closed(answer::approve(&reach, args).await, reach).await
        }
        RunsCommand::Deny(args) => {
            let reach = to_answer(global, &args.to).await?;
            closed(answer::deny(&reach, args).await, reach).await
        }
    }
}

async fn existing(global: &Global, actor: &str, give_up_after: Duration) -> Result<Reach, Failure> {
    Reach::open_existing(global, Visitor { actor, give_up_after }).await
}

async fn open(global: &Global, actor: &str, give_up_after: Duration) -> Result<Reach, Failure> {
    Reach::open(global, Missing::Refuse, Visitor { actor, give_up_after }, None).await
}

async fn to_answer(global: &Global, to: &answer::AwaitArgs) -> Result<Reach, Failure> {
    if !to.signal {
        return open(global, &to.person.name(), SHORT_WAIT).await;
    }
    if global.server.is_some() {
        return Err(usage(
            "--signal sends a Temporal signal, which an API server does not do: remove it, or use --temporal instead of \
             --server",
        ));
    }
    Reach::direct(global, Missing::Refuse).await
}

async fn closed(ended: Result<ExitCode, Failure>, reach: Reach) -> Result<ExitCode, Failure> {
    reach.close().await?;
    ended
}

async fn attach(global: &Global, args: AttachArgs) -> Result<ExitCode, Failure> {
    let run = args.run.run;
    let reach = open(global, &args.person.name(), args.give_up_after).await?;
    let options = follow::Options { actor: args.person.actor(), until_waiting: args.until_waiting };
    closed(follow(&reach, &run, &options).await, reach).await
}
