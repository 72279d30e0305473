//! Secrets of a run: used by the activity that needs them, and found nowhere else.

use serde_json::json;
use temporalio_client::UntypedWorkflow;
use windlass_core::{ids::RunId, secret::SecretRef};

use crate::support::{World, agent, block_on, calls, says, script, world::scripts};

#[test]
fn credentials_reach_the_model_and_a_missing_one_fails_the_run_as_auth() {
    block_on(async {
        let turns = [json!({"text": "answered", "needs_credentials": true})];
        let world = World::new(scripts([("private", script(&turns))])).await;
        let mut agent = agent("private", json!([]));
        agent.credentials = Some(SecretRef::Secret("model.key".to_owned()));
        let run = world.start(agent.clone(), "go").await;
        let failure = world.result(&run).await.unwrap_err().to_string();
        assert!(failure.contains("STO0024") && failure.contains("model.key"), "{failure}");

        world.set_secret("model.key", "sk-1").await;
        let (_, output) = world.answer_of(agent, "go").await;
        assert_eq!(output.final_message.unwrap().plain_text(), "answered");
    });
}

/// Random secrets, planted in every field of a run that can hold one, are searched for in everything that a run leaves:
/// its history, its events, its rows and blobs (the files of the store), and the texts of its failures.
#[test]
fn planted_secrets_are_found_nowhere() {
    block_on(async {
        let turns =
            [json!({"tool_calls": [{"name": "report"}], "needs_credentials": true}), says("{{last_tool_result}}")];
        let fails = calls(&[("report", json!({"pages": 2}))]);
        let world =
            World::new(scripts([("uses", script(&turns)), ("lacks", script(&[fails, says("{{last_tool_result}}")]))]))
                .await;
        let (mut planted, mut searched) = (Vec::new(), 0_usize);
        for round in 0..24 {
            let secret = |place: &str| format!("wl-{place}-{}", uuid::Uuid::new_v4().simple());
            let (model, tool) = (secret("model"), secret("tool"));
            world.set_secret("model.key", &model).await;
            world.set_secret("report.key", &tool).await;
            // A variable that does not exist is named; one that exists is used and not shown.
            let (reference, tools) = (SecretRef::Secret("model.key".to_owned()), json!([{"name": "report"}]));
            let mut uses = agent("uses", tools.clone());
            uses.credentials = Some(reference);
            let mut lacks = agent("lacks", tools);
            lacks.credentials = (round % 2 == 0).then(|| SecretRef::Env("WINDLASS_IT_NO_SUCH_VARIABLE".to_owned()));
            for agent in [uses, lacks] {
                let run = world.start(agent, "go").await;
                let ended = world.result(&run).await;
                let mut texts = left_behind(&world, &run).await;
                texts.push(format!("{ended:?}"));
                for secret in planted.iter().chain([&model, &tool]) {
                    for text in &texts {
                        assert!(!text.contains(secret), "a secret was found: {text}");
                        searched += 1;
                    }
                }
            }
            planted.extend([model, tool]);
        }
        let mut files = 0;
        for file in std::fs::read_dir(world.directory()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            files += 1;
            for secret in &planted {
                for spelling in spellings(secret) {
                    assert!(!contains(&bytes, &spelling), "a secret was found in a file of the store");
                    searched += 1;
                }
            }
            // The search finds what is there.
            if bytes.len() > 1_000_000 {
                assert!(contains(&bytes, b"keyLength"), "the canary");
            }
        }
        println!(
            "secrets: {} planted, {searched} searches in histories, events, results and {files} files: none found",
            planted.len()
        );
    });
}

async fn left_behind(world: &World, run: &RunId) -> Vec<String> {
    let handle = world.ops.client().get_workflow_handle::<UntypedWorkflow>(run.to_string());
    let history = handle.fetch_history(Default::default()).to_json().await.unwrap();
    let history = String::from_utf8(history).unwrap();
    // Payloads are base64 inside a history.
    let decoded = decoded_payloads(&history);
    let events = format!("{:?}", world.bodies(run).await);
    let transcript = format!("{:?}", world.transcript(run).await);
    let row = format!("{:?}", world.ops.store().run(run).await.unwrap());
    vec![history, decoded, events, transcript, row]
}

fn decoded_payloads(history: &str) -> String {
    use base64::{Engine as _, prelude::BASE64_STANDARD};

    let history: serde_json::Value = serde_json::from_str(history).unwrap();
    let mut texts = Vec::new();
    let mut open = vec![&history];
    while let Some(value) = open.pop() {
        match value {
            serde_json::Value::String(text) => {
                let decoded = BASE64_STANDARD.decode(text).unwrap_or_default();
                texts.push(String::from_utf8_lossy(&decoded).into_owned());
            }
            serde_json::Value::Array(items) => open.extend(items),
            serde_json::Value::Object(fields) => open.extend(fields.values()),
            _ => {}
        }
    }
    texts.join("\n")
}

/// The ways in which a text may stand in a file.
fn spellings(secret: &str) -> Vec<Vec<u8>> {
    use base64::{Engine as _, prelude::BASE64_STANDARD};

    vec![
        secret.into(),
        secret.bytes().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        BASE64_STANDARD.encode(secret).trim_end_matches('=').into(),
    ]
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
