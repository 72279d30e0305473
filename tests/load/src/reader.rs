//! A reader of one stream: it notes which event came when, and nothing else.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::{io::AsyncReadExt as _, net::TcpStream};

use crate::http::Client;

/// The events of one stream in the order in which they came: their numbers and when they were complete.
pub(crate) type Seen = Vec<Arrival>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) seq: u64,
    /// Microseconds since 1970.
    pub(crate) at: u64,
}

pub(crate) struct Reader {
    stream: TcpStream,
    lines: Lines,
    seen: Seen,
}

impl Reader {
    pub(crate) async fn open(client: &Client, run: &str) -> Result<Self> {
        let stream = client.send("GET", &format!("/agent-runs/{run}/stream"), "").await?;
        let mut reader = Self { stream, lines: Lines::default(), seen: Vec::new() };
        reader.fill().await?;
        ensure!(reader.lines.rest.starts_with(b"HTTP/1.1 200 "), "refused: {}", reader.lines.shown());
        Ok(reader)
    }

    /// Reads until an event of this type.
    pub(crate) async fn until(&mut self, kind: &str) -> Result<()> {
        while self.next().await? != kind {}
        Ok(())
    }

    /// Reads to the terminal event.
    pub(crate) async fn finish(mut self) -> Result<Seen> {
        loop {
            match self.next().await?.as_str() {
                "result" => return Ok(self.seen),
                "error" | "cancelled" => bail!("the run ended badly"),
                _ => {}
            }
        }
    }

    /// The type of the next event.
    async fn next(&mut self) -> Result<String> {
        let (mut seq, mut kind) = (None, None);
        loop {
            while let Some(line) = self.lines.take() {
                // Sizes of chunks stand on lines of their own and look like nothing else. No payload holds a line break.
                if let Some(number) = line.strip_prefix("id: ") {
                    seq = Some(number.parse().with_context(|| format!("not a number: {number}"))?);
                } else if let Some(name) = line.strip_prefix("event: ") {
                    kind = Some(name.to_owned());
                } else if line.is_empty()
                    && let (Some(seq), Some(kind)) = (seq, kind.take())
                {
                    self.seen.push(Arrival { seq, at: now() });
                    return Ok(kind);
                }
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.lines.rest).await? {
            0 => bail!("the stream ended after {} events", self.seen.len()),
            _ => Ok(()),
        }
    }
}

/// Bytes as lines.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
    /// How much of it has been taken.
    taken: usize,
}

impl Lines {
    fn take(&mut self) -> Option<String> {
        let Some(end) = self.rest[self.taken..].iter().position(|byte| *byte == b'\n') else {
            self.rest.drain(..self.taken);
            self.taken = 0;
            return None;
        };
        let line = &self.rest[self.taken..self.taken + end];
        // Of a payload only that it is one matters.
        let line = if line.starts_with(b"data: ") { &line[..6] } else { line };
        let line = String::from_utf8_lossy(line).trim_end_matches('\r').to_owned();
        self.taken += end + 1;
        Some(line)
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.rest).into_owned()
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_the_bytes_are_cut() {
        let mut lines = Lines::default();
        let mut taken = Vec::new();
        for bytes in [&b"1a\r\nid: 1"[..], b"2\nevent: result\nda", b"ta: {}\n\n", b"\r\n"] {
            lines.rest.extend_from_slice(bytes);
            while let Some(line) = lines.take() {
                taken.push(line);
            }
        }
        assert_eq!(taken, ["1a", "id: 12", "event: result", "data: ", "", ""]);
    }
}
