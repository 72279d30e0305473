//! A cassette, and the server that plays it.

use std::{collections::BTreeMap, fs, path::Path};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use serde::Deserialize;
use serde_json::Value;
use sse_stream::{Sse, SseByteStream};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use windlass_core::{
    agent::{ModelParameters, OutputSchema},
    ids::ToolName,
    message::Message,
};

use crate::ModelSpec;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cassette {
    pub(crate) case: String,
    /// One sentence for readers.
    about: String,
    #[serde(default)]
    pub(super) request: Asked,
    pub(super) response: Answered,
    /// What the response means: parts, stop, usage, responseId and enforced, or an error.
    pub(super) expect: Value,
}

/// What the model is asked. The defaults are a short question without tools.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Asked {
    pub(super) system: String,
    pub(super) messages: Vec<Message>,
    pub(super) tools: Vec<AskedTool>,
    pub(super) parameters: ModelParameters,
    pub(super) reasoning_level: Option<u8>,
    pub(super) output_schema: Option<OutputSchema>,
    pub(super) spec: ModelSpec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AskedTool {
    pub(super) name: ToolName,
    #[serde(default)]
    pub(super) description: String,
    pub(super) input_schema: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answered {
    pub(super) status: u16,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// The body, as the vendor writes it.
    pub(super) chunks: Vec<String>,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    /// The body is complete.
    Close,
    /// The connection breaks in the middle of the body.
    Cut,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            system: "Be brief.".to_owned(),
            messages: vec![Message::user("Hello.")],
            tools: Vec::new(),
            parameters: ModelParameters::default(),
            reasoning_level: None,
            output_schema: None,
            spec: ModelSpec::default(),
        }
    }
}

pub(crate) struct Sent {
    pub(super) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Cassette {
    pub(super) fn load(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let cassette: Self = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(path.file_stem().unwrap().to_str().unwrap(), cassette.case, "the file is named after the case");
        assert!(cassette.about.ends_with('.'), "{}: what is it about?", cassette.case);
        cassette
    }

    pub(super) async fn serve(&self, listener: TcpListener, seed: u64) -> Sent {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        let sent = read_request(&mut socket).await;
        let mut head = format!("HTTP/1.1 {} Status\r\ntransfer-encoding: chunked\r\n", self.response.status);
        for (name, value) in &self.response.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        // The client may have all it wants and close first; what cannot be written then does not matter.
        let _ = socket.write_all(format!("{head}\r\n").as_bytes()).await;
        for piece in pieces(self.response.chunks.concat().as_bytes(), seed) {
            let framed = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
            if socket.write_all(&framed).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        if self.response.end == End::Close {
            let _ = socket.write_all(b"0\r\n\r\n").await;
        }
        sent
    }

    /// The name and the data of each event.
    pub(super) fn events(&self) -> Vec<(Option<String>, String)> {
        let bytes = bytes::Bytes::from(self.response.chunks.concat());
        let stream = SseByteStream::new(stream::iter([Ok::<_, std::io::Error>(bytes)]));
        let events: Vec<Sse> = stream.map(|event| event.unwrap()).collect().now_or_never().unwrap();
        events.into_iter().filter_map(|Sse { event, data, .. }| Some((event, data?))).collect()
    }
}

async fn read_request(socket: &mut TcpStream) -> Sent {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let mut lines = head.split("\r\n");
            let line = lines.next().unwrap().to_owned();
            let headers: BTreeMap<String, String> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect();
            let length: usize = headers["content-length"].parse().unwrap();
            if bytes.len() >= end + 4 + length {
                let body = String::from_utf8(bytes[end + 4..].to_vec()).unwrap();
                return Sent { line, headers, body };
            }
        }
        let read = socket.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the client closed the connection before its request was complete");
        bytes.extend_from_slice(&buffer[..read]);
    }
}

/// The bytes in pieces of random lengths. Seed 0 leaves them in one piece, seed 1 makes pieces of one byte.
fn pieces(bytes: &[u8], seed: u64) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        // A linear congruential generator; the upper bits are random enough.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let length = match seed {
            0 => rest.len(),
            1 => 1,
            _ => 1 + usize::try_from(state >> 33).unwrap() % 120,
        };
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece.to_vec());
        rest = after;
    }
    pieces
}
