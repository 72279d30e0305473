//! Tools of `windlass.toml`, which agents and requests name.

use serde_json::{Value, json};

use super::{
    mixed::RecordingServer,
    servers::LOOPBACK,
    site::{Site, succeeded},
};
use crate::{
    api::http::{Answer, Exchange},
    support::{block_on, calls, says, script, world::within},
};

fn config(server: &RecordingServer) -> String {
    format!(
        "{LOOPBACK}[tools.tides]\nkind = \"http\"\ndescription = \"The tides of a port.\"\n\
         input_schema = {{ type = \"object\", properties = {{ port = {{ type = \"string\" }} }}, required = [\"port\"] }}\n\
         http = {{ url = \"http://{}/tides/{{port}}\" }}\n",
        server.address
    )
}

fn site(server: &RecordingServer) -> Site {
    let turns = [calls(&[("tides", json!({"port": "Dover"}))]), says("done")];
    let agent = json!({"id": "skipper", "model": "script:skipper", "tools": [{"name": "tides"}]});
    Site::new(&config(server), &[agent], &json!({"skipper": script(&turns)}))
}

async fn start(site: &Site, tool: &str) -> Answer {
    let said = |key: &str| site.banner[key].as_str().unwrap();
    let address = said("api").strip_prefix("http://").unwrap().parse().unwrap();
    let bearer = format!("Bearer {}", said("apiKey"));
    let tools = json!([{"kind": "mantyx", "id": tool}]);
    let body = json!({"modelId": "script:skipper", "systemPrompt": "Sail.", "prompt": "go", "tools": tools});
    let request = "POST /api/v1/workspaces/default/agent-runs";
    let headers = [("Authorization", bearer.as_str())];
    within("an answer", async { Exchange::open(address, request, &headers, Some(&body)).await.finish().await }).await
}

#[test]
fn a_configured_tool_is_named_by_agents_and_requests_and_pinned_in_the_run() {
    let server = RecordingServer::start();
    let site = site(&server);
    let by_spec = block_on(start(&site, "tides"));
    let by_spec = by_spec.body["runId"].as_str().unwrap_or_else(|| panic!("{by_spec:?}")).to_owned();
    let by_agent = site.run("skipper");
    for run in [&by_spec, &by_agent] {
        site.completed(run);
        let expected = [succeeded("call-0-0", "tides", json!({"asked": "GET /tides/Dover"}))];
        assert_eq!(site.results(run), expected);
        let pinned = json!(block_on(site.definition(run)).tools[0]);
        assert_eq!(pinned["kind"], "http", "{pinned}");
        assert_eq!(pinned["http"]["url"], format!("http://{}/tides/{{port}}", server.address));
    }
    let listed = site.json(&["tools", "list"]);
    let tools = listed["tools"].as_array().unwrap();
    let tides: Vec<&Value> = tools.iter().filter(|tool| tool["name"] == "tides").collect();
    assert_eq!(tides.len(), 1, "{listed}");
    assert_eq!((&tides[0]["kind"], &tides[0]["description"]), (&json!("http"), &json!("The tides of a port.")));
}

#[test]
fn a_tool_that_is_not_configured_is_refused_with_the_nearest_name() {
    let server = RecordingServer::start();
    let refused = block_on(start(&site(&server), "tide"));
    assert_eq!(refused.status, 400, "{refused:?}");
    let said = refused.body.to_string();
    assert!(said.contains("tools[0].id: this server has no such tool; did you mean tides?"), "{said}");
}
