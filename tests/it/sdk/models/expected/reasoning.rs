//! Reasoning levels.

use serde_json::{Map, Value, json};

use super::{Look, TIDE, text};

pub(super) const ASKED: &[(&str, Look)] =
    &[("anthropic", knob), ("openai", knob), ("chat", knob), ("gemini", knob), ("plain", knob)];

/// The model, the provider's knob and the key.
fn knob(request: &Value) -> Value {
    let fields = ["key", "model", "thinking", "output_config", "reasoning", "reasoning_effort"];
    let mut found: Map<String, Value> =
        fields.iter().filter_map(|name| Some(((*name).to_owned(), request.get(name)?.clone()))).collect();
    if let Some(config) = request.pointer("/generationConfig/thinkingConfig") {
        found.insert("thinkingConfig".to_owned(), config.clone());
    }
    found.into()
}

/// By level: the effort, the tokens for thinking, and whether thoughts are shown.
const LEVELS: [(&str, &str, u32); 7] = [
    ("off", "off", 0),
    ("low", "low", 512),
    ("medium", "medium", 3507),
    ("high", "high", 8000),
    ("0", "off", 0),
    ("40", "medium", 2009),
    ("100", "high", 10_995),
];

pub(super) fn levels() -> Value {
    let facts = |thought: &str, said: &str, has_knob: bool| {
        let by_level = LEVELS.map(|(level, effort, tokens)| {
            let thought = if tokens > 0 { thought } else { "" };
            let effort = has_knob.then_some(effort);
            (level.to_owned(), json!({"thought": thought, "said": said, "effort": effort}))
        });
        Value::Object(by_level.into_iter().collect())
    };
    let requests = |with: &dyn Fn(&str, u32) -> Value| LEVELS.map(|(_, effort, tokens)| with(effort, tokens));
    let both = |one: [Value; 7], other: [Value; 7]| json!(one.into_iter().chain(other).collect::<Vec<_>>());
    // A run of Gemini's has two turns.
    let twice = |requests: [Value; 7]| requests.map(|request| [request.clone(), request]).concat();
    let gemini = [twice(requests(&gemini_level)), twice(requests(&gemini_budget))].concat();

    let tables = "**Checking the tables**\n\nThe user asks about Hamburg, so I need its table.";
    let tide = "High tide in Hamburg is at 14:32.\nThe sign says \"Ebbe & Flut\" 🌊.";
    json!({
        "facts": {
            "anthropic:claude-sonnet-5-5": facts("Let me see.", "Done.", true),
            "anthropic:claude-sonnet-4-5": facts("Let me see.", "Done.", true),
            "openai:gpt-5.5": facts("Two and two.", "Four.", true),
            "chat:gpt-5.5": facts("Two and two.", "Four.", true),
            "plain:llama": facts("Two and two.", "Four.", false),
            "gemini:gemini-3-flash-preview": facts(tables, tide, true),
            "gemini:gemini-2.5-flash": facts(tables, tide, true),
        },
        "asked": {
            "anthropic": both(requests(&adaptive), requests(&extended)),
            "openai": requests(&|effort, _| {
                let effort = if effort == "off" { "none" } else { effort };
                json!({"key": "Bearer key-o", "model": "gpt-5.5", "reasoning": {"effort": effort, "summary": "auto"}})
            }),
            "chat": requests(&|effort, _| {
                let effort = if effort == "off" { "none" } else { effort };
                json!({"key": null, "model": "gpt-5.5", "reasoning_effort": effort})
            }),
            "plain": requests(&|_, _| json!({"key": null, "model": "llama"})),
            "gemini": gemini,
        },
    })
}

/// Claude from 4.6 on: an effort.
fn adaptive(effort: &str, _: u32) -> Value {
    let mut request = json!({"key": "key-a", "model": "claude-sonnet-5-5", "thinking": {"type": "disabled"}});
    if effort != "off" {
        request["thinking"] = json!({"type": "adaptive", "display": "summarized"});
        request["output_config"] = json!({"effort": effort});
    }
    request
}

/// Claude up to 4.5: a budget, of which the API wants 1024 at least.
fn extended(_: &str, tokens: u32) -> Value {
    let thinking = match tokens {
        0 => json!({"type": "disabled"}),
        tokens => json!({"type": "enabled", "budget_tokens": tokens.max(1024)}),
    };
    json!({"key": "key-a", "model": "claude-sonnet-4-5", "thinking": thinking})
}

/// Gemini from 3 on: a level. It cannot be told not to think.
fn gemini_level(effort: &str, _: u32) -> Value {
    let level = if effort == "off" { "MINIMAL".to_owned() } else { effort.to_uppercase() };
    json!({"key": "key-g", "thinkingConfig": {"thinkingLevel": level, "includeThoughts": true}})
}

fn gemini_budget(_: &str, tokens: u32) -> Value {
    let mut config = json!({"thinkingBudget": tokens});
    if tokens > 0 {
        config["includeThoughts"] = true.into();
    }
    json!({"key": "key-g", "thinkingConfig": config})
}

/// The thoughts and their signatures are part of the next request, in their places.
pub(super) fn goes_back() -> Value {
    let (oslo, bergen) = ("Oslo has -4 °C. Now Bergen.", "The other one.");
    let thought =
        |thinking: &str, signature: &str| json!({"type": "thinking", "thinking": thinking, "signature": signature});
    let call = "toolu_01Second00000000000000";
    let answer = json!([
        thought(oslo, "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+/="),
        text("Oslo has -4 °C."),
        thought(bergen, "ErUBCkYIBBgCIkDz7Qb1sJ3kqRk0ZMwMw2FYd0Y8Jw=="),
        {"type": "tool_use", "id": call, "name": "weather_get", "input": {"place": "Bergen"}, "caller": {"type": "direct"}},
    ]);
    let result = json!([{"type": "tool_result", "tool_use_id": call, "content": [text("-1 °C")]}]);
    let question = json!(["user", [text("Colder in Oslo or in Bergen?")]]);
    json!({
        "facts": {"called": [{"place": "Bergen"}], "thought": format!("{oslo}{bergen}"), "said": TIDE},
        "asked": {"thinker": [[question], [question, ["assistant", answer], ["user", result]]]},
    })
}
