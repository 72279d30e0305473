//! A fake provider that answers requests one after the other, and a world whose models are fake providers.

use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::net::{TcpListener, TcpStream};
use windlass::{
    config::Config,
    service::{CatalogueOptions, ModelCatalogue},
};

use super::{
    cassettes::{Answered, End, Shelf},
    formats::Format,
    server::{Recorded, play, read_request},
};

/// What the provider does with one request.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    Play(Answered),
    /// It accepts the request and sends nothing.
    Hang,
}

impl Reply {
    /// The answer of a cassette.
    pub(super) fn cassette(format: Format, case: &str) -> Self {
        let shelf = Shelf::of(format);
        let found = shelf.cassettes.iter().find(|cassette| cassette.case == case);
        Self::Play(found.unwrap_or_else(|| panic!("no cassette {case}")).response.clone())
    }

    /// With only its first chunks; the connection breaks after them.
    pub(super) fn cut_after(self, chunks: usize) -> Self {
        let Self::Play(mut answer) = self else { panic!("it sends nothing") };
        answer.chunks.truncate(chunks);
        answer.end = End::Cut;
        Self::Play(answer)
    }

    pub(super) fn with_status(self, status: u16) -> Self {
        let Self::Play(mut answer) = self else { panic!("it sends nothing") };
        answer.status = status;
        Self::Play(answer)
    }

    pub(super) fn with_header(self, name: &str, value: &str) -> Self {
        let Self::Play(mut answer) = self else { panic!("it sends nothing") };
        answer.headers.insert(name.to_owned(), value.to_owned());
        Self::Play(answer)
    }
}

/// Answers with its replies in order, and records the requests.
pub(super) struct FakeProvider {
    pub(super) url: String,
    seen: Arc<Mutex<Vec<Recorded>>>,
}

impl FakeProvider {
    pub(super) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let replies: Arc<Mutex<VecDeque<Reply>>> = Arc::new(Mutex::new(replies.into_iter().collect()));
        let seen: Arc<Mutex<Vec<Recorded>>> = Arc::default();
        let recorded = seen.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(answer(socket, replies.clone(), recorded.clone()));
            }
        });
        Self { url, seen }
    }

    pub(super) fn requests(&self) -> Vec<Recorded> {
        self.seen.lock().unwrap().clone()
    }
}

/// A provider without replies left closes the connection.
async fn answer(mut socket: TcpStream, replies: Arc<Mutex<VecDeque<Reply>>>, seen: Arc<Mutex<Vec<Recorded>>>) {
    let Some(request) = read_request(&mut socket).await else { return };
    seen.lock().unwrap().push(request);
    let reply = replies.lock().unwrap().pop_front();
    match reply {
        Some(Reply::Play(answer)) => drop(play(&mut socket, &answer).await),
        Some(Reply::Hang) => tokio::time::sleep(Duration::from_secs(3600)).await,
        None => {}
    }
}

/// The models of a `windlass.toml`.
pub(super) fn models(config: &str) -> ModelCatalogue {
    let config = Config::parse(Some((Path::new("windlass.toml"), config))).unwrap();
    CatalogueOptions { config: Arc::new(config), ..CatalogueOptions::default() }.models().unwrap()
}
