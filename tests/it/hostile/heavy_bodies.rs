//! Bodies that are small and expensive to process.

use serde_json::{Value, json};

use crate::{
    api::rig::{Rig, ask, ask_with_tool},
    proofs::scale,
    support::world::scripts,
};

fn echo() -> Value {
    scripts([("echo", json!({"turns": [{"text": "hi"}]}))])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_with_too_many_values_is_rejected_before_it_is_parsed() {
    let rig = Rig::new(echo()).await;
    let mut spec = ask("echo", "x");
    spec["unknown"] = vec![json!(0); scale("WINDLASS_HOSTILE_VALUES", 300_000)].into();
    let refused = rig.post("/agent-runs", spec).await;
    assert_eq!((refused.refusal(), &refused.body["field"]), ((413, "payload_too_large"), &json!("body")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_expands_without_end_is_rejected() {
    let rig = Rig::new(echo()).await;
    let endless = json!({"type": "object", "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
    // Each level refers to the next one twice: forty levels are 2^40 checks.
    let mut doubling = json!({"type": "object", "$ref": "#/$defs/d0", "$defs": {"d40": {"type": "object"}}});
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        doubling["$defs"][format!("d{level}")] = json!({"allOf": [next, next]});
    }
    for schema in [endless, doubling] {
        let tool = json!({"kind": "local", "name": "t", "parameters": schema});
        let refused = rig.post("/agent-runs", ask_with_tool("echo", tool)).await;
        assert_eq!(refused.refusal(), (400, "invalid_request"), "{schema}");
        assert_eq!(refused.body["field"], "tools[0].parameters");
        let mut spec = ask("echo", "x");
        spec["outputSchema"] = json!({"schema": schema});
        let refused = rig.post("/agent-runs", spec).await;
        assert_eq!(
            (refused.refusal(), &refused.body["field"]),
            ((400, "invalid_request"), &json!("outputSchema.schema"))
        );
    }
}
