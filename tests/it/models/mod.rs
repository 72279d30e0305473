//! The model adapters against the vendors' own SDKs.
//!
//! `tests/cassettes/` has bytes as the vendors send them. A server plays them (`server.rs`); our adapter reads each over
//! HTTP, and so does the vendor's SDK (`oracle/`, Python). Both must read the same content, usage, stop and failure. Every
//! request that our adapters write must be accepted by the SDK's types, and the SDK must write it alike.
//!
//! Whole runs go through servers that others wrote (`peers.rs`): aimock for every format, litellm as a gateway.

mod aimock;
mod cassettes;
mod change;
mod compare;
mod exceptions;
mod follow_ups;
mod formats;
mod limits;
mod litellm;
mod neutral;
mod oracle;
mod outage;
mod peers;
mod provider;
mod server;
mod table;
mod tide;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_models::{Delta, DeltaSink, Model as _, ModelError, ModelRequest, ModelResponse, wire::Endpoint};

pub(crate) use self::{
    cassettes::Answered,
    formats::Format,
    server::{CassetteServer, Playlists, Recorded},
};
use self::{
    cassettes::{Cassette, Shelf},
    compare::differences,
    exceptions::unexpected,
    oracle::{Reading, ToCheck, ToRead},
    table::Table,
};
use crate::support::block_on;

/// A cassette as our adapter read it.
struct Play<'a> {
    format: Format,
    cassette: &'a Cassette,
    request: ModelRequest,
    answer: Result<ModelResponse, ModelError>,
    sent: Recorded,
}

/// Takes deltas and keeps none: the response has them all.
struct Nowhere;

#[async_trait]
impl DeltaSink for Nowhere {
    async fn push(&mut self, _: Delta) -> Result<(), ModelError> {
        Ok(())
    }
}

async fn play<'a>(server: &CassetteServer, shelves: &'a [Shelf]) -> Vec<Play<'a>> {
    // Another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    let mut plays = Vec::new();
    for shelf in shelves {
        let format = shelf.format;
        for cassette in &shelf.cassettes {
            let place = format!("adapter/{}/{}", format.name(), cassette.case);
            let endpoint = Endpoint {
                base_url: format!("{}/{place}{}", server.url, format.base_path()),
                headers: http::HeaderMap::new(),
                key_header: None,
                query: Vec::new(),
                silence: Duration::from_secs(20),
            };
            let request = cassette.request(format);
            let answer = format.http_model(endpoint, client.clone()).respond(request.clone(), &mut Nowhere).await;
            let mut requests = server.requests(&place);
            assert_eq!(requests.len(), 1, "{place}: no adapter retries");
            plays.push(Play { format, cassette, request, answer, sent: requests.remove(0) });
        }
    }
    plays
}

/// Reads all of them with the SDKs, which send what our adapters sent.
fn read_by_sdks(server: &CassetteServer, plays: &[Play<'_>]) -> Vec<Reading> {
    let item = |play: &Play<'_>| ToRead {
        format: play.format.name(),
        base_url: format!("{}/{}{}", server.url, sdk_place(play), play.format.base_path()),
        model: play.request.model.clone(),
        body: play.sent.body.clone(),
    };
    oracle::read(&plays.iter().map(item).collect::<Vec<_>>())
}

fn sdk_place(play: &Play<'_>) -> String {
    format!("sdk/{}/{}", play.format.name(), play.cassette.case)
}

/// Where our adapter and the SDK read differently, and whether the cassette is valid by the SDK's types.
fn judge_reading(play: &Play<'_>, reading: &Reading) -> Vec<String> {
    let mut found = differences(play.format, &play.request, &play.answer, &reading.read);
    if let Some(strict) = &reading.strict {
        found.push(format!("strict: by the SDK's own types the cassette is not valid: {strict}"));
    }
    found
}

/// Where the SDK, given our request, writes another one.
fn judge_request(server: &CassetteServer, play: &Play<'_>) -> Vec<String> {
    let ours = &play.sent;
    let theirs = server.requests(&sdk_place(play));
    let Some(their) = theirs.first() else {
        return vec!["the SDK sent nothing".to_owned()];
    };
    let mut found = Vec::new();
    if theirs.len() != 2 {
        found.push(format!("an SDK reads a cassette twice, it was asked for {} times", theirs.len()));
    }
    if their.path != ours.path {
        found.push(format!("path: ours {}, theirs {}", ours.path, their.path));
    }
    for name in VERSION_HEADERS {
        let (our, their) = (ours.headers.get(name), their.headers.get(name));
        if our != their {
            found.push(format!("{name}: ours {our:?}, theirs {their:?}"));
        }
    }
    found.extend(crate::sdk::differences(&written(play.format, &their.body), &written(play.format, &ours.body)));
    found
}

/// A body as JSON, without the freedom that google-genai takes: it writes an empty configuration, some names with
/// underscores, bytes with the alphabet for URLs, and functions after other tools.
fn written(format: Format, body: &str) -> Value {
    let mut body: Value = serde_json::from_str(body).unwrap();
    if format != Format::Gemini {
        return body;
    }
    body = in_one_style(body);
    if body["generationconfig"] == json!({}) {
        body.as_object_mut().unwrap().remove("generationconfig");
    }
    if let Some(tools) = body.get_mut("tools").and_then(Value::as_array_mut) {
        tools.sort_by_key(Value::to_string);
    }
    body
}

fn in_one_style(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let named = |(name, value): (String, Value)| {
                let value = match (name.as_str(), value) {
                    ("data" | "thoughtSignature", Value::String(bytes)) => {
                        bytes.replace('-', "+").replace('_', "/").into()
                    }
                    (_, other) => in_one_style(other),
                };
                (name.to_lowercase().replace('_', ""), value)
            };
            Value::Object(fields.into_iter().map(named).collect())
        }
        Value::Array(items) => items.into_iter().map(in_one_style).collect(),
        other => other,
    }
}

/// Headers that decide what the server does.
const VERSION_HEADERS: [&str; 3] = ["anthropic-version", "anthropic-beta", "content-type"];

#[test]
fn the_vendors_sdks_read_every_cassette_as_our_adapters_do() {
    let began = Instant::now();
    let shelves = Shelf::all();
    let mut table = Table::new(&shelves);
    // By what differs, the cases: a wrong header is in all of them.
    let mut requests: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let read = block_on(async {
        let server = CassetteServer::start(&shelves).await;
        let plays = play(&server, &shelves).await;
        let readings = read_by_sdks(&server, &plays);
        for (play, reading) in plays.iter().zip(&readings) {
            let (wrong, exception) = unexpected(play.format, &play.cassette.case, judge_reading(play, reading));
            table.enter(play.format, &play.cassette.case, wrong, exception);
            for difference in judge_request(&server, play) {
                let difference = format!("{}: {difference}", play.format.name());
                requests.entry(difference).or_default().push(&play.cassette.case);
            }
        }
        plays.len()
    });
    println!(
        "\n{}{read} cassettes, each read by our adapter and by the vendor's SDK, in {:.0} s",
        table.render(),
        began.elapsed().as_secs_f64()
    );
    let mut failures = table.failures();
    for (difference, cases) in requests {
        failures.push_str(&format!(
            "the request (expected is what the SDK writes) {difference}\n  in {}\n",
            cases.join(", ")
        ));
    }
    assert!(failures.is_empty(), "\n{failures}");
}

#[test]
fn the_vendors_types_accept_every_request_of_our_adapters() {
    let began = Instant::now();
    let shelves = Shelf::all();
    let requests = block_on(async {
        let server = CassetteServer::start(&shelves).await;
        let plays = play(&server, &shelves).await;
        let first = plays.iter().map(|play| {
            let about = format!("{} {}", play.format.name(), play.cassette.case);
            (about, ToCheck { format: play.format.name(), body: play.sent.body.clone() })
        });
        first.chain(plays.iter().flat_map(follow_ups::requests)).collect::<Vec<_>>()
    });
    let (names, items): (Vec<String>, Vec<ToCheck>) = requests.into_iter().unzip();
    let problems = oracle::check(&items);
    let mut wrong = Vec::new();
    for ((name, item), problems) in names.iter().zip(&items).zip(problems) {
        let (problems, reason) = exceptions::unexpected_in_request(name, problems);
        if let Some(reason) = reason {
            println!("{name}: * {reason}");
        }
        if !problems.is_empty() {
            wrong.push(format!("{name}:\n  {}\n  {}", problems.join("\n  "), item.body));
        }
    }
    for format in Format::ALL {
        let count = items.iter().filter(|item| item.format == format.name()).count();
        println!("{count:>5} requests of {}", format.name());
    }
    println!("{:>5} requests checked by the vendors' types in {:.0} s", items.len(), began.elapsed().as_secs_f64());
    assert!(wrong.is_empty(), "{} requests are not valid:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_check_of_requests_finds_unknown_fields_missing_fields_and_wrong_types() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = json!({"type": "image_url", "image_url": {"url": "u", "size": 1}});
    let reasoning = json!({"type": "reasoning", "id": "r", "summary": "none"});
    let declared = json!({"functionDeclarations": [{"name": "n", "parametersJsonSchema": {}}]});
    let asked = |text: Value| json!([{"role": "user", "content": [text]}]);
    let table = [
        ("anthropic", json!({"model": "m", "max_tokens": 1, "stream": true, "messages": asked(text("a"))}), ""),
        ("anthropic", json!({"model": "m", "stream": true, "messages": []}), ".max_tokens: MessageCreate"),
        (
            "anthropic",
            json!({"model": "m", "max_tokens": "1", "stream": true, "messages": []}),
            ".max_tokens: must be int",
        ),
        (
            "anthropic",
            json!({"model": "m", "max_tokens": 1, "stream": true, "messages": asked(json!({"type": "text", "text": "a", "x": 1}))}),
            ".messages[0].content[0].x: TextBlockParam has no such field",
        ),
        ("openai_chat", json!({"model": "m", "stream": true, "messages": asked(text("a"))}), ""),
        (
            "openai_chat",
            json!({"model": "m", "stream": true, "messages": asked(image)}),
            ".messages[0].content[0].image_url.size: ImageURL has no such field",
        ),
        ("openai_responses", json!({"model": "m", "stream": true, "input": []}), ""),
        (
            "openai_responses",
            json!({"model": "m", "stream": true, "input": [reasoning]}),
            ".input[0].summary: must be a list",
        ),
        ("gemini", json!({"contents": [{"role": "user", "parts": [{"text": "a"}]}], "tools": [declared]}), ""),
        ("gemini", json!({"contents": [{"parts": [{"txt": "a"}]}]}), "contents.0.parts.0.txt: Extra inputs"),
        (
            "gemini",
            json!({"contents": [], "generationConfig": {"max_output_tokens": 1}}),
            "generationConfig.max_output_tokens: is written as null",
        ),
        (
            "gemini",
            json!({"contents": [], "generationConfig": {"thinkingConfig": {"thinkingLevel": "HUGE"}}}),
            "generationConfig: HUGE is not a valid ThinkingLevel",
        ),
    ];
    let items: Vec<ToCheck> =
        table.iter().map(|(format, body, _)| ToCheck { format, body: body.to_string() }).collect();
    for ((format, body, expected), found) in table.iter().zip(oracle::check(&items)) {
        match expected.is_empty() {
            true => assert!(found.is_empty(), "{format} {body}: {found:?}"),
            false => assert!(found.iter().any(|one| one.starts_with(expected)), "{format} {body}: {found:?}"),
        }
    }
}
