//! The bodies of requests, as whole texts or objects.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::{agent::ModelParameters, message::Message};

use crate::{
    ErrorClass, ModelRequest, ModelSpec, ReasoningControl, StructuredOutputControl, ToolChoice, ToolDeclaration,
    fixtures, gemini::Gemini, wire::Wire as _,
};

pub(super) fn request(messages: Value) -> ModelRequest {
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    ModelRequest { provider: "gemini".into(), model: "gemini-3-flash-preview".into(), ..fixtures::request(messages) }
}

fn text(request: &ModelRequest) -> String {
    Gemini.request(request).unwrap().body
}

fn body(request: &ModelRequest) -> Value {
    serde_json::from_str(&text(request)).unwrap()
}

fn contents(messages: Value) -> Value {
    body(&request(messages))["contents"].clone()
}

fn tool(name: &str) -> ToolDeclaration {
    ToolDeclaration { name: name.into(), description: format!("{name}!"), input_schema: json!({"type": "object"}) }
}

#[test]
fn what_is_stable_comes_first_and_the_conversation_last() {
    let options = json!({
        "gemini": {
            "tools": [{"googleSearch": {}}],
            "generationConfig": {"seed": 7, "thinkingConfig": {"includeThoughts": false}},
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
            "contents": [],
            "model": "another",
        },
        "openai": {"seed": 1},
    });
    let parameters = ModelParameters {
        max_output_tokens: Some(9000),
        temperature: Some(0.5),
        top_p: Some(0.9),
        stop_sequences: vec!["END".into()],
        provider_options: serde_json::from_value(options).unwrap(),
    };
    let spec = ModelSpec { max_output_tokens: Some(4096), reasoning: ReasoningControl::Effort, ..ModelSpec::default() };
    let asked = ModelRequest {
        system: "Be brief.".into(),
        tools: [tool("b.two"), tool("a")].into(),
        tool_choice: ToolChoice::None,
        reasoning_level: Some(50),
        parameters,
        spec: Arc::new(spec),
        ..request(json!([
            {"role": "system", "parts": [{"kind": "text", "text": "Speak German."}]},
            {"role": "user", "parts": [{"kind": "text", "text": "Hi"}, {"kind": "cache_checkpoint"}]},
            {"role": "system", "parts": [{"kind": "text", "text": "It is late."}]},
        ]))
    };
    let expected = concat!(
        r#"{"tools":[{"functionDeclarations":["#,
        r#"{"description":"a!","name":"a","parametersJsonSchema":{"type":"object"}},"#,
        r#"{"description":"b.two!","name":"b_two","parametersJsonSchema":{"type":"object"}}]},{"googleSearch":{}}],"#,
        r#""systemInstruction":{"parts":[{"text":"Be brief."},{"text":"Speak German."}]},"#,
        r#""toolConfig":{"functionCallingConfig":{"mode":"NONE"}},"#,
        r#""generationConfig":{"maxOutputTokens":4096,"seed":7,"stopSequences":["END"],"temperature":0.5,"#,
        r#""thinkingConfig":{"includeThoughts":false,"thinkingLevel":"MEDIUM"},"topP":0.9},"#,
        r#""safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}],"#,
        r#""contents":[{"role":"user","parts":[{"text":"Hi"},{"text":"System: It is late."}]}]}"#,
    );
    assert_eq!(text(&asked), expected);
    let plain = ModelRequest { spec: Arc::new(ModelSpec { sampling: false, ..ModelSpec::default() }), ..asked };
    let config = &body(&plain)["generationConfig"];
    assert_eq!((&config["temperature"], &config["topP"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_request_with_nothing_special_has_the_conversation_only() {
    let asked = request(json!([{"role": "user", "parts": [{"kind": "text", "text": "Hi"}]}]));
    assert_eq!(text(&asked), r#"{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}"#);
}

#[test]
fn reasoning_is_asked_for_as_the_model_can() {
    use ReasoningControl::{Budget, Effort, None};
    let table = [
        ("gemini-3-flash-preview", Effort, 0, json!({"thinkingLevel": "MINIMAL", "includeThoughts": true})),
        ("gemini-3.1-pro-preview", Effort, 0, json!({"thinkingLevel": "LOW", "includeThoughts": true})),
        ("gemini-3-flash-preview", Effort, 20, json!({"thinkingLevel": "LOW", "includeThoughts": true})),
        ("gemini-3-flash-preview", Effort, 90, json!({"thinkingLevel": "HIGH", "includeThoughts": true})),
        ("gemini-2.5-flash", Budget, 0, json!({"thinkingBudget": 0})),
        ("gemini-2.5-pro", Budget, 0, json!({"thinkingBudget": 128, "includeThoughts": true})),
        ("gemini-2.5-flash", Budget, 1, json!({"thinkingBudget": 128, "includeThoughts": true})),
        ("gemini-2.5-flash-lite", Budget, 1, json!({"thinkingBudget": 512, "includeThoughts": true})),
        ("gemini-2.5-flash", Budget, 80, json!({"thinkingBudget": 8000, "includeThoughts": true})),
        ("gemini-2.0-flash", None, 80, Value::Null),
    ];
    for (model, reasoning, level, expected) in table {
        let spec = Arc::new(ModelSpec { reasoning, ..ModelSpec::default() });
        let asked = ModelRequest { model: model.into(), reasoning_level: Some(level), spec, ..request(json!([])) };
        assert_eq!(body(&asked)["generationConfig"]["thinkingConfig"], expected, "{model} {level}");
    }
}

#[test]
fn a_schema_beside_tools_is_a_tool_before_gemini_3() {
    let asking = |model: &str, tools: usize, control| ModelRequest {
        model: model.into(),
        tools: (0..tools).map(|_| tool("a")).collect(),
        output_schema: Some(serde_json::from_value(json!({"name": "report", "schema": {"type": "object"}})).unwrap()),
        spec: Arc::new(ModelSpec { structured_output: control, ..ModelSpec::default() }),
        ..request(json!([]))
    };
    let native = json!({"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}});
    let native_cases = [("gemini-3-flash-preview", 1), ("gemini-2.5-flash", 0), ("gemini-flash-latest", 1)];
    for (model, tools) in native_cases {
        let asked = body(&asking(model, tools, StructuredOutputControl::Native));
        assert_eq!(asked["generationConfig"], native, "{model}");
    }
    let fallback = body(&asking("gemini-2.5-flash", 1, StructuredOutputControl::Native));
    let names: Vec<&Value> =
        fallback["tools"][0]["functionDeclarations"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!((names, &fallback["generationConfig"]), (vec![&json!("a"), &json!("report")], &Value::Null));
    assert_eq!(fallback["toolConfig"], Value::Null);

    let forced = body(&asking("gemini-2.5-flash", 0, StructuredOutputControl::Tool));
    let config = json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["report"]}});
    assert_eq!(forced["toolConfig"], config);
}

#[test]
fn an_own_call_is_replayed_as_it_came_and_its_result_has_its_id_only_if_it_has_one() {
    let with_id =
        r#"{ "functionCall": {"name": "old_name", "args": {"n": 1.0}, "id": "x9"}, "thoughtSignature": "c2ln" }"#;
    let without = r#"{"functionCall": {"name": "a", "args": {}}}"#;
    let call = |id: &str, item: &str| json!({"kind": "tool_use", "id": id, "name": "a", "input": {}, "providerItem": {"provider": "gemini", "item": item}});
    let result = |id: &str, content: Value, error: bool| json!({"kind": "tool_result", "toolUseId": id, "content": content, "isError": error});
    let asked = request(json!([
        {"role": "assistant", "parts": [call("call-1-0", with_id), call("call-1-1", without)]},
        {"role": "user", "parts": [result("call-1-0", json!("done"), false), result("call-1-1", json!({"why": "no"}), true)]},
    ]));
    let expected = format!(
        r#"{{"contents":[{{"role":"model","parts":[{with_id},{without}]}},{{"role":"user","parts":[{},{}]}}]}}"#,
        r#"{"functionResponse":{"id":"x9","name":"old_name","response":{"output":"done"}}}"#,
        r#"{"functionResponse":{"name":"a","response":{"error":{"why":"no"}}}}"#,
    );
    assert_eq!(text(&asked), expected);
}

#[test]
fn parts_of_another_provider_are_written_in_geminis_form() {
    let item = json!({"provider": "anthropic", "item": "{\"type\":\"x\"}"});
    let parts = json!([
        {"kind": "thinking", "text": "hm", "signature": "s", "providerItem": item},
        {"kind": "citations", "text": "cited", "citations": [], "providerItem": item},
        {"kind": "provider_tool", "name": "web_search", "providerItem": item},
        {"kind": "hologram", "x": 1, "providerItem": item},
        {"kind": "text", "text": ""},
        {"kind": "tool_use", "id": "call-0-0", "name": "b.two", "input": {"n": 1}, "providerItem": item},
        {"kind": "tool_use", "id": "call-0-1", "name": "b.two", "input": "not json", "providerItem": item},
    ]);
    let results = json!([
        {"kind": "tool_result", "toolUseId": "call-0-0", "content": null, "isError": false},
        {"kind": "tool_result", "toolUseId": "call-0-1", "content": 5, "isError": false},
    ]);
    let messages = json!([{"role": "assistant", "parts": parts}, {"role": "user", "parts": results}]);
    let call = |id: &str, args: Value| json!({"functionCall": {"id": id, "name": "b_two", "args": args}});
    let mut first = call("call-0-0", json!({"n": 1}));
    first["thoughtSignature"] = json!("skip_thought_signature_validator");
    let answers = json!([
        {"functionResponse": {"id": "call-0-0", "name": "b_two", "response": {"output": null}}},
        {"functionResponse": {"id": "call-0-1", "name": "b_two", "response": {"output": 5}}},
    ]);
    let second = call("call-0-1", json!({"value": "not json"}));
    let expected = json!([
        {"role": "model", "parts": [{"text": "cited"}, first, second]},
        {"role": "user", "parts": answers},
    ]);
    assert_eq!(contents(messages.clone()), expected);
    let older = ModelRequest { model: "gemini-2.5-pro".into(), ..request(messages) };
    assert_eq!(body(&older)["contents"][0]["parts"][1], call("call-0-0", json!({"n": 1})));
}

#[test]
fn files_of_results_are_inside_them_from_gemini_3_on_and_after_them_before() {
    let messages = json!([
        {"role": "assistant", "parts": [{"kind": "tool_use", "id": "c", "name": "a", "input": {}}]},
        {"role": "user", "parts": [
            {"kind": "tool_result", "toolUseId": "c", "content": {"n": 1}, "isError": false, "parts": [
                {"kind": "text", "text": "seen"},
                {"kind": "image", "format": "png", "bytes": "AAEC"},
                {"kind": "document", "name": "r.pdf", "format": "pdf", "source": {"uri": "https://e.org/r"}, "cite": false},
            ]},
            {"kind": "text", "text": "Go on."},
        ]},
    ]);
    let files = json!([
        {"inlineData": {"mimeType": "image/png", "data": "AAEC"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://e.org/r"}},
    ]);
    let response = json!({"output": [{"n": 1}, "seen", "Document \"r.pdf\":"]});
    let whole = json!({"id": "c", "name": "a", "response": response, "parts": files});
    assert_eq!(contents(messages.clone())[1]["parts"], json!([{"functionResponse": whole}, {"text": "Go on."}]));

    let older = ModelRequest { model: "gemini-2.5-flash".into(), ..request(messages) };
    let bare = json!({"id": "c", "name": "a", "response": response});
    assert_eq!(
        body(&older)["contents"][1]["parts"],
        json!([{"functionResponse": bare}, files[0], files[1], {"text": "Go on."}])
    );
}

#[test]
fn documents_are_named_and_text_files_are_text() {
    let document = |format: &str, source: Value, context: Value| json!({"kind": "document", "name": "n.x", "format": format, "source": source, "context": context, "cite": true});
    let parts = json!([
        document("md", json!({"text": "# T"}), json!("Read it.")),
        document("txt", json!({"chunks": ["a", "b"]}), Value::Null),
        document("csv", json!({"bytes": "YSxi"}), Value::Null),
        document("docx", json!({"bytes": "UEs="}), Value::Null),
    ]);
    let expected = json!([
        {"text": "Document \"n.x\":\nRead it.\n# T"},
        {"text": "Document \"n.x\":\na\nb"},
        {"text": "Document \"n.x\":"},
        {"inlineData": {"mimeType": "text/plain", "data": "YSxi"}},
        {"text": "[The file \"n.x\" is here that this model cannot read.]"},
    ]);
    assert_eq!(contents(json!([{"role": "user", "parts": parts}]))[0]["parts"], expected);
}

#[test]
fn what_cannot_be_sent_is_refused_with_the_reason() {
    let blob = json!({"blob": {"digest": "0".repeat(64), "bytes": 9}});
    let cases = [
        (
            json!({"kind": "image", "format": "png", "source": blob}),
            "an image of the conversation is still a reference",
        ),
        (
            json!({"kind": "tool_result", "toolUseId": "c9", "content": 1, "isError": false}),
            "the conversation has a result of the call c9 but not the call itself",
        ),
    ];
    for (part, reason) in cases {
        let error = Gemini.request(&request(json!([{"role": "user", "parts": [part]}]))).unwrap_err();
        assert_eq!(error.class, ErrorClass::InvalidRequest);
        assert!(error.message.starts_with(reason), "{}", error.message);
    }
    for model in ["", "../x", "a/b", "models/", "a?key=1", "models/.."] {
        let asked = ModelRequest { model: model.into(), ..request(json!([])) };
        assert!(Gemini.request(&asked).is_err(), "{model}");
    }
    for (model, path) in [("models/gemini-3", "models/gemini-3"), ("tunedModels/mine-1", "tunedModels/mine-1")] {
        let asked = ModelRequest { model: model.into(), ..request(json!([])) };
        let expected = format!("v1beta/{path}:streamGenerateContent?alt=sse");
        assert_eq!(Gemini.request(&asked).unwrap().path, expected);
    }
}
