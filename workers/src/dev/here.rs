//! A server inside a command that found none: engine, worker and API on the data directory, for as long as it takes.

use std::{path::Path, sync::Arc};

use secrecy::SecretString;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_sqlite::Durability;

use super::{GRACE, address::Announced, examples, home::Home, key, scripts};
use crate::{
    cli::{Failure, Global, Service, WorkerArgs},
    embedded::{EmbeddedOptions, RunningEmbedded},
    front::FrontArgs,
    worker::RunWorkerOptions,
};

pub(crate) struct Here {
    pub(crate) url: String,
    pub(crate) key: SecretString,
    stop: CancellationToken,
    at_work: JoinSet<Result<(), Failure>>,
    service: Arc<Service>,
    engine: RunningEmbedded,
    _announced: Announced,
    _home: Home,
}

impl Here {
    pub(crate) async fn start(global: &Global, given: Option<&Path>) -> Result<Self, Failure> {
        let home = Home::lock(&global.data_dir)?;
        if let Some(given) = given {
            scripts::keep(home.directory(), given)?;
        }
        let engine = RunningEmbedded::start(EmbeddedOptions {
            data_dir: home.directory().to_owned(),
            durability: Durability::Full,
            namespace: global.namespace.clone(),
            listen: None,
        })
        .await?;
        let kept_scripts = scripts::kept(home.directory());
        let (front, worker) = (FrontArgs::loopback(), WorkerArgs { kept_scripts, ..WorkerArgs::default() });
        let options =
            RunWorkerOptions { task_queue: global.task_queue.clone(), grace: GRACE, ..RunWorkerOptions::default() };
        let service = Service::beside(engine.handle.clone(), global, &worker, examples::agents()?, options)?;
        let key = key::ensure(&*service.ports().store, &global.workspace, None, home.directory()).await?;
        let client = service.connect().await?;
        let listener = front.bind().await?;
        let (api, handle) = front.service(listener, client.clone(), (global, &worker), &service, None)?;
        let url = format!("http://{}", handle.address);
        let announced = Announced::write(home.directory(), &url, &key)?;

        let (service, stop, mut at_work) = (Arc::new(service), CancellationToken::new(), JoinSet::new());
        let stopped = stop.clone();
        at_work.spawn(async move {
            api.run(stopped).await;
            Ok(())
        });
        let (serving, stopped) = (Arc::clone(&service), stop.clone());
        at_work.spawn(async move { Box::pin(serving.serve(client, &stopped, || {})).await });
        let key = SecretString::from(key.reveal());
        Ok(Self { url, key, stop, at_work, service, engine, _announced: announced, _home: home })
    }

    /// Ends everything in order. Runs that have not ended go on when somebody serves again.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        self.stop.cancel();
        for ended in self.at_work.join_all().await {
            ended?;
        }
        self.service.close().await?;
        Ok(self.engine.stop().await?)
    }
}
