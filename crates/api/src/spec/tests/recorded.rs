//! Requests that real clients sent are read without complaint, apart from what this server does not have.

use serde_json::Value;

use super::{super::*, complaint};

fn recorded(name: &str) -> Vec<(String, Value)> {
    let all: Value = serde_json::from_str(include_str!("../../../fixtures/requests.json")).unwrap();
    let requests = all[name].as_array().unwrap().iter();
    requests.map(|request| (request["case"].as_str().unwrap().to_owned(), request["body"].clone())).collect()
}

/// The models of the recordings are not ours; everything else must fit.
fn without_model(mut body: Value) -> Value {
    for model in ["modelId", "fallbackModelId"] {
        body.as_object_mut().unwrap().remove(model);
    }
    body
}

#[test]
fn runs() {
    let refused: Vec<(String, String)> = recorded("runs")
        .into_iter()
        .filter_map(|(case, body)| complaint(&without_model(body)).map(|complaint| (case, complaint)))
        .collect();
    let expected = [
        ("t16_newer.plan_with_steps_is_tracked", "plan: is not available on this server; leave it out or send \"off\""),
        ("t16_newer.plan_only_with_steps", "plan: is not available on this server; leave it out or send \"off\""),
        (
            "t16_newer.plan_only_with_strict_schema_fails",
            "plan: is not available on this server; leave it out or send \"off\"",
        ),
        ("t10_guards.supervisor", "supervisor: is not available on this server; leave it out or send false"),
        ("t14_validation.sdk_maps_400", "metadata: has 17 entries; send at most 16"),
        ("t16_newer.server_tool_refs_on_the_wire", "tools[0].id: this server has no such tool; it has: clock"),
    ];
    assert_eq!(refused, expected.map(|(case, complaint)| (case.to_owned(), complaint.to_owned())));
}

#[test]
fn sessions_and_their_messages() {
    for (case, body) in recorded("sessions") {
        let (spec, kept) = parse_session(&body).unwrap_or_else(|invalid| panic!("{case}: {invalid}"));
        let again = effective(&kept, &serde_json::json!({"prompt": "p"})).unwrap().spec;
        assert_eq!(again, spec, "{case}: a message that overrides nothing gets the session as it is");
    }
    let session = serde_json::json!({"systemPrompt": "s"});
    for (case, body) in recorded("messages") {
        let read = effective(&session, &body);
        if case.contains("plan_only") {
            assert_eq!(read.unwrap_err().field, "plan");
        } else {
            read.unwrap_or_else(|invalid| panic!("{case}: {invalid}"));
        }
    }
}

#[test]
fn tool_results() {
    for (case, body) in recorded("toolResults") {
        let read = ToolResult::parse(&body).unwrap_or_else(|invalid| panic!("{case}: {invalid}"));
        assert_eq!(read.tool_use_id.as_str(), body["toolUseId"]);
        match read.outcome {
            Outcome::Success { result, files } => {
                assert_eq!(result, body["result"].as_str().unwrap());
                assert_eq!(files.len(), body["files"].as_array().map_or(0, Vec::len));
            }
            Outcome::Failure { error } => assert_eq!(error, body["error"].as_str().unwrap()),
        }
    }
}
