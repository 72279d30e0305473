//! `windlass runs events`: the log as it is.

use std::process::ExitCode;

use clap::Args;
use windlass_core::event::Event;

use super::RunArg;
use crate::{
    cli::{Failure, Stop, context::Context},
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

    /// Go on until the run ends
    #[arg(long, short)]
    follow: bool,

    /// Begin after this sequence number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
}

pub(super) async fn run(context: &Context, args: EventsArgs) -> Result<ExitCode, Failure> {
    let EventsArgs { run, follow, mut after } = args;
    let (run, mut stop) = (run.run, Stop::listen()?);
    context.row(&run).await?;
    // Watched before it is read: nothing falls in between.
    let mut watch = context.store().watch(&run);
    loop {
        let events = context.events(&run, after).await?;
        for event in &events {
            print(context, event)?;
            after = event.seq;
        }
        if !follow || events.last().is_some_and(Event::is_terminal) {
            return Ok(ExitCode::SUCCESS);
        }
        // Nothing comes after the last event, also if reading began there.
        if events.is_empty() && context.store().run(&run).await?.is_some_and(|row| row.closed_at.is_some()) {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            () = watch.changed() => {}
            () = stop.asked() => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn print(context: &Context, event: &Event) -> Result<(), serde_json::Error> {
    context.out.print(event, || event_line(event, context.out.paint()))
}
