use serde::Deserialize;
use serde_json::{Value, json};
use windlass_client::{Client, Error, EventBody, OutputSchema, RunError, RunFilter, RunSpec, Tokens, Tools};
use windlass_core::envelope::PolicyOverrides;

use super::{ask, client, events, options};
use crate::{
    api::rig::{Rig, WORKSPACE, desk},
    support::world::scripts,
};

fn answering() -> Value {
    let failing = |class: &str| json!({"turns": [{"text": "so far", "error": {"error": "no", "errorClass": class, "retryable": false, "apiStatus": 500, "apiCode": "internal"}}]});
    scripts([
        (
            "hello",
            json!({"turns": [{"deltas": ["Hel", "lo"], "usage": {"input_tokens": 10, "output_tokens": 3, "cache_read_tokens": 4}}]}),
        ),
        ("weather", json!({"turns": [{"text": "{\"city\": \"Bergen\", \"temp\": 7}"}]})),
        ("prose", json!({"turns": [{"text": "It rains."}]})),
        ("server", failing("server")),
        ("auth", failing("auth")),
        ("truncated", json!({"turns": [{"text": "{\"city", "stop": "max_tokens"}]})),
        ("echo", json!({"turns": [{"text": "{{system}} {{last_user}}"}], "repeat_last": true})),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_answers_and_says_what_it_cost() {
    let rig = Rig::new(answering()).await;
    let client = client(&rig);
    let outcome = client.run(&ask("hello").metadata("team", "core"), &Tools::new()).await.unwrap();
    let mut tokens = Tokens::default();
    (tokens.input_tokens, tokens.output_tokens, tokens.cached_tokens) = (10, 3, 4);
    assert_eq!((outcome.text.as_str(), outcome.tokens, outcome.turns), ("Hello", Some(tokens), Some(1)));
    assert_eq!(outcome.model.as_ref().unwrap().id, "script:hello");

    let said = events(&client, &outcome.run, 0).await.into_iter().filter_map(|event| match event.body {
        EventBody::AssistantDelta { text } => Some(text),
        _ => None,
    });
    assert_eq!(said.collect::<Vec<_>>(), ["Hel", "lo"]);
    let run = client.get(&outcome.run).await.unwrap();
    assert_eq!((run.status.as_str(), run.final_text.as_deref()), ("succeeded", Some("Hello")));
    let team = |name: &str| RunFilter { metadata: [("team".into(), name.into())].into(), ..RunFilter::default() };
    let ids = |page: windlass_client::RunPage| page.runs.into_iter().map(|run| run.id).collect::<Vec<_>>();
    assert_eq!(ids(client.list(&team("core")).await.unwrap()), [outcome.run]);
    assert_eq!(ids(client.list(&team("other")).await.unwrap()), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_has_its_error_class() {
    let rig = Rig::new(answering()).await;
    let client = client(&rig);
    let failure = async |script: &str| match client.run(&ask(script), &Tools::new()).await {
        Err(Error::Run(error)) => *error,
        other => panic!("{script}: {other:?}"),
    };
    let told = |error: RunError| {
        let RunError { error_class, finish_reason, partial_text, api_status, api_code, retryable, .. } = error;
        (error_class.unwrap(), finish_reason, partial_text, api_status, api_code, retryable)
    };
    let so_far = || Some("so far".to_owned());
    let internal = || Some("internal".to_owned());
    for class in ["server", "auth"] {
        let expected = (class.to_owned(), None, so_far(), Some(500), internal(), false);
        assert_eq!(told(failure(class).await), expected);
    }
    assert_eq!(
        told(failure("truncated").await),
        ("truncation".into(), Some("max_tokens".into()), Some("{\"city".into()), None, None, false)
    );
}

#[derive(Debug, PartialEq, Deserialize)]
struct Weather {
    city: String,
    temp: i32,
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_a_schema_is_read_into_a_type() {
    let rig = Rig::new(answering()).await;
    let client = client(&rig);
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let weather = ask("weather").output_schema(OutputSchema::strict(schema.clone()));
    let outcome = client.run(&weather, &Tools::new()).await.unwrap();
    assert_eq!(outcome.parse::<Weather>().unwrap(), Weather { city: "Bergen".into(), temp: 7 });
    let lenient = ask("prose").output_schema(OutputSchema::best_effort(schema.clone()));
    let outcome = client.run(&lenient, &Tools::new()).await.unwrap();
    assert!(matches!(outcome.parse::<Weather>(), Err(Error::Answer { .. })));
    let strict = ask("prose").output_schema(OutputSchema::strict(schema));
    assert!(matches!(client.run(&strict, &Tools::new()).await, Err(Error::Run(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_with_an_id_may_be_repeated() {
    let rig = Rig::new(answering()).await;
    let client = client(&rig);
    let spec = ask("hello").run_id("run-mine");
    assert_eq!(client.run(&spec, &Tools::new()).await.unwrap().text, "Hello");
    assert_eq!(client.start(&spec, &Tools::new()).await.unwrap(), "test~run-mine".into());
    let other = ask("echo").run_id("run-mine");
    let Err(Error::Refused(refusal)) = client.start(&other, &Tools::new()).await else { panic!("it is refused") };
    assert_eq!((refusal.status, refusal.code.as_str()), (409, "run_exists"));
    assert_eq!(client.attach(&"run-mine".into(), &Tools::new(), |_| {}).await.unwrap().text, "Hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_may_send_a_whole_definition() {
    let rig = Rig::new(answering()).await;
    let client = client(&rig);
    let definition = json!({"id": "desk", "model": "script:echo", "systemPrompt": "I am the desk."});
    let mut spec = RunSpec::new("Hello");
    spec.definition = Some(Box::new(serde_json::from_value(definition).unwrap()));
    (spec.session_id, spec.labels) = (Some("standup".into()), [("team".to_owned(), "core".to_owned())].into());
    let outcome = client.run(&spec, &Tools::new()).await.unwrap();
    assert_eq!(outcome.text, "I am the desk. Hello");
    let row = rig.store().run(&outcome.run).await.unwrap().unwrap();
    assert_eq!((row.agent_id.as_str(), row.labels), ("desk", spec.labels));
    assert_eq!(client.session(&"standup".into()).await.unwrap().messages.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_key_may_start_only_its_agents() {
    let rig = Rig::with(answering(), |options| options.agents.push(desk())).await;
    let key = rig.key(WORKSPACE, &["*"], Some(vec!["desk".into()])).await;
    let client = Client::new(options(rig.address, key.reveal())).unwrap();
    let named = RunSpec::new("Hello").agent("desk");
    assert_eq!(client.run(&named, &Tools::new()).await.unwrap().text, "You are the desk. Hello");
    let mut own = RunSpec::new("Hello");
    own.definition = Some(Box::new(desk()));
    let other_model = named.clone().model("script:echo");
    for spec in [own, other_model] {
        let Err(Error::Refused(refusal)) = client.start(&spec, &Tools::new()).await else { panic!("{spec:?}") };
        assert_eq!((refusal.status, refusal.code.as_str()), (403, "agent_not_allowed"));
    }
    let mut limited = named;
    limited.policy = Some(PolicyOverrides { max_tool_calls: Some(1000), ..PolicyOverrides::default() });
    client.run(&limited, &Tools::new()).await.unwrap();
}
