//! A server that plays cassettes, at paths of three steps and whatever follows: `/<side>/<format>/<case>` plays that case,
//! `/<side>/<format>/<list>` the cases of a list in turn.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::cassettes::{Answered, Cassette, End, Shelf};

/// Between two chunks, so that a client sees them apart.
const PAUSE: Duration = Duration::from_millis(2);

pub(crate) struct CassetteServer {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Recorded>>>,
}

/// What is answered by `<format>/<case>` or `<format>/<list>`: one after the other, then always the last.
pub(crate) type Playlists = BTreeMap<String, Vec<Answered>>;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    /// `adapter/anthropic/stream`.
    pub(super) place: String,
    /// Below the place, with the query: `v1/messages`.
    pub(super) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl CassetteServer {
    pub(super) async fn start(shelves: &[Shelf]) -> Self {
        let by_place = |shelf: &Shelf| {
            let name = shelf.format.name();
            let alone = |one: &Cassette| (format!("{name}/{}", one.case), vec![one.response.clone()]);
            shelf.cassettes.iter().map(alone).collect::<Vec<_>>()
        };
        Self::playing(shelves.iter().flat_map(by_place).collect()).await
    }

    pub(crate) async fn playing(lists: Playlists) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answers = Arc::new(lists);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, answers.clone(), seen.clone()));
            }
        });
        Self { url, requests }
    }

    /// The requests to a place, in order.
    pub(crate) fn requests(&self, place: &str) -> Vec<Recorded> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|request| request.place == place).cloned().collect()
    }
}

/// One request per connection. A client may close first: it has all it wants, and the rest cannot be written.
async fn serve(mut socket: TcpStream, answers: Arc<Playlists>, seen: Arc<Mutex<Vec<Recorded>>>) {
    socket.set_nodelay(true).unwrap();
    let Some(request) = read_request(&mut socket).await else { return };
    let (_, list) = request.place.split_once('/').unwrap_or_default();
    let list = answers.get(list);
    let earlier = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        seen.iter().filter(|one| one.place == request.place).count() - 1
    };
    let answer = list.and_then(|list| list.get(earlier).or_else(|| list.last()));
    let Some(answer) = answer else {
        let _ = socket.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        return;
    };
    let _ = play(&mut socket, answer).await;
}

pub(super) async fn play(socket: &mut TcpStream, answer: &Answered) -> std::io::Result<()> {
    let mut head =
        format!("HTTP/1.1 {} Cassette\r\ntransfer-encoding: chunked\r\nconnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    socket.write_all(format!("{head}\r\n").as_bytes()).await?;
    for chunk in answer.chunks.iter().filter(|chunk| !chunk.is_empty()) {
        socket.write_all(format!("{:x}\r\n{chunk}\r\n", chunk.len()).as_bytes()).await?;
        tokio::time::sleep(PAUSE).await;
    }
    // Without its last chunk a body is not complete, and every client notices.
    if answer.end == End::Close {
        socket.write_all(b"0\r\n\r\n").await?;
    }
    socket.shutdown().await
}

pub(super) async fn read_request(socket: &mut TcpStream) -> Option<Recorded> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = socket.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let target = lines.next()?.split(' ').nth(1)?.trim_start_matches('/').to_owned();
        let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let headers: BTreeMap<String, String> = lines.filter_map(header).collect();
        let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        if bytes.len() < end + 4 + length {
            continue;
        }
        let mut steps = target.splitn(4, '/');
        let place: Vec<&str> = steps.by_ref().take(3).collect();
        let path = steps.next().unwrap_or_default().to_owned();
        let body = String::from_utf8(bytes.split_off(end + 4)).unwrap();
        return Some(Recorded { place: place.join("/"), path, headers, body });
    }
}
