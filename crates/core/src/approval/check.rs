//! Checks of rules beyond their types. All problems are reported at once; each names its place by a JSON pointer.

use serde_json::Value;

use super::{ApprovalOutcome, ApprovalRule, ArgumentOp, ArgumentTest, AskTerms};
use crate::{
    agent::{
        Problem, SourceFields,
        check::{Pointer, Problems, check_expiry, check_length, check_tags},
        file::unknown_rule_fields,
        nearest,
    },
    ids::ToolName,
    limits::{
        APPROVAL_ROLES, APPROVAL_RULES, APPROVAL_TESTS, APPROVAL_VALUE_BYTES, CONFIRMATION_CHARS, NAME_CHARS,
        TAG_CHARS, TOOL_NAME_CHARS,
    },
};

/// The rules in a request, or the first thing that is wrong with them. Unlike stored rules, they have no unknown fields.
pub fn read_rules(sent: &Value) -> Result<Vec<ApprovalRule>, Problem> {
    if let Some(problem) = unknown_rule_fields(sent).into_iter().next() {
        return Err(problem);
    }
    let rules: Vec<ApprovalRule> = serde_json::from_value(sent.clone())
        .map_err(|error| Problem { path: String::new(), message: error.to_string() })?;
    match check_rules(&rules, "").into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(rules),
    }
}

/// Everything that is wrong with the rules of one layer. `at` is the JSON pointer of their list.
pub fn check_rules(rules: &[ApprovalRule], at: &str) -> Vec<Problem> {
    let (at, mut problems) = (Pointer(at.to_owned()), Problems::default());
    if rules.len() > APPROVAL_RULES {
        problems.add(&at, format!("{} rules are too many; keep at most {APPROVAL_RULES}", rules.len()));
        return problems.0;
    }
    for (index, rule) in rules.iter().enumerate() {
        if problems.full() {
            break;
        }
        check_rule(rule, &at.index(index), &mut problems);
    }
    problems.0
}

fn check_rule(rule: &ApprovalRule, at: &Pointer, problems: &mut Problems) {
    check_length(rule.name.as_deref().unwrap_or_default(), NAME_CHARS, &at.field("name"), problems);
    if let Some(pattern) = &rule.tool {
        check_tool(pattern, &at.field("tool"), problems);
    }
    check_tags(&rule.tags, &at.field("tags"), problems);
    if let Some(source) = rule.source.as_deref().filter(|source| !SourceFields::KINDS.contains(source)) {
        let advice = match nearest(source, SourceFields::KINDS) {
            Some(known) => format!("did you mean {known:?}?"),
            None => format!("write one of {}", SourceFields::KINDS.join(", ")),
        };
        problems.add(&at.field("source"), format!("there are no tools of kind {source:?}; {advice}"));
    }
    if let Some(pattern) = &rule.caller {
        let at = at.field("caller");
        check_length(pattern, NAME_CHARS, &at, problems);
        if pattern.trim().is_empty() {
            problems.add(&at, "this matches no starter; write an id, or \"*\" for every starter");
        }
    }
    check_tests(&rule.when, &at.field("when"), problems);
    if rule.outcome == ApprovalOutcome::Ask {
        check_terms(&rule.terms, at, problems);
    } else {
        check_no_terms(&rule.terms, at, problems);
    }
}

fn check_tool(pattern: &str, at: &Pointer, problems: &mut Problems) {
    let fixed = pattern.replace('*', "");
    if pattern.is_empty() {
        problems.add(at, "this matches no tool; write a name, or leave it out for every tool");
    } else if !fixed.is_empty() && ToolName::parse(&fixed).is_err() {
        let shown: String = pattern.chars().take(TOOL_NAME_CHARS).collect();
        let message = format!(
            "{shown:?} matches no tool; write at most {TOOL_NAME_CHARS} characters of A-Z a-z 0-9 . _ - / : @ and * \
             for any text"
        );
        problems.add(at, message);
    }
}

fn check_tests(tests: &[ArgumentTest], at: &Pointer, problems: &mut Problems) {
    if tests.len() > APPROVAL_TESTS {
        problems.add(at, format!("{} tests are too many; keep at most {APPROVAL_TESTS}", tests.len()));
        return;
    }
    for (index, test) in tests.iter().enumerate() {
        let at = at.index(index);
        check_pointer(&test.at, &at.field("at"), problems);
        check_value(test, &at, problems);
    }
}

fn check_pointer(pointer: &str, at: &Pointer, problems: &mut Problems) {
    check_length(pointer, NAME_CHARS, at, problems);
    let rooted = pointer.is_empty() || pointer.starts_with('/');
    let escaped = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if !rooted {
        let shown: String = pointer.chars().take(NAME_CHARS).collect();
        problems.add(at, format!("{shown:?} is not a JSON pointer; begin it with /, for example \"/amount\""));
    } else if !escaped {
        problems.add(at, "in a JSON pointer ~ is written ~0, and / inside a name is written ~1");
    }
}

fn check_value(test: &ArgumentTest, at: &Pointer, problems: &mut Problems) {
    let op = test.op.word();
    if matches!(test.op, ArgumentOp::Other(_)) {
        let shown: String = op.chars().take(NAME_CHARS).collect();
        let message = format!("{shown:?} is no test; write one of \"{}\"", ArgumentOp::WORDS.join("\", \""));
        return problems.add(&at.field("op"), message);
    }
    let unary = matches!(test.op, ArgumentOp::Exists | ArgumentOp::Absent);
    let value = match &test.value {
        Some(_) if unary => return problems.add(&at.field("value"), format!("{op} takes no value; remove this")),
        None if unary => return,
        None => return problems.add(at, format!("{op} compares with a value; add the field value")),
        Some(value) => value,
    };
    let wrong = match (&test.op, value) {
        (ArgumentOp::In | ArgumentOp::NotIn, Value::Array(values)) if !values.is_empty() => None,
        (ArgumentOp::In | ArgumentOp::NotIn, _) => Some("a list with at least one value"),
        (ArgumentOp::Matches, Value::String(_)) => None,
        (ArgumentOp::Matches, _) => Some("text, in which * stands for any text"),
        (ArgumentOp::Less | ArgumentOp::AtMost | ArgumentOp::More | ArgumentOp::AtLeast, Value::Number(_)) => None,
        (ArgumentOp::Less | ArgumentOp::AtMost | ArgumentOp::More | ArgumentOp::AtLeast, _) => Some("a number"),
        // No other value has the type of null.
        (ArgumentOp::NotEqual, Value::Null) => Some("a value other than null, or it never holds"),
        _ => None,
    };
    if let Some(wanted) = wrong {
        problems.add(&at.field("value"), format!("{op} compares with {wanted}"));
    }
    let bytes = value.to_string().len();
    if bytes > APPROVAL_VALUE_BYTES {
        let message = format!("this is {bytes} bytes of JSON; write at most {APPROVAL_VALUE_BYTES}");
        problems.add(&at.field("value"), message);
    }
}

fn check_terms(terms: &AskTerms, at: &Pointer, problems: &mut Problems) {
    check_expiry(terms.expires_in_ms, terms.on_expiry, at, problems);
    for (field, text) in [("title", &terms.title), ("prompt", &terms.prompt)] {
        check_length(text.as_deref().unwrap_or_default(), CONFIRMATION_CHARS, &at.field(field), problems);
    }
    let (at, roles) = (at.field("roles"), &terms.roles);
    if roles.len() > APPROVAL_ROLES {
        problems.add(&at, format!("{} roles are too many; keep at most {APPROVAL_ROLES}", roles.len()));
        return;
    }
    for (index, role) in roles.iter().enumerate() {
        check_length(role, TAG_CHARS, &at.index(index), problems);
        if role.trim().is_empty() {
            problems.add(&at.index(index), "a role is never empty; write its name or remove it");
        }
    }
}

/// The terms of a question have no effect on a rule that asks none.
fn check_no_terms(terms: &AskTerms, at: &Pointer, problems: &mut Problems) {
    let given = [
        ("roles", !terms.roles.is_empty()),
        ("expiresInMs", terms.expires_in_ms.is_some()),
        ("onExpiry", terms.on_expiry.is_some()),
        ("fourEyes", terms.four_eyes),
        ("edit", terms.edit),
        ("title", terms.title.is_some()),
        ("prompt", terms.prompt.is_some()),
    ];
    for (field, _) in given.into_iter().filter(|(_, given)| *given) {
        let message = "only a rule with the outcome ask has this; remove it or set the outcome to \"ask\"";
        problems.add(&at.field(field), message);
    }
}
