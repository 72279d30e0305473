//! Callers that ask the provider directly, without a run: an HTTP client, and the `openai` package of Python.

use std::{path::Path, process::Stdio};

use futures_util::StreamExt as _;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::provider;
use crate::failure::{Failure, failed};

/// One streamed call; the milliseconds from the first token's writing to its arrival.
pub(super) async fn call(client: &reqwest::Client, base_url: &str) -> Result<f64, Failure> {
    let body = json!({"model": "clock", "stream": true, "messages": [{"role": "user", "content": "Go."}]}).to_string();
    let request = client.post(format!("{base_url}/chat/completions")).header(CONTENT_TYPE, "application/json");
    let mut pieces = request.body(body).send().await?.bytes_stream();
    let (mut text, mut took) = (String::new(), None);
    while let Some(piece) = pieces.next().await {
        text.push_str(&String::from_utf8_lossy(&piece?));
        if took.is_none() {
            let now = provider::now();
            took = text.split("\n\n").find_map(first_token).and_then(|token| provider::since(&token, now));
        }
    }
    took.ok_or_else(|| failed("the provider sent no token"))
}

/// The text of an event, if it is complete and has any.
fn first_token(event: &str) -> Option<String> {
    let event: Value = serde_json::from_str(event.strip_prefix("data: ")?).ok()?;
    event["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
}

/// Calls the provider once for each line that it reads, and prints how long the first token took.
const SCRIPT: &str = "\
import sys, time
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1], api_key='unused', max_retries=0)
for _ in sys.stdin:
    took = None
    for chunk in client.chat.completions.create(model='clock', stream=True, messages=[{'role': 'user', 'content': 'Go.'}]):
        if took is None and chunk.choices and chunk.choices[0].delta.content:
            took = (time.time_ns() - int(chunk.choices[0].delta.content)) / 1e6
    print(took, flush=True)
";

/// A Python process with the vendor's SDK. It ends with its standard input.
pub(super) struct Sdk {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Sdk {
    /// `packages` is a directory with the package `openai`.
    pub(super) fn start(packages: &Path, base_url: &str) -> Result<Self, Failure> {
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT, base_url]).env("PYTHONPATH", packages).kill_on_drop(true);
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let mut process = process.map_err(|error| failed(format!("cannot start python3: {error}")))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed("python3 has no standard input and output"));
        };
        Ok(Self { _process: process, input, output: BufReader::new(output).lines() })
    }

    pub(super) async fn call(&mut self) -> Result<f64, Failure> {
        let ended = || failed("the Python process ended; is the package openai in the directory of --openai-sdk?");
        self.input.write_all(b"\n").await.map_err(|_| ended())?;
        let line = self.output.next_line().await?.ok_or_else(ended)?;
        line.parse().map_err(|_| failed(format!("the SDK read no token: {line}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_event_with_text_is_a_token() {
        let event = r#"data: {"choices":[{"delta":{"content":"12"}}]}"#;
        assert_eq!(first_token(event).as_deref(), Some("12"));
        assert_eq!(first_token(&event[..20]), None);
        assert_eq!(first_token(r#"data: {"choices":[{"delta":{}}]}"#), None);
        assert_eq!(first_token("data: [DONE]"), None);
    }
}
