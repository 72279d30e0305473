//! The benchmark through the front door: the API served in this process, and an application that comes to it over HTTP
//! with the client everybody has: it starts a run, follows its stream and answers what it asks.

use std::net::Ipv4Addr;

use futures_util::StreamExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_api::{
    Limits, Options, Service,
    auth::ApiKey,
    models::{Catalogue, ModelInfo},
};
use windlass_client::{Client, Event, EventBody, EventStream, RunSpec, Tools, Update};
use windlass_core::ids::{AgentId, RunId};
use windlass_models::script::{SCHEME, ScriptModel};
use windlass_ops::RunOps;

use super::work::{self, Work};
use crate::cli::{Failure, failed};

/// Serves the API on a free port of this machine until the token fires, and makes a client of it.
pub(super) async fn serve(ops: &RunOps, work: Work, stop: CancellationToken) -> Result<Client, Failure> {
    let key = ApiKey::random();
    let row = key.row(ops.workspace().clone(), "bench", vec!["*".to_owned()], None);
    ops.store().create_key(row).await?;
    let scripts = ScriptModel::from_json(&work.scripts())?;
    let models = scripts.names().map(|name| ModelInfo::of(SCHEME, name)).collect();
    let mut agents = work::agents()?;
    for agent in &mut agents {
        // Callers of the API get fewer turns unless the agent has more.
        agent.policy.max_tool_turns = Some(work.turns + 1);
    }
    let options = Options {
        ops: ops.clone(),
        models: Catalogue { models, default_model_id: None },
        agents,
        builtins: Vec::new(),
        rates: None,
        limits: Limits::default(),
        clock: windlass_store::system_clock(),
    };
    let (service, handle) = Service::new(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?, options)?;
    tokio::spawn(service.run(stop));
    let url = format!("http://{}", handle.address);
    Ok(Client::new(windlass_client::Options::new(&url, key.reveal().into(), ops.workspace().as_str()))?)
}

/// A run of one of the benchmark's agents, and its stream.
pub(super) struct Following {
    pub(super) run: RunId,
    events: EventStream,
}

impl Following {
    pub(super) async fn start(client: &Client, agent: AgentId, run: RunId) -> Result<Self, Failure> {
        let run = client.start(&RunSpec::new("Go.").agent(agent).run_id(run), &Tools::new()).await?;
        Ok(Self { events: client.stream(&run, 0), run })
    }

    /// Reads until the run waits for somebody.
    pub(super) async fn until_it_waits(&mut self) -> Result<(), Failure> {
        while !matches!(self.next().await?.body, EventBody::AwaitOpened { .. }) {}
        Ok(())
    }

    /// Reads to the terminal event, which must be a good one.
    pub(super) async fn finish(&mut self) -> Result<(), Failure> {
        loop {
            let event = self.next().await?;
            match &event.body {
                EventBody::Result { subtype, .. } if subtype == "success" => return Ok(()),
                _ if event.is_terminal() => {
                    return Err(failed(format!("run {} did not complete: {}", self.run, event.raw)));
                }
                _ => {}
            }
        }
    }

    /// What would come back by itself is a failure here: a measurement must not contain it.
    async fn next(&mut self) -> Result<Event, Failure> {
        match self.events.next().await.transpose()? {
            Some(Update::Event(event)) => Ok(event),
            Some(Update::Lost(lost)) => Err(failed(format!("the API of this benchmark is gone: {}", lost.reason))),
            Some(Update::Back) | None => Err(failed(format!("the stream of run {} ended too early", self.run))),
        }
    }
}
