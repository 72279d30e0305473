//! An engine in a process of its own, for tests that kill it. It prints `ready` once its port is served, and ends
//! when its standard input is closed.
//!
//! Arguments: data directory, port, durability (`full`, which is the default, or `relaxed`).

use std::{io::Read as _, path::Path};

use anyhow::Context;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_engine::{DirectoryLock, Engine, Options, grpc};
use windlass_sqlite::{Database, Durability};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (data_dir, port, durability) = match &args[..] {
        [data_dir, port] => (data_dir, port, Durability::Full),
        [data_dir, port, durability] if durability == "full" => (data_dir, port, Durability::Full),
        [data_dir, port, durability] if durability == "relaxed" => (data_dir, port, Durability::Relaxed),
        _ => anyhow::bail!("expected: data directory, port and, if it is not to be full, the durability"),
    };
    std::thread::spawn(|| {
        let mut nothing = Vec::new();
        std::io::stdin().read_to_end(&mut nothing).ok();
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(serve(Path::new(data_dir), port.parse().context("the port is a number")?, durability))
}

async fn serve(data_dir: &Path, port: u16, durability: Durability) -> anyhow::Result<()> {
    let _lock = DirectoryLock::acquire(data_dir)?;
    let file = windlass_sqlite::Options { durability, ..windlass_sqlite::Options::new(data_dir.join("engine.db")) };
    let (engine, handle) = Engine::open(Options::new(Database::open(file)?))?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await.context("the port is free")?;
    let never = CancellationToken::new();
    let served = tokio::spawn(grpc::serve(listener, move |call| handle.call(call), never.clone()));
    println!("ready");
    engine.run(never).await?;
    Ok(served.await?)
}
