//! The benchmark through the API: an API server in this process, and a client that starts a run over HTTP, follows its
//! stream and answers its question.

use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;
use windlass_api::{Service, auth::ApiKey};
use windlass_client::{Client, Event, EventBody, EventStream, RunSpec, Tools, Update};
use windlass_core::ids::{AgentId, RunId};
use windlass_ops::RunOps;

use crate::{
    failure::{Failure, failed},
    service::{ApiOptions, Ports},
};

/// Serves the API on a free port of this machine until the shutdown, and returns a client of it.
pub(super) async fn serve(ops: &RunOps, ports: &Ports, stop: CancellationToken) -> Result<Client, Failure> {
    let key = ApiKey::random();
    let row = key.row(ops.workspace().clone(), "bench", vec!["*".to_owned()], None);
    ops.store().create_key(row).await?;
    let options = ApiOptions::loopback();
    let (service, handle) = Service::new(options.bind().await?, options.on(ops.clone(), ports))?;
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

    /// Reads until the run waits for an answer.
    pub(super) async fn until_it_waits(&mut self) -> Result<(), Failure> {
        while !matches!(self.next().await?.body, EventBody::AwaitOpened { .. }) {}
        Ok(())
    }

    /// Reads to the first text of the model.
    pub(super) async fn first_text(&mut self) -> Result<String, Failure> {
        loop {
            let event = self.next().await?;
            match event.body {
                EventBody::AssistantDelta { text } => return Ok(text),
                _ if event.is_terminal() => {
                    return Err(failed(format!("run {} ended without a text: {}", self.run, event.raw)));
                }
                _ => {}
            }
        }
    }

    /// Reads to the terminal event. Fails if the run did not succeed.
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

    /// A lost connection is an error here: a reconnect would distort the measurement.
    async fn next(&mut self) -> Result<Event, Failure> {
        match self.events.next().await.transpose()? {
            Some(Update::Event(event)) => Ok(event),
            Some(Update::Lost(lost)) => Err(failed(format!("the connection to the API was lost: {}", lost.reason))),
            Some(Update::Back) | None => Err(failed(format!("the stream of run {} ended too early", self.run))),
        }
    }
}
