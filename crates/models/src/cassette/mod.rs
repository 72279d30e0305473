//! Recorded exchanges with providers. A cassette has what a model is asked, the bytes that the vendor answers, and what
//! the answer means. It is played by a small HTTP server, so that the whole way through [`HttpModel`] is tested.

mod compare;
mod recorded;

use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::Duration,
};

use http::HeaderMap;
use secrecy::SecretString;
use serde_json::json;
use tokio::net::TcpListener;
use windlass_core::{
    ids::CallId,
    message::{Content, Message, Role},
};

pub(crate) use self::recorded::Cassette;
use self::{
    compare::{agree, outcome},
    recorded::{Answered, AskedTool, Sent},
};
use crate::{
    Delta, Model as _, ModelError, ModelRequest, ModelResponse, ToolDeclaration,
    fixtures::{self, Recorder},
    wire::{Endpoint, HttpModel, Wire},
};

/// The key that is sent to the server of a cassette.
const KEY: &str = "sk-test";

/// A format, and what its cassettes are about.
#[derive(Clone, Copy)]
pub(crate) struct Player<W> {
    pub(crate) wire: W,
    /// The folder of its cassettes.
    pub(crate) format: &'static str,
    pub(crate) provider: &'static str,
    pub(crate) model: &'static str,
    /// The path at the end of the base URL.
    pub(crate) base: &'static str,
    /// What a request begins with: `POST /v1/messages HTTP/1.1`.
    pub(crate) line: &'static str,
    /// The header with the key.
    pub(crate) key: (&'static str, &'static str),
    /// A tool of the provider has one part for the call and one for the result, which says that it is done.
    pub(crate) results_apart: bool,
}

/// What one play of a cassette gave.
pub(crate) struct Played {
    pub(crate) result: Result<ModelResponse, ModelError>,
    pub(crate) deltas: Vec<Delta>,
    /// The request as it reached the server.
    pub(crate) sent: Sent,
}

impl<W: Wire + Copy> Player<W> {
    /// All cassettes of the format, by name. `absent.json`, which lists what a format cannot have, is none.
    pub(crate) fn cassettes(&self) -> Vec<Cassette> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cassettes").join(self.format);
        let mut files: Vec<PathBuf> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "json") && !path.ends_with("absent.json"))
            .collect();
        files.sort();
        assert!(files.len() >= 20, "only {} cassettes", files.len());
        files.iter().map(|path| Cassette::load(path)).collect()
    }

    pub(crate) fn cassette(&self, case: &str) -> Cassette {
        self.cassettes().into_iter().find(|cassette| cassette.case == case).unwrap()
    }

    fn answered(&self) -> impl Iterator<Item = Cassette> {
        self.cassettes().into_iter().filter(|cassette| cassette.expect.get("error").is_none())
    }

    pub(crate) fn request(&self, cassette: &Cassette) -> ModelRequest {
        let asked = &cassette.request;
        let tool = |tool: &AskedTool| ToolDeclaration {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
        };
        ModelRequest {
            provider: self.provider.to_owned(),
            model: self.model.to_owned(),
            spec: Arc::new(asked.spec.clone()),
            system: asked.system.clone(),
            tools: asked.tools.iter().map(tool).collect(),
            reasoning_level: asked.reasoning_level,
            output_schema: asked.output_schema.clone(),
            parameters: asked.parameters.clone(),
            credentials: Some(SecretString::from(KEY)),
            ..fixtures::request(asked.messages.clone())
        }
    }

    /// The next request: the answer with call ids of the run, and a result for each call.
    pub(crate) fn next_request(&self, cassette: &Cassette, answer: &ModelResponse) -> ModelRequest {
        let mut parts = answer.parts.clone();
        let mut results = Vec::new();
        for (number, part) in parts.iter_mut().enumerate() {
            if let Content::ToolUse { id, .. } = &mut part.content {
                *id = CallId::new(format!("call-0-{number}"));
                let (tool_use_id, content) = (id.clone(), json!("done").into());
                results.push(Content::ToolResult { tool_use_id, content, parts: Vec::new(), is_error: false }.into());
            }
        }
        let last = if results.is_empty() { Message::user("Go on.") } else { Message::new(Role::User, results) };
        let request = self.request(cassette);
        let mut messages = request.messages.to_vec();
        messages.extend([Message::new(Role::Assistant, parts), last]);
        ModelRequest { messages: messages.into(), ..request }
    }

    /// Feeds the reader event by event, without a connection.
    pub(crate) fn read(&self, cassette: &Cassette) -> (Vec<Delta>, Result<ModelResponse, ModelError>) {
        let Answered { status, headers, chunks, .. } = &cassette.response;
        if *status != 200 {
            let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            return (Vec::new(), Err(self.wire.failure(*status, &headers, chunks.concat().as_bytes())));
        }
        let mut reader = self.wire.reader(&self.request(cassette));
        let mut deltas = Vec::new();
        for (name, data) in cassette.events() {
            match reader.event(name.as_deref(), &data) {
                Ok(new) => deltas.extend(new),
                Err(error) => return (deltas, Err(error)),
            }
        }
        (deltas, reader.finish())
    }

    /// Asks the model over HTTP, with the cassette as the provider. The bytes of the answer are cut at random places,
    /// which are the same for the same `seed`.
    pub(crate) async fn play(&self, cassette: &Cassette, seed: u64) -> Played {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint {
            base_url: format!("http://{}{}", listener.local_addr().unwrap(), self.base),
            headers: HeaderMap::new(),
            key_header: None,
            query: Vec::new(),
            silence: Duration::from_secs(10),
        };
        let model = HttpModel::new(Box::new(self.wire), endpoint, client());
        let mut sink = Recorder::new();
        let asked = model.respond(self.request(cassette), &mut sink);
        let (result, sent) = tokio::join!(asked, cassette.serve(listener, seed));
        Played { result, deltas: sink.deltas.into_iter().map(|(_, delta)| delta).collect(), sent }
    }

    /// Every cassette is read as it expects, event by event, and over HTTP wherever its bytes are cut.
    pub(crate) async fn assert_cassettes_are_read(&self) {
        let (cassettes, seeds) = (self.cassettes(), 0..8);
        for cassette in &cassettes {
            let (deltas, result) = self.read(cassette);
            self.check(cassette, &deltas, &result);
            for seed in seeds.clone() {
                let played = self.play(cassette, seed).await;
                self.check(cassette, &played.deltas, &played.result);
                assert_eq!(played.deltas, deltas, "{}, seed {seed}", cassette.case);
                assert_eq!(played.sent.line, self.line);
                assert_eq!(played.sent.headers.get(self.key.0).map(String::as_str), Some(self.key.1));
            }
        }
        println!("{} cassettes, {} plays", cassettes.len(), cassettes.len() * seeds.count());
    }

    /// Compares what came with what is expected, as whole objects, and the deltas with the parts.
    fn check(&self, cassette: &Cassette, deltas: &[Delta], result: &Result<ModelResponse, ModelError>) {
        if let Ok(response) = result {
            agree(&cassette.case, deltas, &response.parts, self.results_apart);
        }
        assert_eq!(
            serde_json::to_string_pretty(&outcome(result)).unwrap(),
            serde_json::to_string_pretty(&cassette.expect).unwrap(),
            "{}",
            cassette.case
        );
    }

    /// Cuts every stream that has an answer after each of its events. The answer is there from the event that `is_end` is
    /// true for. The reader waits for no more after the one that `is_last` is true for, which is the last.
    pub(crate) fn assert_answers_need_their_end(&self, is_end: fn(&str) -> bool, is_last: fn(&str) -> bool) {
        let mut cuts = 0;
        for cassette in self.answered() {
            let (case, events) = (&cassette.case, cassette.events());
            let end = events.iter().position(|(_, data)| is_end(data)).unwrap() + 1;
            let last = events.iter().position(|(_, data)| is_last(data)).map_or(usize::MAX, |at| at + 1);
            assert!(events.iter().skip(last).all(|(_, data)| data == "[DONE]"), "{case}: events after the last");
            for cut in 0..=events.len() {
                let mut reader = self.wire.reader(&self.request(&cassette));
                let mut counted = 0;
                for (name, data) in &events[..cut] {
                    reader.event(name.as_deref(), data).unwrap();
                    assert!(reader.usage().total_tokens >= counted, "{case}: tokens are not taken back");
                    counted = reader.usage().total_tokens;
                }
                assert_eq!(reader.is_complete(), cut >= last, "{case} cut after {cut} events");
                assert_eq!(reader.finish().is_ok(), cut >= end, "{case} cut after {cut} events");
                cuts += 1;
            }
        }
        println!("{cuts} cuts");
    }

    /// Events of all cassettes in any order, some missing and some twice: a reader answers or refuses, and never panics.
    /// The deltas are about parts of the answer.
    pub(crate) fn assert_disorder_is_survived(&self) {
        let all = self.cassettes();
        let events: Vec<(Option<String>, String)> = all.iter().flat_map(Cassette::events).collect();
        let asked = self.request(&all[0]);
        let answers = Cell::new(0);
        let numbers = proptest::collection::vec(0..events.len(), 1..30);
        proptest::proptest!(proptest::test_runner::Config::with_cases(1000), |(numbers in numbers)| {
            let mut reader = self.wire.reader(&asked);
            let mut deltas = Vec::new();
            for number in numbers {
                // A failure of one event does not end the stream here: the more, the better.
                let (name, data) = &events[number];
                deltas.extend(reader.event(name.as_deref(), data).unwrap_or_default());
                if reader.is_complete() {
                    break;
                }
            }
            if let Ok(answer) = reader.finish() {
                answers.set(answers.get() + 1);
                for delta in deltas {
                    proptest::prop_assert!((delta.part as usize) < answer.parts.len());
                }
            }
        });
        println!("1000 streams, {} of them with an answer", answers.get());
        assert!(answers.get() > 100);
    }
}

/// One client for all tests: making one reads the certificates of the system.
fn client() -> reqwest::Client {
    static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(|| {
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::new()
    });
    CLIENT.clone()
}
