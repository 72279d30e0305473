//! Files that are not TOML or JSON at all.

use super::assert_errors;
use crate::agent::file::{DefinitionError, Located, parse};

#[test]
fn toml_syntax() {
    assert_errors(
        "a.toml",
        &[
            ("id = ", "a.toml:1:6: this is not valid TOML: string values must be quoted, expected literal string"),
            (
                r#"
id = "a"
[tools
"#,
                "a.toml:2:7: this is not valid TOML: unclosed table, expected `]`",
            ),
            (
                r#"
id = "a"

id = "b"
"#,
                "a.toml:3:1: this is not valid TOML: duplicate key",
            ),
            (
                r#"id = "a" model = "b:c""#,
                "a.toml:1:10: this is not valid TOML: unexpected key or value, expected newline, `#`",
            ),
            (r#"id = "a"#, r#"a.toml:1:8: this is not valid TOML: invalid basic string, expected `"`"#),
        ],
    );
}

#[test]
fn json_syntax() {
    assert_errors(
        "a.json",
        &[
            ("", "a.json:1:1: the file is empty; write one JSON object"),
            ("  \n", "a.json:1:1: the file is empty; write one JSON object"),
            (
                r#"
{"id": "a",
  // why
 "model": "m:n"}"#,
                "a.json:2:3: this is not valid JSON: comments are not allowed",
            ),
            (
                r#"
{
  "id": "a",
}"#,
                "a.json:2:12: this is not valid JSON: trailing commas are not allowed",
            ),
            (
                r#"
{"id": "a"
 "model": "m:n"}"#,
                "a.json:1:11: this is not valid JSON: expected comma",
            ),
            (r#"{id: "a"}"#, "a.json:1:2: this is not valid JSON: expected string for object property"),
            (r#"{"id": 'a'}"#, "a.json:1:8: this is not valid JSON: single-quoted strings are not allowed"),
            (
                r#"
{"id": "a
b"}"#,
                r#"a.json:1:10: this is not valid JSON: control character (\u0000-\u001F) found while parsing a string"#,
            ),
            ("{\"id\":\u{a0}\"a\"}", "a.json:1:7: this is not valid JSON: expected value"),
            (
                "{\"id\": \"é\", \"description\": \"a\tb\"}",
                r#"a.json:1:30: this is not valid JSON: control character (\u0000-\u001F) found while parsing a string"#,
            ),
            (r#"{"id": 1e999}"#, "a.json:1:12: this is not valid JSON: number out of range"),
            (r#"{"id": "a""#, "a.json:1:1: this is not valid JSON: unterminated object"),
            ("{} {}", "a.json:1:4: this is not valid JSON: text cannot contain more than one JSON value"),
            ("[]", "a.json:1:1: this must be an object, not a list"),
        ],
    );
}

#[test]
fn the_extension_tells_the_format() {
    assert_errors(
        "agent.yaml",
        &[("id: a", "agent.yaml:1:1: the name of a definition file must end in .toml or .json")],
    );
    assert_errors("agent", &[("id: a", "agent:1:1: the name of a definition file must end in .toml or .json")]);
}

#[test]
fn a_byte_order_mark_does_not_move_columns() {
    assert_eq!(
        parse("a.toml", "\u{feff}id = 7\nmodel = \"m:n\"\n"),
        Err(DefinitionError {
            file: "a.toml".to_owned(),
            problems: vec![Located {
                line: 1,
                column: 6,
                path: "id".to_owned(),
                message: "this must be text in quotes, not a number".to_owned(),
            }],
        })
    );
}
