//! Results of servers as results of tools.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use windlass_core::{canonical::CanonicalJson, message::Part};

use super::*;
use crate::mcp::result::success;

fn read(result: Value) -> Result<ToolSuccess, ToolFailure> {
    success(serde_json::from_value(result).unwrap())
}

fn parts(parts: Value) -> Vec<Part> {
    serde_json::from_value(parts).unwrap()
}

#[test]
fn text_alone_is_the_result() {
    let one = json!({"content": [{"type": "text", "text": "hi"}]});
    assert_eq!(read(one), Ok(ToolSuccess::new(json!("hi"))));
    let two = json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
    assert_eq!(read(two), Ok(ToolSuccess::new(json!("a\nb"))));
    assert_eq!(read(json!({"content": []})), Ok(ToolSuccess::new(CanonicalJson::null())));
}

#[test]
fn structured_content_is_the_result_and_its_copy_in_text_is_dropped() {
    let copied = json!({"content": [{"type": "text", "text": "{ \"n\": 1 }"}], "structuredContent": {"n": 1}});
    assert_eq!(read(copied), Ok(ToolSuccess::new(json!({"n": 1}))));
    let more = json!({"content": [{"type": "text", "text": "one"}], "structuredContent": {"n": 1}});
    let content = parts(json!([{"kind": "text", "text": "one"}]));
    assert_eq!(read(more), Ok(ToolSuccess { content, ..ToolSuccess::new(json!({"n": 1})) }));
}

#[test]
fn files_and_resources_become_parts_in_their_order() {
    let pdf = json!({"uri": "file:///a/b.pdf", "mimeType": "application/pdf", "blob": "AAEC"});
    let result = json!({"content": [
        {"type": "text", "text": "see"},
        {"type": "image", "data": "AAEC", "mimeType": "image/png"},
        {"type": "image", "data": "AAEC", "mimeType": "image/svg+xml"},
        {"type": "audio", "data": "AAEC", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///n", "text": "note"}},
        {"type": "resource", "resource": pdf},
        {"type": "resource_link", "name": "log", "uri": "file:///log"},
    ]});
    let content = parts(json!([
        {"kind": "text", "text": "see"},
        {"kind": "image", "format": "png", "bytes": "AAEC"},
        {"kind": "text", "text": "[image of image/svg+xml, 3 bytes: left out, because models cannot read it]"},
        {"kind": "text", "text": "[audio of audio/wav, 3 bytes: left out, because models cannot read it]"},
        {"kind": "text", "text": "note"},
        {"kind": "document", "name": "b.pdf", "format": "pdf", "source": {"bytes": "AAEC"}, "cite": false},
        {"kind": "text", "text": "resource: log file:///log"},
    ]));
    assert_eq!(read(result), Ok(ToolSuccess { content, ..ToolSuccess::new(CanonicalJson::null()) }));
}

#[test]
fn files_that_are_broken_or_too_large_fail_the_call() {
    let image = |data: &str| json!({"type": "image", "data": data, "mimeType": "image/png"});
    let broken = read(json!({"content": [image("no base64!")]}));
    assert_eq!(broken, Err(failed("the MCP server returned image data that is not valid base64")));
    let half = STANDARD.encode(vec![0; 5 * 1024 * 1024 / 2]);
    assert!(read(json!({"content": [image(&half), image(&half)]})).is_ok());
    let larger = read(json!({"content": [image(&half), image(&half), image("AA==")]}));
    assert_eq!(larger, Err(failed("the files of the result are larger than 5242880 bytes; ask for less")));
}

#[test]
fn an_error_of_the_tool_is_a_failure_in_its_words() {
    let said = read(json!({"content": [{"type": "text", "text": "no such city"}], "isError": true}));
    assert_eq!(said, Err(failed("no such city")));
    let structured = read(json!({"content": [], "structuredContent": {"code": 7}, "isError": true}));
    assert_eq!(structured, Err(failed("{\"code\":7}")));
    assert_eq!(read(json!({"content": [], "isError": true})), Err(failed("the tool failed and did not say why")));
    let long = read(json!({"content": [{"type": "text", "text": "x".repeat(5000)}], "isError": true}));
    assert_eq!(long, Err(failed(&"x".repeat(5000))));
    assert!(failed(&"x".repeat(5000)).error.message.len() < 1100);
}
