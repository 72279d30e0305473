//! `windlass runs …`: what operators do.

mod answer;
mod control;
mod events;
mod list;
mod show;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use windlass_core::ids::RunId;

pub(super) use self::answer::send;
use super::{
    Failure, Global,
    context::{Context, Missing},
    follow::{self, follow},
    person::Person,
    values,
};

#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List runs, newest first.
    List(list::ListArgs),
    /// Show everything known about a run.
    Show(RunArg),
    /// Follow a run as `windlass run` does, and answer its questions.
    Attach(AttachArgs),
    /// Print a run's event log.
    Events(events::EventsArgs),
    /// Show what a run waits for, arguments included.
    Awaits(RunArg),
    /// Let a run begin nothing new until it is resumed.
    Pause(control::PauseArgs),
    /// Let a paused run go on.
    Resume(control::ResumeArgs),
    /// Tell the model something before its next turn.
    Steer(control::SteerArgs),
    /// Answer a question, or give the results of calls that run outside.
    Answer(answer::AnswerArgs),
    /// Approve a call with exactly the arguments that are shown.
    Approve(answer::ApproveArgs),
    /// Deny a call; the model is told.
    Deny(answer::DenyArgs),
    /// Stop a run for good.
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
Ctrl-C stops following: the run goes on. The exit codes are those of `windlass run`.")]
pub struct AttachArgs {
    #[command(flatten)]
    run: RunArg,

    /// Leave, with exit code 4, when the run waits for somebody
    #[arg(long)]
    until_waiting: bool,

    #[command(flatten)]
    person: Person,
}

pub(super) async fn run(global: &Global, command: RunsCommand) -> Result<ExitCode, Failure> {
    // Listing needs no server, and works while there is none.
    if let RunsCommand::List(args) = command {
        return list::run(global, args).await;
    }
    let context = Context::open(global, Missing::Refuse).await?;
    match command {
        RunsCommand::List(_) => unreachable!("handled above"),
        RunsCommand::Show(args) => show::run(&context, &args.run).await,
        RunsCommand::Awaits(args) => show::awaits(&context, &args.run).await,
        RunsCommand::Events(args) => events::run(&context, args).await,
        RunsCommand::Attach(args) => {
            context.row(&args.run.run).await?;
            let options = follow::Options { actor: args.person.name(), until_waiting: args.until_waiting };
            follow(&context, &args.run.run, &options).await
        }
        RunsCommand::Pause(args) => control::pause(&context, args).await,
        RunsCommand::Resume(args) => control::resume(&context, args).await,
        RunsCommand::Steer(args) => control::steer(&context, args).await,
        RunsCommand::Cancel(args) => control::cancel(&context, args).await,
        RunsCommand::Answer(args) => answer::answer(&context, args).await,
        RunsCommand::Approve(args) => answer::approve(&context, args).await,
        RunsCommand::Deny(args) => answer::deny(&context, args).await,
    }
}
