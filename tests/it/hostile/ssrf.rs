//! A model that makes the server fetch addresses of its own network. None is reached.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Tally, wire::Caller};
use crate::{sdk::dev::Dev, support::block_on};

#[test]
fn private_addresses_are_never_reached() {
    block_on(async {
        let canary = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = canary.local_addr().unwrap().port();
        let reached = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&reached);
        tokio::spawn(async move {
            while let Ok((connection, _)) = canary.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                drop(connection);
            }
        });

        let urls = urls(port);
        let mut turns: Vec<Value> =
            urls.iter().map(|url| json!({"tool_calls": [{"name": "http_get", "args": {"url": url}}]})).collect();
        turns.push(json!({"text": "done"}));
        let dir = tempfile::TempDir::new().unwrap();
        let scripts = dir.path().join("scripts.json");
        std::fs::write(&scripts, json!({"ssrf": {"turns": turns}}).to_string()).unwrap();
        let dev = Dev::start_with(vec!["--port".into(), "0".into(), "--scripts".into(), scripts.into()]);
        let caller = Caller::of_dev(&dev.listen);
        let run = caller
            .post(
                "/agent-runs",
                &json!({
                    "modelId": "script:ssrf", "systemPrompt": "s", "prompt": "x",
                    "tools": [{"kind": "mantyx", "id": "http_get"}], "loopDetection": false,
                }),
            )
            .await
            .unwrap();
        let run = run.body["runId"].as_str().unwrap_or_else(|| panic!("{run:?}")).to_owned();
        // A stream ends with the run.
        caller.get(&format!("/agent-runs/{run}/stream")).await.unwrap();

        let mut tally = Tally::new("server-side request forgery");
        let mut results: Vec<Value> = Vec::new();
        let mut after = 0;
        loop {
            let page = caller.get(&format!("/agent-runs/{run}/events?limit=200&after={after}")).await.unwrap().body;
            let events = page["events"].as_array().cloned().unwrap();
            after = events.last().map_or(after, |event| event["seq"].as_u64().unwrap());
            results.extend(events.into_iter().filter(|event| event["type"] == "tool_result"));
            if page["more"] != true {
                break;
            }
        }
        tally.count("requests", urls.len() as u64);
        if results.len() != urls.len() {
            tally.finding(format!("{} results for {} calls", results.len(), urls.len()));
        }
        for (result, url) in results.iter().zip(&urls) {
            if result["data"]["ok"] != false {
                tally.finding(format!("{url}: {}", result["data"]));
            }
        }
        let reached = reached.load(Ordering::SeqCst);
        if reached > 0 {
            tally.finding(format!("{reached} connections to a service on the loopback interface"));
        }
        tally.close();
    });
}

/// Ways to write addresses of this machine and of its network.
fn urls(port: u16) -> Vec<String> {
    let hosts = [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "0.0.0.0",
        "0",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "127.255.255.254",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "user@127.0.0.1",
        "user:password@localhost",
        "example.com@127.0.0.1",
        "127.0.0.1%00.example.com",
        "127.0.0.1%2f",
        "[::1%25lo]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "100.64.0.1",
        "168.63.129.16",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "metadata.google.internal",
        "foo.localhost",
        "ip6-localhost",
    ];
    let schemes = [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1:70/_x",
        "dict://127.0.0.1:11211/stats",
        "data:text/plain,x",
        "javascript:alert(1)",
        "//127.0.0.1/",
        "http:/127.0.0.1",
        "http://",
        "unix:///var/run/docker.sock",
    ];
    let hosts = hosts.into_iter().map(|host| format!("http://{host}:{port}/latest/meta-data/"));
    hosts.chain(schemes.into_iter().map(str::to_owned)).collect()
}
