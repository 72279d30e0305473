//! The work of `windlass bench` as a workflow of Temporal's Rust SDK, unchanged, on a service that costs next to nothing: it
//! answers by function call, in this process, and keeps nothing on disk. What is left is the price of the programming model.
//!
//! Client, worker and threads are set up as Windlass does it.

mod queues;
mod run;
mod service;
mod workflow;

use std::{num::NonZero, process, thread};

use peer::{Peer, Probe, Work};
use temporalio_client::{
    Client, ClientOptions, Connection, ConnectionOptions, UntypedWorkflow, Url, WorkflowStartOptions,
};
use temporalio_sdk::{Runtime, Worker, WorkerOptions, workflows::WorkflowImplementation};

use self::workflow::{Bench, Steps};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TASK_QUEUE: &str = "bench";
/// More than there are runs: the service could not replay one that the worker has evicted.
const CACHED_RUNS: usize = 131_072;

struct Direct(Client);

impl Peer for Direct {
    async fn complete(&self, run: &str, work: Work) -> peer::Result<()> {
        let options = WorkflowStartOptions::new(TASK_QUEUE, run).build();
        self.0.start_workflow(Bench::run, work, options).await?.get_result(Default::default()).await?;
        Ok(())
    }

    async fn begin(&self, run: &str, work: Work) -> peer::Result<()> {
        let options = WorkflowStartOptions::new(TASK_QUEUE, run).build();
        self.0.start_workflow(Bench::run, work, options).await?;
        Ok(())
    }

    async fn finish(&self, run: &str) -> peer::Result<()> {
        self.0.get_workflow_handle::<UntypedWorkflow>(run).get_result(Default::default()).await?;
        Ok(())
    }

    async fn answer(&self, run: &str) -> peer::Result<()> {
        let handle = self.0.get_workflow_handle::<<Bench as WorkflowImplementation>::Run>(run);
        Ok(handle.signal(Bench::answer, "Yes.".to_owned(), Default::default()).await?)
    }
}

async fn connect() -> peer::Result<Client> {
    // This name is never resolved.
    let options = ConnectionOptions::new("http://service.invalid".parse::<Url>()?)
        .service_override(service::in_memory())
        // The client rejects load balancing together with an in-process service.
        .dns_load_balancing(None)
        .build();
    let connection = Connection::connect(options).await?;
    Ok(Client::new(connection, ClientOptions::new(service::NAMESPACE).build())?)
}

/// Workflows are not `Send`, so they run on a thread of their own.
fn work(client: Client, probe: &Probe) -> peer::Result<()> {
    let noted = probe.clone();
    let options = WorkerOptions::new(TASK_QUEUE)
        .register_activities(Steps::new(probe.clone()))
        .register_workflow_with_factory(move || Bench::new(noted.clone()))?
        .max_cached_workflows(CACHED_RUNS)
        .build();
    let sdk = Runtime::from_current_tokio(Default::default())?;
    let mut worker = Worker::new(&sdk, client, options)?;
    let handle = tokio::runtime::Handle::current();
    thread::Builder::new().name("runs".to_owned()).spawn(move || {
        if let Err(error) = handle.block_on(worker.run()) {
            eprintln!("the worker ended: {error}");
            process::exit(1);
        }
    })?;
    Ok(())
}

/// As many as Windlass has: one less than there are processors, because workflows have a thread of their own.
fn async_threads() -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    processors.saturating_sub(1).max(1)
}

fn main() -> peer::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(async_threads()).enable_all().build()?;
    let ended = runtime.block_on(async {
        let (client, probe) = (connect().await?, Probe::default());
        work(client.clone(), &probe)?;
        peer::serve(Direct(client), probe).await
    });
    // The worker polls for as long as the process lives.
    runtime.shutdown_background();
    ended
}
