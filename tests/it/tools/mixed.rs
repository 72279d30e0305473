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

fn agent(server: &RecordingServer, mate: &Peer) -> Value {
    let http = |method: &str, path: &str| json!({"method": method, "url": format!("http://{}{path}", server.address)});
    let text = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let tools = json!([
        {"name": "notes.search"},
        {"name": "tides", "kind": "http", "inputSchema": text("port"), "http": http("GET", "/tides/{port}")},
        {"name": "berth", "kind": "http", "inputSchema": text("boat"), "http": http("POST", "/berths")},
        {"name": "mate", "kind": "a2a", "inputSchema": text("message"), "a2a": {"agentCardUrl": mate.url()}},
        {"name": "pilot", "kind": "external", "inputSchema": text("boat")},
        {"name": "clerk", "kind": "agent", "agent": "clerk", "inputSchema": text("message")},
    ]);
    let toolsets = [toolset("everything", &["echo"]), toolset("peer", &["add"])];
    let clerks_tools = [json!({"name": "notes.search", "confirmation": {"prompt": "Look into the notes?"}})];
    let clerk = json!({"id": "clerk", "model": "script:clerk", "tools": clerks_tools});
    let rule = json!({"tool": "berth", "outcome": "ask", "edit": true, "prompt": "Book a berth for {boat}?"});
    json!({"id": "skipper", "model": "script:skipper", "tools": tools, "toolsets": toolsets, "agents": [clerk],
           "approvals": [rule]})
}

/// The id of the only await, which must be of this kind.
fn only(awaits: &[Value], kind: &str) -> String {
    let of_kind: Vec<&Value> = awaits.iter().filter(|item| item["kind"] == kind).collect();
    assert_eq!(of_kind.len(), 1, "{awaits:?}");
    of_kind[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_with_tools_of_every_kind_that_is_killed_while_it_waits_has_one_result_per_call() {
    let (server, peer) = (RecordingServer::start(), HttpPeer::start());
    let mate = Peer::start(Language::Python, &[]);
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
        ]),
        says("The Heron has a berth."),
    ]);
    let clerk = script(&[calls(&[("notes.search", json!({"query": "berth"}))]), says("No notes.")]);
    let mut site = Site::new(&config, &[agent(&server, &mate)], &json!({"skipper": skipper, "clerk": clerk}));
    let run = site.run("skipper");
    let clerks = format!("{run}/call-0-5");
    let asked = [site.awaits(&run, 2), site.awaits(&clerks, 1)];
    // The calls that need no person are over.
    site.events(&run, 5, |event| event["type"] == "tool_result");
    assert_eq!(*server.requests.lock().unwrap(), ["GET /tides/Dover"]);

    site.kill();
    site.start();
    assert_eq!([site.awaits(&run, 2), site.awaits(&clerks, 1)], asked);
    let accepted = |args: &[&str]| {
        let reply = site.json(args);
        assert_eq!(reply["status"], "accepted", "{args:?}: {reply}");
    };
    let [ours, theirs] = &asked;
    let other_boat = "{\"boat\": \"Egret\"}";
    accepted(&["runs", "approve", &run, &only(ours, "confirmation"), "--yes", "--edit", other_boat]);
    accepted(&["runs", "approve", &clerks, &only(theirs, "confirmation"), "--yes"]);
    accepted(&["runs", "answer", &run, &only(ours, "external_tools"), "--result", "call-0-4={\"pilot\": \"Bo\"}"]);
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
    ];
    assert_eq!(site.results(&run), expected);
    let clerks_results = [succeeded("call-0-0", "notes.search", json!({"notes": [], "truncated": false}))];
    assert_eq!(site.results(&clerks), clerks_results);
    assert_eq!(*server.requests.lock().unwrap(), ["GET /tides/Dover", "POST /berths {\"boat\":\"Egret\"}"]);
    println!("{}", site.said(&["runs", "transcript", &run, "--full"]).out);
}
