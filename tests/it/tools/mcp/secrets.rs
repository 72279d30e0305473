//! Headers that a caller of the HTTP API sends for its MCP server.

use std::fs;

use serde_json::{Value, json};
use temporalio_client::UntypedWorkflow;
use windlass_core::canonical::CanonicalJson;

use super::super::{
    servers::{HttpPeer, LOOPBACK},
    site::{Site, succeeded},
};
use crate::{
    api::http::{Answer, Exchange},
    runs::secrets::search::Search,
    support::{
        block_on, calls, says, script,
        world::{client_at, within},
    },
};

async fn request(site: &Site, request: &str, body: Option<Value>) -> Answer {
    let said = |key: &str| site.banner[key].as_str().unwrap();
    let address = said("api").strip_prefix("http://").unwrap().parse().unwrap();
    let (method, path) = request.split_once(' ').unwrap();
    let request = format!("{method} /api/v1/workspaces/default{path}");
    let bearer = format!("Bearer {}", said("apiKey"));
    let headers = [("Authorization", bearer.as_str())];
    within("an answer", async { Exchange::open(address, &request, &headers, body.as_ref()).await.finish().await }).await
}

/// The body's `runId` or `sessionId`.
fn id(answer: &Answer, field: &str) -> String {
    answer.body[field].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

#[test]
fn a_header_of_a_callers_server_reaches_the_server_and_is_found_nowhere_else() {
    let peer = HttpPeer::start();
    let turns = [calls(&[("peer_authorization_digest", json!({}))]), says("done")];
    let site = Site::with_options(&["--log", "trace"], LOOPBACK, &[], &json!({"digest": script(&turns)}));
    let mut search = Search::default();
    let [of_run, of_session] = ["run", "session"].map(|field| format!("Bearer {}", search.plant(field)));
    let spec = |header: &str| {
        let tool = json!({"kind": "mcp", "name": "peer", "url": peer.url, "headers": {"Authorization": header}});
        json!({"modelId": "script:digest", "systemPrompt": "Use the tool.", "tools": [tool]})
    };
    block_on(async {
        let mut body = spec(&of_run);
        body["prompt"] = json!("go");
        let alone = id(&request(&site, "POST /agent-runs", Some(body)).await, "runId");
        let session = id(&request(&site, "POST /agent-sessions", Some(spec(&of_session))).await, "sessionId");
        let message = format!("POST /agent-sessions/{session}/messages");
        let in_session = id(&request(&site, &message, Some(json!({"prompt": "go"}))).await, "runId");
        for (run, header) in [(&alone, &of_run), (&in_session, &of_session)] {
            site.completed(run);
            let digest = CanonicalJson::from(json!(header)).digest().to_string();
            let expected = [succeeded("call-0-0", "peer_authorization_digest", json!({"result": digest}))];
            assert_eq!(site.results(run), expected, "the server got the header");
            search_run(&site, &mut search, run).await;
        }
        for path in [format!("/agent-sessions/{session}"), format!("/agent-sessions/{session}/events")] {
            search_path(&site, &mut search, &path).await;
        }
    });
    search.files(site.data().as_ref());
    let log = fs::read(site.log()).unwrap();
    assert!(String::from_utf8_lossy(&log).contains("TRACE"), "the log is at trace level");
    search.bytes("logs", &log);
    println!("\n{}\n", search.report());
}

async fn search_run(site: &Site, search: &mut Search, run: &str) {
    let client = client_at(site.banner["address"].as_str().unwrap()).await;
    let handle = client.get_workflow_handle::<UntypedWorkflow>(run.to_owned());
    search.bytes("histories", &handle.fetch_history(Default::default()).to_json().await.unwrap());
    search.text("definitions", &format!("{:?}", site.definition(run).await));
    for part in ["", "?row=1&live=1", "/events", "/transcript", "/awaits", "/stream", "/stream?format=log"] {
        search_path(site, search, &format!("/agent-runs/{run}{part}")).await;
    }
}

async fn search_path(site: &Site, search: &mut Search, path: &str) {
    let answer = request(site, &format!("GET {path}"), None).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    search.text("API answers", &format!("{answer:?}"));
}
