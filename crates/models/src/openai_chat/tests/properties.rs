use serde_json::Value;
use windlass_core::message::Message;

use super::{super::*, PLAYER};
use crate::{
    cassette::Player,
    openai::{
        checks::{Format, assert_answers_can_be_sent_back, assert_bodies_are_stable, assert_conversations_come_back},
        conversations::{Facts, OwnItems, assert_in_order, own_items_of},
    },
    wire::{Fields, quoted},
};

/// A message has one text and one thought of its own at most, as the reader makes them.
struct ChatItems;

impl OwnItems for ChatItems {
    fn texts(&self, number: usize, texts: &[String]) -> Vec<String> {
        match texts {
            [text] => vec![format!("{{ \"content\" : {}, \"mood{number}\": 1.50}}", quoted(text))],
            _ => Vec::new(),
        }
    }

    fn thinking(&self, number: usize, text: &str) -> String {
        format!("{{\"reasoning_{number}\":{}}}", quoted(text))
    }

    fn call(&self, id: &str, name: &str, arguments: &str) -> String {
        let (id, name, arguments) = (quoted(id), quoted(name), quoted(arguments));
        format!(
            "{{ \"function\":{{\"arguments\":{arguments} ,\"name\":{name}}}, \"id\":{id},\"type\":\"function\",\"extra_content\":{{\"n\":1.10}}}}"
        )
    }

    fn provider_tool(&self, _: usize) -> Option<String> {
        None
    }
}

impl Format for ChatItems {
    type Wire = OpenAiChat;
    const PLAYER: Player<OpenAiChat> = PLAYER;

    fn facts_of(&self, body: &str) -> Facts {
        let body: Value = serde_json::from_str(body).unwrap();
        let mut facts = Facts::default();
        for message in body["messages"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            match message["role"].as_str().unwrap() {
                "developer" => facts.system.push(text(&message["content"])),
                "tool" => facts.results.push((text(&message["tool_call_id"]), text(&message["content"]))),
                "assistant" => {
                    facts.assistant.push_str(message["content"].as_str().unwrap_or_default());
                    for call in message["tool_calls"].as_array().into_iter().flatten() {
                        let arguments = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
                        facts.calls.push((text(&call["id"]), text(&call["function"]["name"]), arguments));
                    }
                }
                "user" => match &message["content"] {
                    Value::String(text) => facts.user.push(text.clone()),
                    pieces => {
                        for piece in pieces.as_array().unwrap() {
                            match piece["type"].as_str().unwrap() {
                                "text" if text(&piece["text"]).starts_with("[Files of the result") => {}
                                "text" => facts.user.push(text(&piece["text"])),
                                "image_url" => facts.files.push(text(&piece["image_url"]["url"])),
                                "file" => facts.files.push(text(&piece["file"]["file_data"])),
                                other => panic!("{other}"),
                            }
                        }
                    }
                },
                other => panic!("{other}"),
            }
        }
        facts
    }

    /// The values of each own item that must be in the body as they are.
    fn raw_texts(&self, messages: &[Message]) -> Vec<String> {
        let own = own_items_of(messages).into_iter();
        own.flat_map(|part| {
            let item = &part.provider_item.as_ref().unwrap().item;
            match part.content.kind() {
                "tool_use" => vec![item.clone()],
                _ => {
                    let fields = Fields::parse(item).unwrap();
                    let sent = fields.into_iter().filter(|(name, _)| name != "annotations");
                    sent.map(|(name, value)| format!("{}:{value}", quoted(&name))).collect()
                }
            }
        })
        .collect()
    }

    /// Within a message the fields of the format decide the order, so each text is looked for by itself. A call that came
    /// without an id has got one; the rest of its item is unchanged.
    fn assert_sent(&self, body: &str, raw: &[String]) {
        let bare = |text: &String| text.trim_start_matches("{\"type\":\"function\",").to_owned();
        raw.iter().map(bare).for_each(|text| assert_in_order(body, &[text]));
    }
}

#[test]
fn the_messages_of_a_turn_begin_with_those_of_the_turn_before() {
    assert_bodies_are_stable(&PLAYER.wire, &ChatItems);
    assert_bodies_are_stable(&OpenAiChat { dialect: Dialect::Compatible }, &ChatItems);
}

#[test]
fn a_conversation_comes_back_from_its_body_and_raw_items_are_unchanged() {
    assert_conversations_come_back(&ChatItems);
}

#[test]
fn the_answer_of_every_cassette_can_be_sent_back() {
    assert_answers_can_be_sent_back(&ChatItems);
}
