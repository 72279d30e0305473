//! Findings of `check` are reported at their line. The checks themselves are tested in `agent/check`.

use super::assert_errors;

#[test]
fn checks_of_toml() {
    assert_errors(
        "a.toml",
        &[
            (
                r#"
id = "a b"
model = "demo:"

[[tools]]
name = "t"

[[tools]]
kind = "agent"
name = "t"

[policy]
per_tool_timeout = { "x.*" = "0s" }
"#,
                r#"
a.toml:1:6: id: agent id "a b" is not valid: use 1 to 128 characters of A-Z a-z 0-9 and . _ - / : @
a.toml:2:9: model: "demo:" is not a model; write provider:model, for example "script:demo", or an alias
a.toml:7:1: tools[1]: a tool of kind agent must say which agent answers; add the field agent with its id
a.toml:9:8: tools[1].name: tool "t" is already number 1 of this list; remove one of them
a.toml:12:30: policy.per_tool_timeout."x.*": this must be longer than zero
a.toml:12:30: policy.per_tool_timeout."x.*": "x.*" matches no tool of this agent; name one of the agent's tools"#,
            ),
            (
                r#"
id = "a"
model = "m:n"

[[tools]]
name = "pay"
timeout = "0s"
confirmation.prompt = "Pay {amuont}?"

[tools.input_schema]
type = "object"
properties.amount.type = "numbr"
"#,
                r#"
a.toml:6:11: tools[0].timeout: this must be longer than zero
a.toml:7:23: tools[0].confirmation.prompt: {amuont} is not an argument of this tool; did you mean {amount}?
a.toml:11:26: tools[0].input_schema.properties.amount.type: this is not a valid JSON Schema: "numbr" is not valid under any of the schemas listed in the 'anyOf' keyword"#,
            ),
            (
                r#"
id = "a"
model = "m:n"

[[agents]]
id = "b"
model = "m:n"

[[agents.tools]]
name = "t"
expires_in = "7d"
"#,
                r#"a.toml:10:14: agents[0].tools[0].expires_in: only a tool of kind external is waited for; remove this or set the kind to "external""#,
            ),
            (
                r#"
id = "a"
model = "m:n"
policy.restrict_to_tool = "t"
guards.loop_detection.consecutive_threshold = 50
guards.loop_detection.hard_cutoff_threshold = 6
"#,
                r#"
a.toml:3:27: policy.restrict_to_tool: this agent has no tool "t"; name one of the agent's tools
a.toml:4:8: guards.loop_detection: the hard cutoff, here 6, must be above the consecutive threshold, here 50"#,
            ),
        ],
    );
}

#[test]
fn checks_of_json() {
    assert_errors(
        "a.json",
        &[
            (
                r#"
{
  "id": "a",
  "model": "m:n",
  "tools": [
    {"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"pattern": "("}}}}
  ]
}"#,
                r#"a.json:5:85: tools[0].inputSchema.properties.a.pattern: this is not a valid JSON Schema: "(" is not a "regex""#,
            ),
            (
                r#"{"id": "a", "model": "m:n", "tools": [{"name": "t", "input_schema": {"type": "object", "$ref": "https://example.com/s.json"}}]}"#,
                r##"a.json:1:96: tools[0].input_schema."$ref": a $ref must name a part of this schema, for example "#/$defs/address""##,
            ),
        ],
    );
}
