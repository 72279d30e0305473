//! Tools of every kind in one run: each call has one result, also if the process is killed while the run waits.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use super::{
    servers::{HttpPeer, LOOPBACK, from_npm, toolset},
    site::{Site, succeeded},
};
use crate::support::{
    a2a_peer::{Language, Peer},
    calls, says, script,
    sdk_workers::{node_programs, node_worker, python_worker, queue},
    server::Backend,
};

/// An HTTP server that answers each request with what it asked for, and keeps the requests.
pub(super) struct RecordingServer {
    pub(super) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl RecordingServer {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(&stream.unwrap(), &kept);
            }
        });
        Self { address, requests }
    }
}

/// Answers one request, and keeps its first line and its body.
fn answer(mut stream: &TcpStream, kept: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let request = format!("{} {}", first.trim().trim_end_matches(" HTTP/1.1"), String::from_utf8(body).unwrap());
    let request = request.trim().to_owned();
    let reply = json!({"asked": request}).to_string();
    kept.lock().unwrap().push(request);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{reply}", reply.len()).unwrap();
}

fn agent(server: &RecordingServer, mate: &Peer, in_python: &str, in_node: &str) -> Value {
    let http = |method: &str, path: &str| json!({"method": method, "url": format!("http://{}{path}", server.address)});
    let text = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let tools = json!([
        {"name": "notes.search"},
        {"name": "tides", "kind": "http", "inputSchema": text("port"), "http": http("GET", "/tides/{port}")},
        {"name": "berth", "kind": "http", "inputSchema": text("boat"), "http": http("POST", "/berths")},
        {"name": "mate", "kind": "a2a", "inputSchema": text("message"), "a2a": {"agentCardUrl": mate.url()}},
        {"name": "pilot", "kind": "external", "inputSchema": text("boat")},
        {"name": "logbook", "kind": "external", "client": {"kind": "local"}, "inputSchema": text("entry")},
        {"name": "clerk", "kind": "agent", "agent": "clerk", "inputSchema": text("message")},
        {"name": "forecast", "kind": "temporal", "inputSchema": text("city"), "idempotent": true,
         "temporal": {"activity": "forecast", "taskQueue": in_python, "heartbeatTimeoutMs": 1000}},
        {"name": "journey", "kind": "temporal", "inputSchema": {"type": "object"},
         "temporal": {"workflow": "journey", "taskQueue": in_node}},
    ]);
    let boat = json!({"name": "boat", "in": "path", "required": true, "schema": {"type": "string"}});
    let operation = json!({"operationId": "find", "parameters": [boat], "responses": {"200": {"description": "It."}}});
    let document = json!({"openapi": "3.1.0", "info": {"title": "Register", "version": "1"},
                          "paths": {"/boats/{boat}": {"get": operation}}});
    let openapi = json!({"document": document, "baseUrl": format!("http://{}", server.address)});
    let register = json!({"name": "register", "openapi": openapi});
    let toolsets = [toolset("everything", &["echo"]), toolset("peer", &["add"]), register];
    let clerks_tools = [json!({"name": "notes.search", "confirmation": {"prompt": "Look into the notes?"}})];
    let clerk = json!({"id": "clerk", "model": "script:clerk", "tools": clerks_tools});
    let rule = json!({"tool": "berth", "outcome": "ask", "edit": true, "prompt": "Book a berth for {boat}?"});
    json!({"id": "skipper", "model": "script:skipper", "tools": tools, "toolsets": toolsets, "agents": [clerk],
           "approvals": [rule]})
}

/// The id of the await of a call, which must be of this kind.
fn await_of(awaits: &[Value], call: &str, kind: &str) -> String {
    let of_call: Vec<&Value> = awaits.iter().filter(|item| item["calls"][0]["toolCallId"] == call).collect();
    assert_eq!(of_call.len(), 1, "{call}: {awaits:?}");
    assert_eq!(of_call[0]["kind"], kind, "{call}: {awaits:?}");
    of_call[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_with_tools_of_every_kind_that_is_killed_while_it_waits_has_one_result_per_call() {
    let (server, peer) = (RecordingServer::start(), HttpPeer::start());
    let mate = Peer::start(Language::Python, &[]);
    let (python, node) = (queue("python"), queue("node"));
    let config = [from_npm("everything", &["stdio"]), peer.config("peer"), LOOPBACK.to_owned()].concat();
    let skipper = script(&[
        calls(&[
            ("notes.search", json!({"query": "tide"})),
            ("tides", json!({"port": "Dover"})),
            ("everything_echo", json!({"message": "ahoy"})),
            ("peer_add", json!({"a": 19, "b": 23})),
            ("pilot", json!({"boat": "Heron"})),
            ("clerk", json!({"message": "What do we know?"})),
            ("berth", json!({"boat": "Heron"})),
            ("mate", json!({"message": "hello"})),
            ("register_find", json!({"boat": "Heron"})),
            ("logbook", json!({"entry": "Cast off."})),
            ("forecast", json!({"city": "Oslo"})),
            ("journey", json!({"days": 3})),
        ]),
        says("The Heron has a berth."),
    ]);
    let clerk = script(&[calls(&[("notes.search", json!({"query": "berth"}))]), says("No notes.")]);
    let (agents, scripts) = ([agent(&server, &mate, &python, &node)], json!({"skipper": skipper, "clerk": clerk}));
    let mut site = Site::on(Backend::chosen(), &[], &config, &agents, &scripts);
    let programs = node_programs();
    let in_python = python_worker(&site.temporal_address(), &python);
    let in_node = node_worker(&programs, &site.temporal_address(), &node, "2");
    let run = site.run("skipper");
    // The clerk's approval is seen and answered at the run that called it.
    site.event(&run, |event| event["type"] == "child_await_opened");
    let asked = site.awaits(&run, 3);
    // The calls that wait for nothing are over, and the workers of other SDKs are in the middle of theirs.
    site.events(&run, 6, |event| event["type"] == "tool_result");
    let requests = || {
        let mut requests = server.requests.lock().unwrap().clone();
        requests.sort();
        requests
    };
    assert_eq!(requests(), ["GET /boats/Heron", "GET /tides/Dover"]);
    in_python.wait_for("forecast 1", 1);
    in_node.wait_for("book 2 1", 1);

    site.kill();
    drop((in_python, in_node));
    site.start();
    let in_python = python_worker(&site.temporal_address(), &python);
    let in_node = node_worker(&programs, &site.temporal_address(), &node, "none");
    in_python.wait_for("forecast 2", 1);
    in_node.wait_for("book 2 2", 1);
    assert_eq!(site.awaits(&run, 3), asked);
    let accepted = |args: &[&str]| {
        let reply = site.json(args);
        assert_eq!(reply["status"], "accepted", "{args:?}: {reply}");
    };
    let other_boat = "{\"boat\": \"Egret\"}";
    let berth = await_of(&asked, "call-0-6", "confirmation");
    accepted(&["runs", "approve", &run, &berth, "--yes", "--edit", other_boat]);
    accepted(&["runs", "approve", &run, &await_of(&asked, "call-0-0", "confirmation"), "--yes"]);
    for (call, result) in [("call-0-4", json!({"pilot": "Bo"})), ("call-0-9", json!({"page": 7}))] {
        let external = await_of(&asked, call, "external_tools");
        accepted(&["runs", "answer", &run, &external, "--result", &format!("{call}={result}")]);
    }
    site.completed(&run);

    let expected = [
        succeeded("call-0-0", "notes.search", json!({"notes": [], "truncated": false})),
        succeeded("call-0-1", "tides", json!({"asked": "GET /tides/Dover"})),
        succeeded("call-0-2", "everything_echo", json!("Echo: ahoy")),
        succeeded("call-0-3", "peer_add", json!({"result": 42})),
        succeeded("call-0-4", "pilot", json!({"pilot": "Bo"})),
        succeeded("call-0-5", "clerk", json!("No notes.")),
        // The person who approved it wrote another boat.
        succeeded("call-0-6", "berth", json!({"asked": "POST /berths {\"boat\":\"Egret\"}"})),
        succeeded("call-0-7", "mate", json!("echo: hello")),
        succeeded("call-0-8", "register_find", json!({"asked": "GET /boats/Heron"})),
        succeeded("call-0-9", "logbook", json!({"page": 7})),
        succeeded("call-0-10", "forecast", json!({"city": "Oslo", "degrees": 12, "attempt": 2})),
        succeeded("call-0-11", "journey", json!({"booked": ["day 1", "day 2", "day 3"]})),
    ];
    assert_eq!(site.results(&run), expected);
    let clerks_results = [succeeded("call-0-0", "notes.search", json!({"notes": [], "truncated": false}))];
    assert_eq!(site.results(&format!("{run}/call-0-5")), clerks_results);
    assert_eq!(requests(), ["GET /boats/Heron", "GET /tides/Dover", "POST /berths {\"boat\":\"Egret\"}"]);
    println!("{}", site.said(&["runs", "transcript", &run, "--full"]).out);
}
