//! A client as plain as can be: it shows what is on the wire, also how a connection ends.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// An answer, read to its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The status and the code of a refusal.
    pub(crate) fn refusal(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }
}

/// One request on a connection of its own.
pub(crate) struct Exchange {
    reader: BufReader<TcpStream>,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    chunked: bool,
}

impl Exchange {
    pub(crate) async fn open(
        address: SocketAddr,
        request: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut text = format!("{request} HTTP/1.1\r\nHost: windlass\r\nConnection: close\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).await.unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).await.unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        Self { reader, status, headers, chunked }
    }

    /// The next piece of a chunked body; `None` at its proper end, an error if the connection just stops.
    pub(crate) async fn chunk(&mut self) -> Result<Option<String>, &'static str> {
        assert!(self.chunked, "{:?}", self.headers);
        let mut line = String::new();
        if self.reader.read_line(&mut line).await.unwrap_or(0) == 0 {
            return Err("cut off");
        }
        let size = usize::from_str_radix(line.trim(), 16).unwrap();
        let mut bytes = vec![0; size + 2];
        self.reader.read_exact(&mut bytes).await.map_err(|_| "cut off")?;
        bytes.truncate(size);
        Ok((size > 0).then(|| String::from_utf8(bytes).unwrap()))
    }

    pub(crate) async fn finish(mut self) -> Answer {
        let mut text = String::new();
        if self.chunked {
            while let Some(chunk) = self.chunk().await.unwrap() {
                text.push_str(&chunk);
            }
        } else {
            self.reader.read_to_string(&mut text).await.unwrap();
        }
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status: self.status, headers: self.headers, body }
    }
}
