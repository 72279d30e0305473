//! A server inside a command that found none: engine, worker and API server on the data directory, until the command ends.

use std::{path::Path, sync::Arc};

use secrecy::SecretString;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_sqlite::Durability;

use super::{History, Place, address::Announced, compose, home::Home, key, scripts, with_examples};
use crate::{
    config::Config,
    failure::Failure,
    service::{ApiOptions, CatalogueOptions, EmbeddedOptions, RunningEmbedded, Runtime, Tuning, agents},
};

pub(crate) struct Here {
    pub(crate) url: String,
    pub(crate) key: SecretString,
    stop: CancellationToken,
    at_work: JoinSet<Result<(), Failure>>,
    runtime: Arc<Runtime>,
    history: History,
    _announced: Announced,
    _home: Home,
}

impl Here {
    /// Starts everything. Scripts that are given are kept in the data directory, because a run that needs them continues
    /// with the next command, which does not name them again.
    pub(crate) async fn start(place: &Place, config: &Arc<Config>, given: Option<&Path>) -> Result<Self, Failure> {
        let agents = with_examples(agents::load(&config.defaults.agents)?, config)?;
        let home = Home::lock(&place.data_dir)?;
        if let Some(given) = given {
            scripts::keep(home.directory(), given)?;
        }
        let engine = RunningEmbedded::start(EmbeddedOptions {
            data_dir: home.directory().to_owned(),
            durability: Durability::Full,
            namespace: place.namespace.clone(),
            listen: None,
            tuning: Tuning::default(),
        })
        .await?;
        let history = History::Engine(engine);
        let catalogues = CatalogueOptions {
            kept_scripts: scripts::kept(home.directory()),
            config: Arc::clone(config),
            ..CatalogueOptions::default()
        };
        let runtime = compose(&history, place, agents, &catalogues).await?;
        let key = key::ensure(&*runtime.ports().store, &place.workspace, None, home.directory()).await?;
        let (client, options) = (runtime.connect().await?, ApiOptions::loopback());
        let listener = options.bind().await?;
        let (api, handle) = runtime.api(&options, listener, client.clone(), place.workspace.clone())?;
        let url = format!("http://{}", handle.address);
        let announced = Announced::write(home.directory(), &url, &key)?;

        let (runtime, stop, mut at_work) = (Arc::new(runtime), CancellationToken::new(), JoinSet::new());
        let stopped = stop.clone();
        at_work.spawn(async move {
            api.run(stopped).await;
            Ok(())
        });
        let (worker, stopped) = (Arc::clone(&runtime), stop.clone());
        at_work.spawn(async move { Box::pin(worker.run_worker(client, &stopped, || {})).await });
        let key = SecretString::from(key.reveal());
        Ok(Self { url, key, stop, at_work, runtime, history, _announced: announced, _home: home })
    }

    /// Stops worker, API server, store and engine, in this order. Runs that have not ended continue when a server runs
    /// again on the data directory.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        self.stop.cancel();
        for ended in self.at_work.join_all().await {
            ended?;
        }
        self.runtime.close().await?;
        self.history.stop().await
    }
}
