use serde_json::Value;
use windlass_core::message::{Content, Message};

use super::{super::*, PLAYER};
use crate::{
    cassette::Player,
    openai::{
        checks::{Format, assert_answers_can_be_sent_back, assert_bodies_are_stable, assert_conversations_come_back},
        conversations::{Facts, OwnItems, assert_in_order, own_items_of},
    },
    wire::{Fields, quoted},
};

/// All texts of an answer are contents of one message, even if other items came between them.
struct ResponsesItems;

impl OwnItems for ResponsesItems {
    fn texts(&self, number: usize, texts: &[String]) -> Vec<String> {
        let content = |text: &String| format!("{{\"type\":\"output_text\", \"text\":{},\"x\":1.50}}", quoted(text));
        let contents: Vec<String> = texts.iter().map(content).collect();
        let item = format!(
            "{{ \"id\":\"msg_{number}\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[{}]}}",
            contents.join(" , ")
        );
        let fields = Fields::parse(&item).unwrap();
        let mark = |index: usize| if index == 0 { item.clone() } else { continuation::of_item(&fields, index) };
        (0..texts.len()).map(mark).collect()
    }

    fn thinking(&self, number: usize, text: &str) -> String {
        let text = quoted(text);
        format!(
            "{{\"id\":\"rs_{number}\", \"type\":\"reasoning\",\"encrypted_content\":\"gA{number}==\",\"summary\":[{{\"type\":\"summary_text\",\"text\":{text}}}]}}"
        )
    }

    fn call(&self, id: &str, name: &str, arguments: &str) -> String {
        let (id, name, arguments) = (quoted(id), quoted(name), quoted(arguments));
        format!("{{\"call_id\":{id} ,\"type\":\"function_call\",\"name\":{name},\"arguments\":{arguments},\"n\":1.10}}")
    }

    fn provider_tool(&self, number: usize) -> Option<String> {
        Some(format!("{{\"id\":\"ws_{number}\",  \"type\":\"web_search_call\",\"status\":\"completed\"}}"))
    }
}

impl Format for ResponsesItems {
    type Wire = OpenAiResponses;
    const PLAYER: Player<OpenAiResponses> = PLAYER;

    fn facts_of(&self, body: &str) -> Facts {
        let body: Value = serde_json::from_str(body).unwrap();
        let mut facts = Facts::default();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        for item in body["input"].as_array().unwrap() {
            match (item["type"].as_str().unwrap(), item["role"].as_str()) {
                ("message", Some("developer")) => facts.system.push(text(&item["content"])),
                ("message", Some("assistant")) => match &item["content"] {
                    Value::String(text) => facts.assistant.push_str(text),
                    contents => {
                        let said = contents.as_array().unwrap().iter().filter_map(|it| it["text"].as_str());
                        said.for_each(|text| facts.assistant.push_str(text));
                    }
                },
                ("message", Some("user")) => {
                    for piece in item["content"].as_array().unwrap() {
                        if let Some(file) = file_of(piece) {
                            facts.files.push(file);
                        } else {
                            facts.user.push(text(&piece["text"]));
                        }
                    }
                }
                ("function_call", _) => {
                    let arguments = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
                    facts.calls.push((text(&item["call_id"]), text(&item["name"]), arguments));
                }
                ("function_call_output", _) => {
                    let mut said = String::new();
                    match &item["output"] {
                        Value::String(text) => said.clone_from(text),
                        pieces => {
                            for piece in pieces.as_array().unwrap() {
                                match file_of(piece) {
                                    Some(file) => facts.files.push(file),
                                    None => said.push_str(&text(&piece["text"])),
                                }
                            }
                        }
                    }
                    facts.results.push((text(&item["call_id"]), said));
                }
                // Items that say nothing to a reader of the conversation.
                _ => {}
            }
        }
        facts
    }

    /// Marks are never in the body, and reasoning only before another item.
    fn raw_texts(&self, messages: &[Message]) -> Vec<String> {
        let mut raw = Vec::new();
        for message in messages {
            let items: Vec<(bool, &String)> = own_items_of(std::slice::from_ref(message))
                .into_iter()
                .map(|part| {
                    (matches!(part.content, Content::Thinking { .. }), &part.provider_item.as_ref().unwrap().item)
                })
                .filter(|(_, item)| !item.contains("windlass.continuation"))
                .collect();
            let sent = items.iter().rposition(|(is_thinking, _)| !is_thinking).map_or(0, |last| last + 1);
            raw.extend(items[..sent].iter().map(|(_, item)| (*item).clone()));
        }
        raw
    }

    fn assert_sent(&self, body: &str, raw: &[String]) {
        assert!(!body.contains("windlass.continuation"));
        assert_in_order(body, raw);
    }
}

fn file_of(piece: &Value) -> Option<String> {
    let text = |name: &str| piece[name].as_str().map(str::to_owned);
    text("image_url").or_else(|| text("file_data")).or_else(|| text("file_url"))
}

#[test]
fn the_input_of_a_turn_begins_with_that_of_the_turn_before() {
    assert_bodies_are_stable(&PLAYER.wire, &ResponsesItems);
}

#[test]
fn a_conversation_comes_back_from_its_body_and_raw_items_are_unchanged() {
    assert_conversations_come_back(&ResponsesItems);
}

#[test]
fn the_answer_of_every_cassette_can_be_sent_back() {
    assert_answers_can_be_sent_back(&ResponsesItems);
}
