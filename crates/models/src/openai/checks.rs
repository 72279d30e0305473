//! What the tests of both formats check alike.

use std::{cell::Cell, sync::Arc};

use proptest::{prelude::*, test_runner::Config};
use serde_json::{Value, json};
use windlass_core::message::{Message, Role};

use super::conversations::{Facts, OwnItems, PROVIDER, assert_no_orphans, assert_prefix, conversation, turns};
use crate::{ModelRequest, ToolChoice, ToolDeclaration, cassette::Player, fixtures::request, wire::Wire};

/// One of the two formats.
pub(crate) trait Format: OwnItems {
    type Wire: Wire + Copy;
    const PLAYER: Player<Self::Wire>;

    /// What a body says, read by a parser that knows only the wire format.
    fn facts_of(&self, body: &str) -> Facts;

    /// The texts of the provider's own items that must be in the body.
    fn raw_texts(&self, messages: &[Message]) -> Vec<String>;

    /// Fails unless the body has these texts, as the format orders them.
    fn assert_sent(&self, body: &str, raw: &[String]);
}

pub(crate) const fn player<W>(wire: W, format: &'static str, line: &'static str) -> Player<W> {
    let key = ("authorization", "Bearer sk-test");
    Player { wire, format, provider: PROVIDER, model: "gpt-5.4", base: "/v1", line, key, results_apart: false }
}

/// A request that has something for every setting.
pub(crate) fn asking_with_everything(messages: Value) -> ModelRequest {
    let parameters = json!({"maxOutputTokens": 500, "temperature": 0.5, "topP": 1.0, "stopSequences": ["END"]});
    ModelRequest {
        system: "Be brief.".into(),
        tools: [tool("notes.add")].into(),
        tool_choice: ToolChoice::None,
        reasoning_level: Some(50),
        spec: Arc::new(serde_json::from_value(json!({"reasoning": "effort", "maxOutputTokens": 100})).unwrap()),
        parameters: serde_json::from_value(parameters).unwrap(),
        ..asking(messages)
    }
}

pub(crate) fn asking(messages: Value) -> ModelRequest {
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    ModelRequest { provider: PROVIDER.into(), model: "gpt-5.4".into(), ..request(messages) }
}

pub(crate) fn written(wire: &impl Wire, request: &ModelRequest) -> Value {
    serde_json::from_str(&wire.request(request).unwrap().body).unwrap()
}

pub(crate) fn own(item: &str) -> Value {
    json!({"provider": PROVIDER, "item": item})
}

pub(crate) fn tool(name: &str) -> ToolDeclaration {
    ToolDeclaration { name: name.into(), description: "d".into(), input_schema: json!({}) }
}

fn body_of(wire: &impl Wire, messages: &[Message]) -> String {
    wire.request(&ModelRequest { provider: PROVIDER.into(), ..request(messages.to_vec()) }).unwrap().body
}

/// For a schema that is strict and one that is not: whether it is, the schema, the body that asks for it natively, and the
/// body that asks for it by a tool.
pub(crate) fn bodies_with_a_schema(wire: &impl Wire) -> [(bool, Value, Value, Value); 2] {
    [true, false].map(|closed| {
        let mut schema = json!({"type": "object", "properties": {}});
        if closed {
            schema["additionalProperties"] = json!(false);
        }
        let output_schema = serde_json::from_value(json!({"name": "my report", "schema": schema})).unwrap();
        let asked = ModelRequest { output_schema: Some(output_schema), ..asking(json!([])) };
        let [native, by_tool] = ["native", "tool"].map(|control| {
            let spec = Arc::new(serde_json::from_value(json!({"structuredOutput": control})).unwrap());
            written(wire, &ModelRequest { spec, ..asked.clone() })
        });
        (closed, schema, native, by_tool)
    })
}

/// The body of a turn begins with the bytes of that of the turn before, and is the same for every attempt.
pub(crate) fn assert_bodies_are_stable(wire: &impl Wire, items: &impl OwnItems) {
    let compared = Cell::new(0);
    proptest!(Config::with_cases(1000), |(turns in turns())| {
        let made = conversation(&turns, items);
        let bodies: Vec<String> = made.asked_at.iter().map(|end| body_of(wire, &made.messages[..*end])).collect();
        for pair in bodies.windows(2) {
            assert_prefix(&pair[0], &pair[1]);
            compared.set(compared.get() + 1);
        }
    });
    println!("1000 conversations, {} pairs of bodies compared", compared.get());
    assert!(compared.get() > 1000);
    let first = request(vec![]);
    let again = ModelRequest { attempt: 7, call_index: 3, ..first.clone() };
    assert_eq!(wire.request(&first).unwrap().body, wire.request(&again).unwrap().body);
}

/// A conversation can be read back from its body, and the provider's own items are in it as they came.
pub(crate) fn assert_conversations_come_back<F: Format>(format: &F) {
    let (facts_compared, items) = (Cell::new(0), Cell::new(0));
    proptest!(Config::with_cases(1000), |(turns in turns())| {
        let made = conversation(&turns, format);
        let body = body_of(&F::PLAYER.wire, &made.messages);
        let facts = format.facts_of(&body);
        assert_no_orphans(&facts);
        prop_assert_eq!(&facts, &made.facts);
        prop_assert!(!body.contains("secret of another provider"));
        let raw = format.raw_texts(&made.messages);
        format.assert_sent(&body, &raw);
        items.set(items.get() + raw.len());
        facts_compared.set(facts_compared.get() + facts.calls.len() + facts.results.len() + facts.user.len());
    });
    println!("1000 conversations, {} facts compared, {} raw items unchanged", facts_compared.get(), items.get());
    assert!(facts_compared.get() > 1000 && items.get() > 1000);
}

/// The answer of every cassette can be sent back with results of its calls.
pub(crate) fn assert_answers_can_be_sent_back<F: Format>(format: &F) {
    let mut sent = 0;
    for cassette in F::PLAYER.cassettes() {
        let Ok(answer) = F::PLAYER.read(&cassette).1 else { continue };
        let next = F::PLAYER.next_request(&cassette, &answer);
        let body = F::PLAYER.wire.request(&next).unwrap().body;
        assert_no_orphans(&format.facts_of(&body));
        let raw = format.raw_texts(&[Message::new(Role::Assistant, answer.parts)]);
        format.assert_sent(&body, &raw);
        sent += raw.len();
    }
    println!("{sent} raw items sent back");
    assert!(sent > 20);
}
