//! Fields and words of a definition's JSON that this build does not know. What is stored keeps them; an edge refuses them.

use serde_json::Value;

use super::shape::AGENT;
use crate::{
    agent::check::{Problem, escape, nearest},
    approval::APPROVAL_RULE,
    file::{Record, Shape},
};

/// Every field and every word that a definition cannot have, with what may have been meant.
pub fn unknown_fields(definition: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    record(&AGENT, definition, "", &mut problems);
    problems
}

/// The same for a list of approval rules.
pub(crate) fn unknown_rule_fields(rules: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, rule) in rules.as_array().into_iter().flatten().enumerate() {
        record(&APPROVAL_RULE, rule, &format!("/{index}"), &mut problems);
    }
    problems
}

fn record(known: &'static Record, value: &Value, at: &str, problems: &mut Vec<Problem>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let path = format!("{at}/{}", escape(key));
        match known.0.iter().find(|field| field.fills == key) {
            Some(field) => shape(&field.shape, value, &path, problems),
            None => {
                let names = || known.0.iter().map(|field| field.fills);
                let message = match nearest(key, names()) {
                    Some(meant) => format!("unknown field; did you mean {meant}?"),
                    None => format!("unknown field; known are {}", names().collect::<Vec<_>>().join(", ")),
                };
                problems.push(Problem { path, message });
            }
        }
    }
}

fn shape(known: &'static Shape, value: &Value, at: &str, problems: &mut Vec<Problem>) {
    match known {
        Shape::Record(fields) => record(fields, value, at, problems),
        Shape::Choice(words) => {
            if let Some(word) = value.as_str().filter(|word| !words.contains(word)) {
                let message = format!("{word:?} is not known here; write one of \"{}\"", words.join("\", \""));
                problems.push(Problem { path: at.to_owned(), message });
            }
        }
        Shape::FlagOr(inner) => shape(inner, value, at, problems),
        Shape::List(inner) => {
            for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                shape(inner, item, &format!("{at}/{index}"), problems);
            }
        }
        Shape::Map(inner) => {
            for (key, item) in value.as_object().into_iter().flatten() {
                shape(inner, item, &format!("{at}/{}", escape(key)), problems);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_found_at_every_depth() {
        let definition = json!({
            "id": "a", "model": "m:n", "systemPromt": "x",
            "tools": [{"name": "t", "kind": "soap", "inputSchema": {"anything": 1}, "time_out": 5}],
            "policy": {"maxToolCall": 1},
            "guards": {"loopDetection": false, "toolBudgets": {"t": {"max": 1}}},
            "agents": [{"id": "b", "model": "m:n", "retain": true}],
        });
        let found: Vec<String> = unknown_fields(&definition).iter().map(|problem| problem.path.clone()).collect();
        assert_eq!(
            found,
            [
                "/agents/0/retain",
                "/guards/toolBudgets/t/max",
                "/policy/maxToolCall",
                "/systemPromt",
                "/tools/0/kind",
                "/tools/0/time_out"
            ]
        );
        assert_eq!(unknown_fields(&definition)[3].message, "unknown field; did you mean systemPrompt?");
        assert_eq!(unknown_fields(&json!({"id": "a", "model": "m:n"})), []);
    }
}
