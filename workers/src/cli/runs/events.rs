//! `windlass runs events`: the log, event by event.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use futures_util::StreamExt as _;
use windlass_client::Update;
use windlass_core::event::Event;

use super::RunArg;
use crate::{
    cli::{Failure, Stop, reach::Reach, start::GIVE_UP_AFTER, values},
    render::event_line,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass runs events run-1 --follow
  windlass runs events run-1 --after 41 --json | jq .type")]
pub struct EventsArgs {
    #[command(flatten)]
    run: RunArg,

    /// Print new events until the run ends
    #[arg(long, short)]
    follow: bool,

    /// Begin after this seq
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,

    /// How long to wait for a server that does not respond
    #[arg(long, value_name = "DURATION", default_value = GIVE_UP_AFTER, value_parser = values::span)]
    pub(super) give_up_after: Duration,
}

pub(super) async fn run(reach: &Reach, args: EventsArgs) -> Result<ExitCode, Failure> {
    let (run, out) = (args.run.run, reach.out());
    let print = |event: &Event| out.print(event, || event_line(event, out.paint()));
    reach.row(&run).await?;
    if !args.follow {
        for event in &reach.events(&run, args.after).await? {
            print(event)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (mut log, mut stop, mut away) = (reach.log(&run, args.after), Stop::listen()?, false);
    loop {
        let update = tokio::select! {
            update = log.next() => update,
            () = stop.asked() => None,
        };
        match update.transpose()? {
            None => return Ok(ExitCode::SUCCESS),
            Some(Update::Event(event)) => print(&event)?,
            // Printed once, however many attempts fail.
            Some(Update::Lost(_)) => {
                if !std::mem::replace(&mut away, true) {
                    out.note("server gone, waiting for it…");
                }
            }
            Some(Update::Back) => {
                if std::mem::take(&mut away) {
                    out.note("server is back");
                }
            }
        }
    }
}
