//! Tools that ask a person: the run waits, over a `kill -9`, until `windlass runs answer` or `deny`.

use serde_json::{Value, json};

use super::super::{
    servers::{HttpPeer, LOOPBACK, from_npm, toolset},
    site::{Said, Site, succeeded},
};
use crate::support::{calls, says, script};

/// An agent whose script calls, in one turn, a tool of each revision that asks.
fn site(peer: &HttpPeer) -> Site {
    let config = [from_npm("everything", &["stdio"]), peer.config("peer"), LOOPBACK.to_owned()].concat();
    let toolsets = [toolset("everything", &["trigger-elicitation-request"]), toolset("peer", &["book"])];
    let agent = json!({"id": "asking", "model": "script:asking", "toolsets": toolsets});
    let turn = calls(&[("everything_trigger-elicitation-request", json!({})), ("peer_book", json!({"guests": 2}))]);
    Site::new(&config, &[agent], &json!({"asking": script(&[turn, says("done")])}))
}

/// The id of the await of a call.
fn await_of(awaits: &[Value], call: &str) -> String {
    let item = awaits.iter().find(|item| item["calls"][0]["toolCallId"] == call).unwrap();
    assert_eq!(item["kind"], "input", "{item}");
    item["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_call_that_asks_for_input_waits_over_a_kill_and_ends_with_an_answer_that_fits_its_schema() {
    let peer = HttpPeer::start();
    let mut site = site(&peer);
    let run = site.run("asking");
    let asked = site.awaits(&run, 2);
    let [by_2025, by_2026] = ["call-0-0", "call-0-1"].map(|call| await_of(&asked, call));

    site.kill();
    site.start();
    assert_eq!(site.awaits(&run, 2), asked);
    let wrong = [
        (&by_2025, r#"{"name": "Ann", "integer": 500}"#, "/integer: 500 is greater than the maximum of 100"),
        (&by_2026, r#"{"row": 99}"#, "/row: 99 is greater than the maximum of 30"),
    ];
    for (await_id, answer, problem) in wrong {
        let refused =
            Said { out: format!("{await_id} not accepted (invalid): {problem}\n"), err: String::new(), code: Some(5) };
        assert_eq!(site.said(&["runs", "answer", &run, await_id, answer]), refused);
    }
    assert_eq!(site.awaits(&run, 2), asked, "nothing changed");

    let right = [(&by_2025, r#"{"name": "Ann", "check": true, "integer": 7}"#), (&by_2026, r#"{"row": 9}"#)];
    for (await_id, answer) in right {
        assert_eq!(site.json(&["runs", "answer", &run, await_id, answer])["status"], "accepted");
    }
    site.completed(&run);
    // What was left out has the defaults of the form.
    let told = "✅ User provided the requested information!\n\
                User inputs:\n- Name: Ann\n- Agreed to terms: true\n- Favorite Integer: 7\n- Favorite Number: 3.14\n\n\
                Raw result: {\n  \"action\": \"accept\",\n  \"content\": {\n    \"check\": true,\n    \
                \"firstLine\": \"It was a dark and stormy night.\",\n    \"integer\": 7,\n    \
                \"legacyTitledEnum\": \"pet-1\",\n    \"name\": \"Ann\",\n    \"number\": 3.14,\n    \
                \"titledMultipleSelectEnum\": [\n      \"fish-1\"\n    ],\n    \"titledSingleSelectEnum\": \"hero-1\",\n    \
                \"untitledMultipleSelectEnum\": [\n      \"Guitar\"\n    ],\n    \"untitledSingleSelectEnum\": \"Monica\"\n  \
                }\n}";
    let booked = json!({"action": "accept", "content": {"row": 9}, "state": "guests=2", "guests": 2});
    let expected = [
        succeeded("call-0-0", "everything_trigger-elicitation-request", json!(told)),
        succeeded("call-0-1", "peer_book", booked),
    ];
    assert_eq!(site.results(&run), expected);
}

#[test]
fn a_tool_learns_that_a_person_declined_to_answer() {
    let peer = HttpPeer::start();
    let site = site(&peer);
    let run = site.run("asking");
    let asked = site.awaits(&run, 2);
    for call in ["call-0-0", "call-0-1"] {
        let denied = site.json(&["runs", "deny", &run, &await_of(&asked, call)]);
        assert_eq!(denied["status"], "accepted", "{denied}");
    }
    site.completed(&run);
    let told = "❌ User declined to provide the requested information.\n\nRaw result: {\n  \"action\": \"decline\"\n}";
    let not_booked = json!({"action": "decline", "content": null, "state": "guests=2", "guests": 2});
    let expected = [
        succeeded("call-0-0", "everything_trigger-elicitation-request", json!(told)),
        succeeded("call-0-1", "peer_book", not_booked),
    ];
    assert_eq!(site.results(&run), expected);
}
