//! How scripts are played.

use std::io::Write;

use serde_json::{Value, json};
use windlass_core::{
    agent::ModelParameters,
    body::Body,
    envelope::{AwaitRequest, Question, QuestionOption, TokenUsage, ToolRequest},
    event::EnforcementMechanism,
    ids::CallId,
    message::{Content, Message, Part, Role, plain_text},
    stop::StopReason,
    time::Millis,
};

use super::{ScriptErrorKind, ScriptModel};
use crate::fixtures::{Closed, Recorder, request};
use crate::{Delta, DeltaKind, ErrorClass, Model, ModelError, ModelRequest, ModelResponse, ToolChoice};

fn script(script: &Value) -> ScriptModel {
    ScriptModel::from_json(&json!({"s": script}).to_string()).unwrap()
}

async fn play(model: &ScriptModel, request: ModelRequest) -> Result<ModelResponse, ModelError> {
    model.respond(request, &mut Recorder::new()).await
}

async fn play_turn(turn: Value) -> ModelResponse {
    play(&script(&json!({"turns": [turn]})), request(vec![])).await.unwrap()
}

fn text(response: &ModelResponse) -> String {
    plain_text(&response.parts)
}

fn thinking(text: &str) -> Part {
    Content::Thinking { text: text.to_owned(), signature: None, redacted: None }.into()
}

/// A call as a script asks for it; the run gives it its id.
fn tool_use(name: &str, input: Value) -> Part {
    Part::tool_use(CallId::default(), name.into(), input.into())
}

fn calls(response: &ModelResponse) -> Vec<String> {
    let name = |part: &Part| match &part.content {
        Content::ToolUse { name, .. } => Some(name.to_string()),
        _ => None,
    };
    response.parts.iter().filter_map(name).collect()
}

fn tool_result(id: &str, content: Value, is_error: bool) -> Part {
    Content::ToolResult { tool_use_id: id.into(), content: content.into(), parts: Vec::new(), is_error }.into()
}

fn delta(part: u32, kind: DeltaKind) -> Delta {
    Delta { part, kind }
}

fn call(index: u32, messages: Vec<Message>) -> ModelRequest {
    ModelRequest { call_index: index, ..request(messages) }
}

#[tokio::test]
async fn a_turn_becomes_a_whole_answer() {
    let model = script(&json!({"turns": [{}, {
        "text": "Hello {{last_user}}",
        "thinking": "hmm",
        "response_id": "resp_1",
        "tool_calls": [{"name": "clock"}, {"name": "notes.add", "args": {"key": "k"}}],
        "usage": {"inputTokens": 10, "outputTokens": 4, "reasoningTokens": 3, "cacheReadTokens": 2, "cacheWriteTokens": 1},
    }]}));
    let mut sink = Recorder::new();
    let request = ModelRequest { reasoning_level: Some(50), ..call(1, vec![Message::user("Ada")]) };
    let response = model.respond(request, &mut sink).await.unwrap();
    assert_eq!(
        response,
        ModelResponse {
            parts: vec![
                thinking("hmm"),
                Part::text("Hello Ada"),
                tool_use("clock", json!({})),
                tool_use("notes.add", json!({"key": "k"})),
            ],
            awaits: vec![],
            stop: StopReason::ToolUse,
            response_id: Some("resp_1".into()),
            usage: TokenUsage {
                model: Some("script:s".into()),
                input_tokens: 10,
                output_tokens: 4,
                total_tokens: 14,
                cache_read_tokens: 2,
                cache_write_tokens: 1,
                reasoning_tokens: 3,
                cost_usd: None,
            },
            enforced: EnforcementMechanism::None,
        }
    );
    let deltas: Vec<Delta> = sink.deltas.into_iter().map(|(_, delta)| delta).collect();
    assert_eq!(
        deltas,
        [
            delta(0, DeltaKind::Thinking("hmm".into())),
            delta(1, DeltaKind::Text("Hello Ada".into())),
            delta(2, DeltaKind::CallStarted { name: "clock".into() }),
            delta(2, DeltaKind::CallArguments("{}".into())),
            delta(2, DeltaKind::CallDone),
            delta(3, DeltaKind::CallStarted { name: "notes.add".into() }),
            delta(3, DeltaKind::CallArguments(r#"{"key":"k"}"#.into())),
            delta(3, DeltaKind::CallDone),
        ]
    );
}

#[tokio::test]
async fn parts_are_played_in_their_order_with_what_the_provider_sent() {
    let parts = json!([
        {"kind": "thinking", "text": "first", "signature": "s1"},
        {"kind": "text", "text": "Hello {{last_user}}. "},
        {"kind": "tool_use", "id": "toolu_1", "name": "clock", "input": {}, "providerItem": {"provider": "p", "item": "{ \"raw\": 1 }"}},
        {"kind": "thinking", "redacted": "AAEC"},
        {"kind": "provider_tool", "name": "web_search", "output": [1]},
        {"kind": "hologram", "beam": 3},
        {"kind": "text", "text": "Bye."},
    ]);
    let model = script(&json!({"turns": [{"parts": parts.clone(), "stop": "pause_turn"}]}));
    let mut sink = Recorder::new();
    let request = ModelRequest { reasoning_level: Some(50), ..request(vec![Message::user("Ada")]) };
    let response = model.respond(request, &mut sink).await.unwrap();
    let mut expected = parts;
    expected[1]["text"] = json!("Hello Ada. ");
    assert_eq!(serde_json::to_value(&response.parts).unwrap(), expected);
    assert_eq!(response.stop, StopReason::PauseTurn);
    let streamed: Vec<u32> = sink.deltas.iter().map(|(_, delta)| delta.part).collect();
    assert_eq!(streamed, [0, 1, 2, 2, 2, 3, 4, 6]);
}

#[tokio::test]
async fn a_turn_that_needs_credentials_fails_without_them() {
    let model = script(&json!({"turns": [{"text": "hi", "needs_credentials": true}]}));
    assert_eq!(play(&model, request(vec![])).await.unwrap_err().class, ErrorClass::Auth);
    let with = ModelRequest { credentials: Some("sk-1".into()), ..request(vec![]) };
    assert_eq!(text(&play(&model, with).await.unwrap()), "hi");
}

#[tokio::test]
async fn the_output_limit_of_a_request_cuts_the_answer() {
    let model = script(&json!({"turns": [{"text": "abcdefgh", "tool_calls": [{"name": "clock"}]}]}));
    let parameters = ModelParameters { max_output_tokens: Some(1), ..ModelParameters::default() };
    let response = play(&model, ModelRequest { parameters, ..request(vec![]) }).await.unwrap();
    assert_eq!((response.parts, response.stop), (vec![Part::text("abcd")], StopReason::MaxTokens));
}

#[tokio::test]
async fn awaits_get_the_digests_their_author_left_out() {
    let response = play_turn(json!({
        "tool_calls": [{"name": "clock"}],
        "await": [
            {"kind": "external_tools", "calls": [{"name": "pay", "args": {"eur": 5}}, {"name": "ship"}], "expires_in_ms": 60000},
            {"kind": "questions", "tool_name": "survey", "title": "T", "questions": [
                {"id": "q", "prompt": "Which?", "options": [{"id": "a", "label": "A"}], "allow_multiple": true},
            ]},
            {"kind": "clarification", "question": "Where to?"},
        ],
    }))
    .await;
    let external =
        |name: &str, args: Value| ToolRequest::new(CallId::default(), name.into(), &Body::Inline(args.into()));
    let question = Question {
        id: "q".into(),
        prompt: "Which?".into(),
        options: vec![QuestionOption { id: "a".into(), label: "A".into() }],
        allow_multiple: true,
    };
    assert_eq!(calls(&response), ["clock"]);
    assert_eq!(
        response.awaits,
        vec![
            AwaitRequest::ExternalTools {
                calls: vec![external("pay", json!({"eur": 5})), external("ship", json!({}))],
                expires_in_ms: Some(Millis(60000)),
                on_expiry: None,
            },
            AwaitRequest::Questions {
                tool_call_id: CallId::default(),
                tool_name: "survey".into(),
                title: Some("T".into()),
                questions: vec![question],
                expires_in_ms: None,
                on_expiry: None,
            },
            AwaitRequest::Clarification {
                question: "Where to?".into(),
                missing_fields: vec![],
                restrict_to_tool: None,
                example_input: None,
                clarifying_prompt: None,
                default_answer: None,
                expires_in_ms: None,
                on_expiry: None,
            },
        ]
    );
}

#[tokio::test]
async fn a_turn_stops_for_the_reason_it_gives_or_the_obvious_one() {
    let clarification = json!({"kind": "clarification", "question": "?"});
    let external = json!({"kind": "external_tools", "calls": [{"name": "pay"}]});
    assert_eq!(play_turn(json!({"text": "hi"})).await.stop.as_str(), "end_turn");
    assert_eq!(play_turn(json!({"tool_calls": [{"name": "clock"}]})).await.stop.as_str(), "tool_use");
    assert_eq!(play_turn(json!({"await": clarification})).await.stop.as_str(), "end_turn");
    assert_eq!(play_turn(json!({"await": external})).await.stop.as_str(), "tool_use");
    assert_eq!(play_turn(json!({"text": "hi", "stop": "max_tokens"})).await.stop.as_str(), "max_tokens");
}

#[tokio::test]
async fn the_call_index_picks_the_turn_and_the_end_is_an_error_unless_it_repeats() {
    let ending = script(&json!({"turns": [{"text": "a"}, {"text": "b"}]}));
    assert_eq!(text(&play(&ending, call(1, vec![])).await.unwrap()), "b");
    assert_eq!(
        play(&ending, call(2, vec![])).await.unwrap_err(),
        ModelError::invalid_request("script `s` has no turn 2: it ends after 2; add a turn or set `repeat_last`")
    );

    let endless = script(&json!({"turns": [{"text": "a"}, {"text": "b"}], "repeat_last": true}));
    assert_eq!(text(&play(&endless, call(700, vec![])).await.unwrap()), "b");
    let empty = script(&json!({"turns": [], "repeat_last": true}));
    assert_eq!(play(&empty, call(0, vec![])).await.unwrap_err().class, ErrorClass::InvalidRequest);
}

#[tokio::test]
async fn a_script_that_does_not_exist_names_those_that_do() {
    let missing = ModelRequest { model: "nope".into(), ..request(vec![]) };
    assert_eq!(
        play(&script(&json!({"turns": []})), missing).await.unwrap_err(),
        ModelError::invalid_request("there is no script `nope`; there are: s")
    );
}

#[tokio::test]
async fn without_tools_the_script_finalizes() {
    let last = || ModelRequest { tool_choice: ToolChoice::None, ..call(9, vec![Message::user("go")]) };
    let own = script(&json!({"turns": [{"tool_calls": [{"name": "clock"}]}], "finalize": "Enough of {{last_user}}."}));
    assert_eq!(
        play(&own, last()).await.unwrap(),
        ModelResponse {
            parts: vec![Part::text("Enough of go.")],
            awaits: vec![],
            stop: StopReason::EndTurn,
            response_id: None,
            usage: TokenUsage {
                model: Some("script:s".into()),
                input_tokens: 1,
                output_tokens: 4,
                total_tokens: 5,
                ..TokenUsage::default()
            },
            enforced: EnforcementMechanism::None,
        }
    );
    assert_eq!(text(&play(&script(&json!({"turns": []})), last()).await.unwrap()), "Stopped.");
}

#[tokio::test]
async fn usage_is_estimated_from_what_was_read_and_written() {
    let model = script(
        &json!({"turns": [{"deltas": ["12", "345"], "thinking": "678", "tool_calls": [{"name": "t", "args": [1]}]}]}),
    );
    let conversation = vec![
        Message::user("äöü"),
        Message::new(Role::Assistant, vec![Part::tool_use("a".into(), "t".into(), json!({"a": 1}).into())]),
        Message::new(Role::User, vec![tool_result("a", json!("ok"), false)]),
    ];
    let request = ModelRequest { system: "Be.".into(), reasoning_level: Some(50), ..request(conversation) };
    // Read: `Be.` `äöü` `{"a":1}` `"ok"`; written: `678` `12345` `[1]`.
    assert_eq!(
        play(&model, request).await.unwrap().usage,
        TokenUsage {
            model: Some("script:s".into()),
            input_tokens: 5,
            output_tokens: 3,
            total_tokens: 8,
            ..TokenUsage::default()
        }
    );
}

#[tokio::test]
async fn a_failing_turn_fails_as_often_as_it_says_and_then_answers() {
    let failure = json!({"error": "busy", "errorClass": "overloaded", "apiStatus": 529, "apiCode": "overloaded_error", "times": 2});
    let model = script(&json!({"turns": [{"text": "at last", "error": failure}]}));
    let attempt = |attempt| ModelRequest { attempt, ..request(vec![]) };
    let busy = ModelError::new(ErrorClass::Overloaded, "busy").with_api_status(529).with_api_code("overloaded_error");
    assert_eq!(play(&model, attempt(1)).await.unwrap_err(), busy);
    assert_eq!(play(&model, attempt(2)).await.unwrap_err(), busy);
    assert_eq!(text(&play(&model, attempt(3)).await.unwrap()), "at last");
}

#[tokio::test]
async fn a_failure_without_a_count_is_final_and_may_overrule_its_class() {
    let model = |retryable: bool, class: &str| {
        script(&json!({"turns": [{"error": {"error": "no", "errorClass": class, "retryable": retryable}}]}))
    };
    let attempt = ModelRequest { attempt: 50, ..request(vec![]) };
    let error = play(&model(true, "auth"), attempt.clone()).await.unwrap_err();
    assert_eq!(error, ModelError::new(ErrorClass::Auth, "no").with_retryable(true));
    let error = play(&model(false, "server"), attempt).await.unwrap_err();
    assert_eq!(error, ModelError::new(ErrorClass::Server, "no").with_retryable(false));
}

#[tokio::test]
async fn a_turn_that_never_answers_breaks_off_after_its_text() {
    let failure = json!({"error": "gone", "errorClass": "upstream_deadline", "apiStatus": 504});
    let model = script(&json!({"turns": [{"thinking": "hm", "deltas": ["half ", "{{last_user}}"], "error": failure}]}));
    let mut sink = Recorder::new();
    let request = ModelRequest { reasoning_level: Some(50), ..request(vec![Message::user("way")]) };
    let error = model.respond(request, &mut sink).await.unwrap_err();
    assert_eq!(error, ModelError::new(ErrorClass::UpstreamDeadline, "gone").with_api_status(504));
    let deltas: Vec<Delta> = sink.deltas.into_iter().map(|(_, delta)| delta).collect();
    assert_eq!(
        deltas,
        [
            delta(0, DeltaKind::Thinking("hm".into())),
            delta(1, DeltaKind::Text("half ".into())),
            delta(1, DeltaKind::Text("way".into())),
        ]
    );
}

#[tokio::test]
async fn a_model_thinks_only_above_reasoning_level_0() {
    let model = script(&json!({"turns": [{"thinking": "hm", "text": "hi"}]}));
    for (level, thinks) in [(None, false), (Some(1), true), (Some(0), false)] {
        let mut sink = Recorder::new();
        let request = ModelRequest { reasoning_level: level, ..request(vec![]) };
        let response = model.respond(request, &mut sink).await.unwrap();
        assert_eq!((response.parts.len() == 2, sink.deltas.len()), (thinks, if thinks { 2 } else { 1 }), "{level:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_takes_the_time_it_says() {
    let model = script(&json!({"turns": [{"deltas": ["a", "b", "c"], "delay_ms": 5000, "delta_delay_ms": 300}]}));
    let mut sink = Recorder::new();
    let response = model.respond(request(vec![]), &mut sink).await.unwrap();
    assert_eq!(text(&response), "abc");
    let piece = |at, text: &str| (at, delta(0, DeltaKind::Text(text.into())));
    assert_eq!(sink.deltas, [piece(5000, "a"), piece(5300, "b"), piece(5600, "c")]);
}

#[tokio::test]
async fn cancelling_ends_the_wait_for_the_first_word() {
    let model = script(&json!({"turns": [{"text": "never", "delay_ms": 86_400_000}]}));
    let request = request(vec![]);
    let cancel = request.cancel.clone();
    let mut sink = Recorder::new();
    let (answer, ()) = tokio::join!(model.respond(request, &mut sink), async { cancel.cancel() });
    assert_eq!(answer.unwrap_err(), ModelError::cancelled());
    assert_eq!(sink.deltas, []);
}

#[tokio::test]
async fn cancelling_ends_a_stream_between_two_deltas() {
    for delta_delay_ms in [0, 86_400_000] {
        let model = script(&json!({"turns": [{"deltas": ["a", "b", "c"], "delta_delay_ms": delta_delay_ms}]}));
        let request = request(vec![]);
        let mut sink = Recorder::new();
        sink.cancel_after = Some((1, request.cancel.clone()));
        assert_eq!(model.respond(request, &mut sink).await.unwrap_err(), ModelError::cancelled());
        assert_eq!(sink.deltas.len(), 1);
    }
}

#[tokio::test]
async fn a_sink_that_fails_ends_the_call() {
    let model = script(&json!({"turns": [{"text": "hi"}]}));
    let error = model.respond(request(vec![]), &mut Closed).await.unwrap_err();
    assert_eq!(error, ModelError::new(ErrorClass::Server, "the log is closed"));
}

#[tokio::test]
async fn scripts_are_read_from_a_file() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(br#"{"s": {"turns": [{"text": "from a file"}]}}"#).unwrap();
    let model = ScriptModel::from_file(file.path()).unwrap();
    assert_eq!(text(&play(&model, request(vec![])).await.unwrap()), "from a file");

    let gone = file.path().with_extension("gone");
    assert_eq!(ScriptModel::from_file(&gone).unwrap_err().kind, ScriptErrorKind::Unreadable);
}

mod demos {
    //! The built-in scripts tell the stories they promise.

    use super::*;

    fn ask(name: &str, index: u32, messages: Vec<Message>) -> ModelRequest {
        ModelRequest { model: name.into(), ..call(index, messages) }
    }

    fn result(id: &str, content: &str) -> Message {
        Message::new(Role::User, vec![tool_result(id, json!(content), false)])
    }

    #[tokio::test]
    async fn echo_repeats_the_user_forever() {
        let model = ScriptModel::demos().unwrap();
        let answer = play(&model, ask("echo", 4, vec![Message::user("hello")])).await.unwrap();
        assert_eq!((text(&answer).as_str(), answer.usage.model.as_deref()), ("You said: hello", Some("script:echo")));
    }

    #[tokio::test]
    async fn tools_reads_the_clock_and_reports() {
        let model = ScriptModel::demos().unwrap();
        let first = play(&model, ask("tools", 0, vec![])).await.unwrap();
        assert_eq!(calls(&first), ["clock"]);
        let second = play(&model, ask("tools", 1, vec![result("call_0_0", "noon")])).await.unwrap();
        assert_eq!((text(&second).as_str(), second.stop.as_str()), ("The clock says: noon", "end_turn"));
    }

    #[tokio::test(start_paused = true)]
    async fn demo_looks_asks_writes_consults_and_reports() {
        let model = ScriptModel::demos().unwrap();
        let mut story = Vec::new();
        for index in 0..5 {
            let messages = vec![Message::user("the team"), result("call_0_0", "a"), result("call_0_1", "b")];
            let answer = play(&model, ask("demo", index, messages)).await.unwrap();
            story.push((calls(&answer).join(" "), answer.awaits.len(), answer.stop.to_string(), text(&answer)));
        }
        let step =
            |calls: &str, awaits, stop: &str, text: &str| (calls.to_owned(), awaits, stop.to_owned(), text.to_owned());
        assert_eq!(
            story,
            [
                step("notes.search clock", 0, "tool_use", "Let me see what I know already and what time it is."),
                step("", 1, "end_turn", "One thing only you can tell me."),
                step(
                    "notes.add",
                    0,
                    "tool_use",
                    "So it is for: the team. I will keep that as a note, if you approve it."
                ),
                step("reviewer", 0, "tool_use", "A second pair of eyes cannot hurt."),
                step("", 0, "end_turn", "Done: the note is kept, and a second agent has read it. It said: b"),
            ]
        );
        assert_eq!(model.names().collect::<Vec<_>>(), ["demo", "echo", "reviewer", "tools"]);
    }

    #[tokio::test(start_paused = true)]
    async fn demo_claims_nothing_that_was_denied() {
        let model = ScriptModel::demos().unwrap();
        let refusal = json!({"error": "not executed: ann denied it: not on a Friday", "kind": "denied"});
        let denied = tool_result("call_2_0", refusal, true);
        let answer = play(&model, ask("demo", 3, vec![Message::new(Role::User, vec![denied])])).await.unwrap();
        assert_eq!((calls(&answer).len(), answer.stop.as_str()), (0, "end_turn"));
        let told = r#"ERROR: {"error":"not executed: ann denied it: not on a Friday","kind":"denied"}"#;
        assert_eq!(text(&answer), format!("The note is not kept, and nothing else was done. I was told: {told}"));
    }
}

#[tokio::test]
async fn scripts_stand_beside_others_and_win_where_they_have_the_same_name() {
    let others = ScriptModel::from_json(r#"{"a": {"turns": []}, "s": {"turns": [{"text": "theirs"}]}}"#).unwrap();
    let both = script(&json!({"turns": [{"text": "ours"}]})).beside(others);
    assert_eq!(both.names().collect::<Vec<_>>(), ["a", "s"]);
    assert_eq!(text(&play(&both, request(vec![])).await.unwrap()), "ours");
}
