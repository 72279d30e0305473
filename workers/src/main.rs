//! The `windlass` binary: it parses the command line, sets up TLS and logging, and calls the library.

use std::process::ExitCode;

use windlass::{
    cli::{self, NoCommand},
    failure,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(NoCommand::Arguments(error)) => error.exit(),
        Err(NoCommand::Config(failure)) => {
            eprintln!("{failure}");
            return failure.code();
        }
    };
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
