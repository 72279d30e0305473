//! Values of headers in specs of the agent-runs protocol, of a run and of a session, whose servers repeat them.

use serde_json::{Value, json};
use windlass_core::ids::RunId;

use super::{echo_server::EchoServer, search::Search};
use crate::{
    api::rig::Rig,
    support::{calls, says, script},
};

pub(super) const SCRIPT: &str = "spec";

pub(super) fn script_of() -> Value {
    let message = json!({"message": "go"});
    let all = [
        ("peer_echo", json!({})),
        ("peer_fail", json!({})),
        ("peer_refuse", json!({})),
        ("closed_unavailable", json!({})),
        ("mate", message.clone()),
        ("failing", message),
    ];
    script(&[calls(&all), says("{{last_tool_result}}")])
}

/// Runs with values of their own, and of a session that has two runs. Returns all of them.
pub(super) async fn runs(rig: &Rig, search: &mut Search, server: &EchoServer) -> Vec<RunId> {
    let mut spec = spec(search, server, "run");
    spec["prompt"] = json!("go");
    let mut runs = vec![rig.run(spec.clone()).await];
    let values = Values::of(&spec);
    search_ended(rig, search, &runs[0]).await;
    values.arrived(server);

    let spec = self::spec(search, server, "session");
    let values = Values::of(&spec);
    let opened = rig.post("/agent-sessions", spec).await;
    assert!(opened.status < 300, "{opened:?}");
    search.text("API answers", &format!("{opened:?}"));
    let session = opened.body["sessionId"].as_str().unwrap().to_owned();
    for prompt in ["go", "again"] {
        let sent = rig.post(&format!("/agent-sessions/{session}/messages"), json!({"prompt": prompt})).await;
        search.text("API answers", &format!("{sent:?}"));
        let run = sent.body["runId"].as_str().unwrap_or_else(|| panic!("{sent:?}")).to_owned();
        search_ended(rig, search, &run).await;
        runs.push(run);
    }
    values.arrived(server);
    for route in ["", "/events"] {
        let shown = rig.get(&format!("/agent-sessions/{session}{route}")).await;
        assert_eq!(shown.status, 200, "{shown:?}");
        search.text("API answers", &format!("{shown:?}"));
    }
    runs.into_iter().map(RunId::new).collect()
}

async fn search_ended(rig: &Rig, search: &mut Search, run: &str) {
    let frames = rig.frames(run).await;
    assert_eq!(frames.last().unwrap()["type"], "result", "{frames:?}");
    search.text("streams", &format!("{frames:?}"));
}

/// With an own value in each header: a bearer token, and a plain one.
fn spec(search: &mut Search, server: &EchoServer, owner: &str) -> Value {
    let mut headers = |kind: &str| {
        let bearer = format!("Bearer {}", search.plant(&format!("{owner}-{kind}-bearer")));
        json!({"Authorization": bearer, "X-Key": search.plant(&format!("{owner}-{kind}-key"))})
    };
    let tools = json!([
        {"kind": "mcp", "name": "peer", "url": server.url("/mcp"), "headers": headers("mcp")},
        {"kind": "mcp", "name": "closed", "url": server.url("/400"), "headers": headers("mcp-closed")},
        {"kind": "a2a", "name": "mate", "agentCardUrl": server.url("/card"), "headers": headers("a2a")},
        {"kind": "a2a", "name": "failing", "agentCardUrl": server.url("/card/failing"), "headers": headers("a2a-failing")},
    ]);
    json!({"modelId": format!("script:{SCRIPT}"), "systemPrompt": "Use the tools.", "tools": tools})
}

/// The values of the headers of a spec.
struct Values(Vec<String>);

impl Values {
    fn of(spec: &Value) -> Self {
        let headers = spec["tools"].as_array().unwrap().iter().flat_map(|tool| tool["headers"].as_object().unwrap());
        Self(headers.map(|(_, value)| value.as_str().unwrap().to_owned()).collect())
    }

    fn arrived(&self, server: &EchoServer) {
        for value in &self.0 {
            assert!(server.received(value), "{value} arrived");
        }
    }
}
