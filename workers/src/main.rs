//! The `windlass` binary: it reads the command line, sets the process up and hands over to the library.

use std::process::ExitCode;

use clap::Parser as _;
use windlass::{
    cli::{self, Cli},
    failure,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // One provider for every TLS client in the process; it can only be set before anybody uses one.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("windlass: TLS was set up twice; this is a defect of this build");
        return ExitCode::FAILURE;
    }
    match cli::logs::install(&cli) {
        Ok(()) => cli::run(cli),
        Err(message) => {
            eprintln!("windlass: {message}");
            ExitCode::from(failure::USAGE)
        }
    }
}
