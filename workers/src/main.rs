//! The `windlass` binary: it parses the command line, sets up TLS and logging, and calls the library.

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
    // One provider for all TLS clients of the process. It must be installed before the first TLS connection.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("windlass: TLS was initialised twice; this is a bug in this build");
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
