//! Fields that are unknown, missing, given twice or of the wrong type.

use super::{assert_errors, parse};
use crate::secret::SecretRef;

#[test]
fn unknown_and_missing_fields_in_toml() {
    assert_errors(
        "a.toml",
        &[
            (
                "",
                r#"
a.toml:1:1: the field id is missing; add it, for example id = "my-agent"
a.toml:1:1: the field model is missing; add it, for example model = "script:demo""#,
            ),
            (
                r#"
id = "a"
modle = "m:n"
"#,
                r#"
a.toml:1:1: the field model is missing; add it, for example model = "script:demo"
a.toml:2:1: modle: unknown field; did you mean model?"#,
            ),
            (
                r#"
id = "a"
model = "m:n"
systemPrompt = "x"
retries = 3
"#,
                r#"
a.toml:3:1: systemPrompt: unknown field; did you mean system_prompt?
a.toml:4:1: retries: unknown field; known are id, name, description, model, fallback, system_prompt, reasoning_level, reasoning_decay, output_schema, parameters, credentials, tools, toolsets, approvals, policy, guards, agents"#,
            ),
            (
                r#"
id = "a"
model = "m:n"

[[tools]]
name = "t"

[[tools]]
  kind = "agent"
  timeuot = "3s"
"#,
                r#"
a.toml:7:1: tools[1]: the field name is missing; add it, for example name = "notes.add"
a.toml:9:3: tools[1].timeuot: unknown field; did you mean timeout?"#,
            ),
            (
                r#"
id = "a"
model = "m:n"
policy.time_bugdet = "3s"
guards.tool_budgets."a b" = {}
"#,
                r#"
a.toml:3:8: policy.time_bugdet: unknown field; did you mean time_budget?
a.toml:4:29: guards.tool_budgets."a b": the field max_calls is missing; add it, for example max_calls = 5"#,
            ),
            (
                r#"
id = "a"
model = "m:n"
[[tools]]
name = "t"
timeout = "3s"
timeout_ms = 3000
"#,
                "a.toml:6:1: tools[0].timeout_ms: this is given twice; keep one of them",
            ),
        ],
    );
}

#[test]
fn unknown_and_missing_fields_in_json() {
    assert_errors(
        "a.json",
        &[
            (r#"{"id": "a"}"#, r#"a.json:1:1: the field model is missing; add it, for example "model": "script:demo""#),
            (
                r#"
{"id": "a", "model": "m:n",
 "systemprompt": "x"}"#,
                "a.json:2:2: systemprompt: unknown field; did you mean systemPrompt?",
            ),
            (
                r#"
{"id": "a", "model": "m:n",
 "model": "o:p"}"#,
                "a.json:2:2: model: this is given twice; keep one of them",
            ),
            (
                r#"
{"id": "a", "model": "m:n",
 "systemPrompt": "x", "system_prompt": "x"}"#,
                "a.json:2:23: system_prompt: this is given twice; keep one of them",
            ),
            (
                r#"
{"id": "a", "model": "m:n",
 "tools": [{"name": "t", "inputSchema": {"type": "object", "type": 3}}]}"#,
                "a.json:2:60: tools[0].inputSchema.type: this is given twice; keep one of them",
            ),
        ],
    );
}

#[test]
fn wrong_types_in_toml() {
    assert_errors(
        "a.toml",
        &[
            (
                r#"
id = 7
model = ["m:n"]
tools = "clock"
policy = true
guards = 1979-05-27
"#,
                r#"
a.toml:1:6: id: this must be text in quotes, not a number
a.toml:2:9: model: this must be text in quotes, not a list
a.toml:3:9: tools: this must be a list, not text
a.toml:4:10: policy: this must be a table, not true
a.toml:5:10: guards: this must be a table, not a date"#,
            ),
            (
                r#"
id = "é"
model = "m:n"
tools = [{ name = "t", idempotent = "yes" }, { name = "ü", tags = [1, true] }, 3]
"#,
                r#"
a.toml:3:37: tools[0].idempotent: this must be true or false, not text
a.toml:3:68: tools[1].tags[0]: this must be text in quotes, not a number
a.toml:3:71: tools[1].tags[1]: this must be text in quotes, not true
a.toml:3:80: tools[2]: this must be a table, not a number"#,
            ),
            (
                r#"
id = "a"
model = "m:n"
[[tools]]
name = "t"
kind = "magic"
confirmation = { on_expiry = "explode" }
"#,
                r#"
a.toml:5:8: tools[0].kind: "magic" is not known here; write one of "builtin", "agent", "external", "http", "mcp", "a2a", "temporal"
a.toml:6:30: tools[0].confirmation.on_expiry: "explode" is not known here; write one of "deny", "default", "replan", "fail""#,
            ),
            (
                r#"
id = "a"
model = "m:n"
[policy]
max_tool_calls = -1
per_turn_max_tool_calls = 4294967296
max_consecutive_failed_tool_calls = 1.5
"#,
                r#"
a.toml:4:18: policy.max_tool_calls: this must be a whole number from 0 to 4294967295
a.toml:5:27: policy.per_turn_max_tool_calls: this must be a whole number from 0 to 4294967295
a.toml:6:37: policy.max_consecutive_failed_tool_calls: this must be a whole number from 0 to 4294967295"#,
            ),
            (
                r#"
id = "a"
model = "m:n"
[guards]
loop_detection = 3
[guards.tool_budgets]
"a.b" = 3
"#,
                r#"
a.toml:4:18: guards.loop_detection: this must be false or a table, not a number
a.toml:6:9: guards.tool_budgets."a.b": this must be a table, not a number"#,
            ),
            (
                r#"
id = "a"
model = "m:n"
[[tools]]
name = "t"
input_schema = { type = "object", default = 1979-05-27, examples = [nan] }
"#,
                r#"
a.toml:5:45: tools[0].input_schema.default: JSON cannot hold a date; write it as text in quotes
a.toml:5:69: tools[0].input_schema.examples[0]: JSON cannot hold nan or inf; write it as text in quotes"#,
            ),
        ],
    );
}

#[test]
fn wrong_types_in_json() {
    assert_errors(
        "a.json",
        &[
            (
                r#"
{"id": null, "model": {},
 "tools": {}, "guards": {"loopDetection": []}, "policy": []}"#,
                r#"
a.json:1:8: id: this must be text in quotes, not null
a.json:1:23: model: this must be text in quotes, not an object
a.json:2:11: tools: this must be a list, not an object
a.json:2:43: guards.loopDetection: this must be false or an object, not a list
a.json:2:58: policy: this must be an object, not a list"#,
            ),
            (
                r#"
{"id": "a", "model": "m:n",
 "tools": [{"name": "t", "timeout": 30}, null]}"#,
                r#"
a.json:2:37: tools[0].timeout: this must be a duration in quotes, like "30s" or "10m", not a number
a.json:2:42: tools[1]: this must be an object, not null"#,
            ),
        ],
    );
}

#[test]
fn durations() {
    assert_errors(
        "agent.toml",
        &[
            (
                r#"
id = "a"
model = "m:n"

[[tools]]
name = "t"

[[tools]]
name = "u"

[[tools]]
name = "v"
timeout = "10 fortnights"
"#,
                r#"agent.toml:12:11: tools[2].timeout: "10 fortnights" is not a duration; write it like "30s" or "10m""#,
            ),
            (
                r#"
id = "a"
model = "m:n"
[policy]
time_budget = 600
plan_timeout = "-1s"
tool_timeout_ms = "5s"
finalizer_grace = "1y"
per_tool_timeout = { "notes.*" = "soon", t = 1 }
"#,
                r#"
agent.toml:4:15: policy.time_budget: this must be a duration in quotes, like "30s" or "10m", not a number
agent.toml:5:16: policy.plan_timeout: "-1s" is negative; write it like "30s" or "10m"
agent.toml:6:19: policy.tool_timeout_ms: this must be a whole number of milliseconds, not text
agent.toml:7:19: policy.finalizer_grace: "1y" has no fixed length; write it in weeks or days, like "4w" or "30d"
agent.toml:8:34: policy.per_tool_timeout."notes.*": "soon" is not a duration; write it like "30s" or "10m"
agent.toml:8:46: policy.per_tool_timeout.t: this must be a duration in quotes, like "30s" or "10m", not a number"#,
            ),
        ],
    );
}

#[test]
fn credentials_are_references_and_what_is_written_instead_is_not_quoted() {
    let refused = "this must refer to a secret, as \"${secret:NAME}\" or \"${env:NAME}\"; \
                   set one with `windlass secrets set NAME`";
    for written in
        [r#""sk-live-1234""#, r#"{"secret": "a b"}"#, r#"{"secret": "a", "env": "b"}"#, r#"{"vault": "a"}"#, "{}"]
    {
        let text = format!("{{\"id\": \"a\", \"model\": \"m:n\",\n \"credentials\": {written}}}");
        let error = parse("a.json", &text).unwrap_err().to_string();
        assert_eq!(error, format!("a.json:2:17: credentials: {refused}"), "{written}");
    }
    for written in [r#""${env:KEY}""#, r#"{"env": "KEY"}"#] {
        let text = format!("{{\"id\": \"a\", \"model\": \"m:n\", \"credentials\": {written}}}");
        assert_eq!(parse("a.json", &text).unwrap().credentials, Some(SecretRef::Env("KEY".to_owned())), "{written}");
    }
}
