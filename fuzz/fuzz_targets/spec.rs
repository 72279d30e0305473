//! Any bytes as the body of a request: they parse, or a field is named; nothing panics.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use windlass_api::spec;

fuzz_target!(|bytes: &[u8]| {
    let Ok(body) = serde_json::from_slice::<Value>(bytes) else { return };
    let _ = spec::parse_run(&body);
    let _ = spec::ToolResult::parse(&body);
    if let Ok((parsed, kept)) = spec::parse_session(&body) {
        let effective = spec::effective(&kept, &json!({"prompt": "p"})).expect("a kept spec is a good one");
        assert_eq!(effective.spec, parsed);
    }
});
