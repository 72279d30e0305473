//! `windlass models`: which models there are, and whether one of them works.

mod key;
mod list;
mod test;

use std::process::ExitCode;

use clap::Subcommand;

pub(super) use self::key::KeyState;
use super::{Failure, Global, Output, worker::CatalogueArgs};

#[derive(Debug, Subcommand)]
pub enum ModelsCommand {
    /// List models with their limits, capabilities and prices, and whether their key is there.
    List {
        /// Only models of this provider
        #[arg(long, value_name = "NAME")]
        provider: Option<String>,
    },
    /// Call a model once, with a tool, and print what works, how fast it is and what it costs.
    Test(test::TestArgs),
}

pub(super) async fn run(global: &Global, command: ModelsCommand) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    let (_, options) = CatalogueArgs::default().load_agents(global)?;
    let catalogue = options.models()?;
    match command {
        ModelsCommand::List { provider } => {
            list::run(global.config(), &catalogue, provider.as_deref(), out)?;
            Ok(ExitCode::SUCCESS)
        }
        ModelsCommand::Test(args) => test::run(global, &catalogue, &args, out).await,
    }
}
