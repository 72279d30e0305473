//! Where news of a run comes from: the store, or a server.

use windlass_client::Lost;
use windlass_core::ids::RunId;

use super::{
    logs::{Logs, Told},
    server::Feed,
};
use crate::cli::{Failure, reach::Reach};

/// What there is to tell.
pub(super) enum News {
    Told(Told),
    /// The server went away, or still is; it is waited for.
    Gone(Lost),
    Back,
    /// It stayed away for too long.
    GaveUp(String),
}

pub(super) enum Source {
    Store(Logs),
    Server(Feed),
}

impl Source {
    pub(super) fn of(reach: &Reach, run: &RunId) -> Self {
        match reach {
            Reach::Direct(context) => Self::Store(Logs::of(context.store().clone(), run.clone(), 0)),
            Reach::Server(remote) => Self::Server(Feed::of(remote.client.clone(), run.clone())),
        }
    }

    /// Everything that happened since the last call.
    pub(super) async fn news(&mut self) -> Result<Vec<News>, Failure> {
        match self {
            Self::Store(logs) => Ok(logs.news().await?.into_iter().map(News::Told).collect()),
            Self::Server(feed) => Ok(feed.news()?),
        }
    }

    /// Returns when there may be news.
    pub(super) async fn changed(&mut self) {
        match self {
            Self::Store(logs) => logs.changed().await,
            Self::Server(feed) => feed.changed().await,
        }
    }
}
