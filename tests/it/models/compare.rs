//! One cassette, read by our adapter and by the vendor's SDK.

use serde_json::{Value, json};
use windlass_core::stop::StopReason;
use windlass_models::{ModelError, ModelRequest, ModelResponse};

use super::{
    formats::{Format, classes},
    neutral,
};

/// Where the two differ; nothing if they read the same.
pub(super) fn differences(
    format: Format,
    request: &ModelRequest,
    ours: &Result<ModelResponse, ModelError>,
    theirs: &Value,
) -> Vec<String> {
    match (ours, &theirs["error"]) {
        (Ok(response), Value::Null) => compare_answers(format, request, response, theirs),
        (Err(error), failed @ Value::Object(_)) => compare_failures(error, failed),
        (Ok(_), failed) => vec![format!("our adapter reads an answer, the SDK fails: {failed}")],
        (Err(error), _) => vec![format!("the SDK reads {theirs}, our adapter fails: {error:?}")],
    }
}

fn compare_answers(format: Format, request: &ModelRequest, ours: &ModelResponse, theirs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |what: &str, ours: &Value, theirs: &Value| {
        if ours != theirs {
            found.push(format!("{what}\n  ours   {ours}\n  theirs {theirs}"));
        }
    };
    let answer = neutral::response(request, ours);
    let our_blocks = answer["blocks"].as_array().unwrap();
    let their_blocks = theirs["blocks"].as_array().unwrap();
    let tool = neutral::answer_tool(request);
    let (mut read, mut calls) = (Vec::new(), Vec::new());
    for (n, block) in their_blocks.iter().enumerate() {
        let is_answer = block["kind"] == "call" && tool.is_some_and(|tool| block["name"] == tool);
        if !is_answer {
            calls.push(block.clone());
        }
        read.push(as_ours(block, is_answer, our_blocks.get(n).unwrap_or(&Value::Null)));
    }
    expect("the number of blocks", &json!(our_blocks.len()), &json!(their_blocks.len()));
    for (n, (our, their)) in our_blocks.iter().zip(&read).enumerate() {
        let apart = |block: &Value| {
            let mut block = block.clone();
            let item = block.as_object_mut().and_then(|fields| fields.remove("item"));
            (block, json!(item))
        };
        let ((our, our_item), (their, their_item)) = (apart(our), apart(their));
        expect(&format!("block {n}"), &our, &their);
        expect(&format!("the item of block {n}"), &our_item, &their_item);
    }
    let stop = format.stop(theirs["stop"].as_str().unwrap_or_default(), &calls);
    expect("the stop reason", &json!(ours.stop), &json!(stop));
    for field in ["usage", "responseId", "model"] {
        expect(field, &answer[field], &theirs[field]);
    }
    if matches!(stop, StopReason::Other(_)) {
        found.push(format!("the table of stop reasons lacks {}", theirs["stop"]));
    }
    found
}

/// The SDK's block as our adapter must have it.
fn as_ours(block: &Value, is_answer: bool, ours: &Value) -> Value {
    if is_answer {
        // Its arguments are the text of the answer, with the model's own spaces.
        let text = ours["text"].as_str().unwrap_or_default();
        let same = serde_json::from_str::<Value>(text).is_ok_and(|answer| answer == block["arguments"]);
        return json!({"kind": "text", "text": if same { ours["text"].clone() } else { block["arguments"].clone() }});
    }
    let mut block = block.clone();
    let fields = block.as_object_mut().unwrap();
    // The stop reason says so.
    fields.remove("refused");
    // A call without an id gets one from our adapter.
    if fields["kind"] == "call" && fields["id"].is_null() {
        fields.insert("id".to_owned(), ours["id"].clone());
    }
    // What cannot be read cannot be sent back, so our part is without the vendor's item.
    if fields["kind"] == "call" && !fields["arguments"]["unreadable"].is_null() {
        fields.remove("item");
    } else if !fields.contains_key("item") && !ours["item"].is_null() {
        // A block that is only a piece of an item: the first piece has it.
        fields.insert("item".to_owned(), ours["item"].clone());
    }
    block
}

fn compare_failures(ours: &ModelError, theirs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let fitting = classes(theirs);
    if !fitting.contains(&ours.class) {
        found.push(format!("our class {} is none of {fitting:?}, which fit {theirs}", ours.class.as_str()));
    }
    let said = neutral::error(ours);
    for field in ["status", "code", "retryAfterMs"] {
        if said[field] != theirs[field] {
            found.push(format!("{field}: ours {}, theirs {} ({theirs})", said[field], theirs[field]));
        }
    }
    found
}
