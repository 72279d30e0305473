//! The two kinds of clients that are measured: directly on Temporal, and through the API.

use tokio::task::JoinHandle;
use windlass_client::Client;
use windlass_core::{envelope::RunOutput, ids::RunId};
use windlass_ops::RunOps;

use super::{
    api::Following,
    rig::{ANSWER, QUESTION, answer, complete, finish, park},
    work,
};
use crate::failure::{Failure, failed};

#[derive(Clone)]
pub(super) enum Door {
    Temporal(RunOps),
    Api(Client),
}

/// A run that waits for an answer, and a client that waits for its end.
pub(super) enum Waiting {
    Temporal { ops: RunOps, run: RunId, result: JoinHandle<Result<RunOutput, Failure>> },
    Api { client: Client, following: Following },
}

impl Door {
    /// Starts a run and waits for its end.
    pub(super) async fn complete(&self, run: RunId) -> Result<(), Failure> {
        match self {
            Self::Temporal(ops) => complete(ops, run).await.map(drop),
            Self::Api(client) => Following::start(client, work::working(), run).await?.finish().await,
        }
    }

    /// Starts a run that asks a question, and returns once it waits.
    pub(super) async fn park(&self, run: RunId) -> Result<Waiting, Failure> {
        match self {
            Self::Temporal(ops) => {
                let (ops, run) = (ops.clone(), park(ops, run).await?);
                let result = tokio::spawn({
                    let (ops, run) = (ops.clone(), run.clone());
                    async move { finish(&ops, &run).await }
                });
                Ok(Waiting::Temporal { ops, run, result })
            }
            Self::Api(client) => {
                let mut following = Following::start(client, work::asking(), run).await?;
                following.until_it_waits().await?;
                Ok(Waiting::Api { client: client.clone(), following })
            }
        }
    }
}

impl Waiting {
    pub(super) fn run(&self) -> &RunId {
        match self {
            Self::Temporal { run, .. } => run,
            Self::Api { following, .. } => &following.run,
        }
    }

    /// Sends the answer and returns when the client knows that the run has ended.
    pub(super) async fn answer(self) -> Result<(), Failure> {
        match self {
            Self::Temporal { ops, run, result } => {
                answer(&ops, &run).await?;
                result.await.map_err(|error| failed(format!("the waiting client panicked: {error}")))??;
            }
            Self::Api { client, mut following } => {
                let run = following.run.clone();
                let answered = async { Ok(client.answer(&run, &QUESTION.into(), ANSWER).await?) };
                tokio::try_join!(answered, following.finish())?;
            }
        }
        Ok(())
    }
}
