//! Malformed requests: bytes that are not HTTP, bodies that expand, values of the wrong type. The server rejects them,
//! never with a 5xx, and continues to serve.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{
    Tally,
    wire::{Caller, send},
};
use crate::{
    proofs::{dice::Dice, scale},
    sdk::dev::Dev,
    support::block_on,
};

#[test]
fn malformed_requests_do_not_harm_the_server() {
    block_on(async {
        let dev = Dev::start("60s");
        let caller = Caller::of_dev(&dev.listen);
        let mut tally = Tally::new("malformed requests");
        // Concurrently: some are rejected only after a timeout.
        let sent = malformed(&caller).into_iter().map(|(name, request)| {
            let address = &caller.address;
            async move { (name, send(address, &request).await) }
        });
        for (name, answer) in join_all(sent).await {
            tally.count("requests", 1);
            // No response is accepted here: a server may close a connection that does not send HTTP.
            match answer {
                Ok(answer) if answer.status >= 500 && answer.status != 505 => {
                    tally.finding(format!("{name}: {answer:?}"));
                }
                Ok(answer) if answer.status == 202 => tally.finding(format!("{name}: was taken as a run")),
                Ok(_) | Err(_) => {}
            }
        }
        let ready = send(&caller.address, b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        if !ready.as_ref().is_ok_and(|ready| ready.status == 200) {
            tally.finding(format!("afterwards /readyz: {ready:?}"));
        }
        let runs = caller.get("/agent-runs").await.unwrap();
        if runs.body["runs"] != json!([]) {
            tally.finding(format!("runs were created: {}", runs.body));
        }
        tally.close();
    });
}

#[test]
fn mutated_bodies_are_rejected_or_start_runs() {
    let cases = scale("WINDLASS_HOSTILE_BODIES", 60);
    let seed = scale("WINDLASS_HOSTILE_SEED", 1) as u64;
    block_on(async {
        let dev = Dev::start_with(vec!["--port".into(), "0".into()]);
        let caller = Caller::of_dev(&dev.listen);
        let mut tally = Tally::new("mutated bodies");
        let mut dice = Dice::seeded(seed);
        for _ in 0..cases {
            let mut body = valid();
            for _ in 0..=dice.roll(3) {
                mutate(&mut body, &mut dice);
            }
            tally.count("requests", 1);
            match caller.post("/agent-runs", &body).await {
                Ok(answer) if answer.status == 202 || (400..500).contains(&answer.status) => {}
                other => tally.finding(format!("{other:?} for {}", shortened(&body))),
            }
        }
        tally.close();
    });
}

fn valid() -> Value {
    json!({
        "agentId": "demo", "name": "n", "systemPrompt": "You help.", "modelId": "script:demo", "reasoningLevel": "low",
        "messages": [{"role": "user", "content": "hi", "attachments": []}], "metadata": {"k": "v"},
        "tools": [{"kind": "local", "name": "add", "description": "d", "parameters": {"type": "object", "properties": {}}}],
        "outputSchema": {"name": "o", "schema": {"type": "object"}}, "toolBudgets": {"add": {"maxCalls": 3}},
        "loopDetection": {"consecutiveThreshold": 3}, "budgets": {"maxToolTurns": 3}, "labels": {"a": "b"},
    })
}

/// Replaces one value somewhere in the tree.
fn mutate(value: &mut Value, dice: &mut Dice) {
    let deeper = dice.chance(75);
    match value {
        Value::Object(fields) if deeper && !fields.is_empty() => {
            let place = dice.roll(fields.len() as u64) as usize;
            if let Some((_, field)) = fields.iter_mut().nth(place) {
                mutate(field, dice);
            }
        }
        Value::Array(items) if deeper && !items.is_empty() => {
            let place = dice.roll(items.len() as u64) as usize;
            mutate(&mut items[place], dice);
        }
        value => *value = hostile_value(dice),
    }
}

fn hostile_value(dice: &mut Dice) -> Value {
    match dice.roll(14) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(1e308),
        5 => json!(""),
        6 => json!("\u{0}\u{202e}\u{feff}'; DROP TABLE runs; --"),
        7 => json!("../../../etc/passwd"),
        8 => json!("x".repeat(300_000)),
        9 => json!([]),
        10 => json!({}),
        11 => Value::Array(vec![json!({"kind": "local", "name": "t"}); 3000]),
        12 => (0..100).fold(json!(1), |inner, _| json!([inner])),
        _ => json!({"type": "banana", "$ref": "http://127.0.0.1:1/x", "pattern": "(a+)+$"}),
    }
}

fn shortened(body: &Value) -> String {
    body.to_string().chars().take(400).collect()
}

fn malformed(caller: &Caller) -> Vec<(&'static str, Vec<u8>)> {
    let with_body = |headers: &[&str], body: &[u8]| {
        let length = format!("Content-Length: {}", body.len());
        let headers: Vec<&str> = headers.iter().copied().chain([length.as_str()]).collect();
        [caller.head("POST", "/agent-runs", &headers).as_bytes(), body].concat()
    };
    let json_body = |body: &str| with_body(&["Content-Type: application/json"], body.as_bytes());
    let raw = |headers: &[&str], body: &[u8]| [caller.head("POST", "/agent-runs", headers).as_bytes(), body].concat();
    let long_header = format!("X-Long: {}", "x".repeat(1024 * 1024));
    let many_headers: Vec<String> = (0..5000).map(|n| format!("X-H{n}: v")).collect();
    let many_headers: Vec<&str> = many_headers.iter().map(String::as_str).collect();
    vec![
        ("deep arrays", json_body(&format!("{}{}", "[".repeat(200_000), "]".repeat(200_000)))),
        ("deep objects", json_body(&format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000)))),
        (
            "deep metadata",
            json_body(&format!("{{\"prompt\":\"x\",\"metadata\":{}1{}}}", "[".repeat(5000), "]".repeat(5000))),
        ),
        ("unfinished JSON", json_body("{\"prompt\": \"x")),
        ("a number that is too large", json_body("{\"prompt\": 1e999999}")),
        ("a long number", json_body(&format!("{{\"reasoningLevel\": {}}}", "9".repeat(1_000_000)))),
        ("no UTF-8", with_body(&["Content-Type: application/json"], b"{\"prompt\": \"\xff\xfe\xc0\x80\"}")),
        ("a lone surrogate", json_body("{\"prompt\": \"\\ud800\", \"systemPrompt\": \"x\"}")),
        (
            "a gzip bomb",
            with_body(&["Content-Type: application/json", "Content-Encoding: gzip"], &gzip_bomb(4_000_000)),
        ),
        ("two lengths", raw(&["Content-Length: 2", "Content-Length: 200"], b"{}")),
        ("length and chunks", raw(&["Content-Length: 2", "Transfer-Encoding: chunked"], b"0\r\n\r\n")),
        ("a chunk without end", raw(&["Transfer-Encoding: chunked"], b"ffffffffffffffff\r\nx")),
        ("a chunk size that is none", raw(&["Transfer-Encoding: chunked"], b"banana\r\nx\r\n0\r\n\r\n")),
        ("a negative length", raw(&["Content-Length: -1"], b"")),
        ("a huge length", raw(&["Content-Length: 99999999999999"], b"{}")),
        ("a header of a megabyte", raw(&[&long_header], b"")),
        ("five thousand headers", raw(&many_headers, b"")),
        ("a path of a megabyte", format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(1024 * 1024)).into_bytes()),
        (
            "an escaped path",
            b"GET /api/v1/workspaces/%2e%2e/%00/agent-runs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec(),
        ),
        ("zero bytes", vec![0; 4096]),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(20)),
        ("HTTP/2 without a key", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00".to_vec()),
        ("HTTP/0.9", b"GET /\r\n\r\n".to_vec()),
        ("a method that is none", b"BREW /agent-runs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_vec()),
    ]
}

/// A gzip member of about `bytes / 160` bytes that inflates to `bytes` zeros: one literal, then matches of length 258 at
/// distance 1, in a block with the fixed codes of RFC 1951.
fn gzip_bomb(bytes: usize) -> Vec<u8> {
    let mut bits: Vec<bool> = vec![true, true, false];
    let mut code = |code: u32, length: u32| bits.extend((0..length).rev().map(|place| code >> place & 1 == 1));
    code(0b0011_0000, 8);
    for _ in 0..bytes / 258 {
        code(0b1100_0101, 8);
        code(0, 5);
    }
    code(0, 7);
    let packed = bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |sum, bit| sum << 1 | u8::from(*bit)));
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    head.into_iter().chain(packed).chain([0; 8]).collect()
}
