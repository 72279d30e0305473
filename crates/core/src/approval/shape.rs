//! Which fields a rule may have in agent files and in the config, and what each may hold.
//!
//! The table follows [`super::ApprovalRule`] field by field; a test holds the two together.

use serde_json::Value;

use super::{ApprovalRule, ArgumentOp, check_rules};
use crate::{
    agent::{
        SourceFields,
        file::{shape::EXPIRY, syntax_of},
    },
    file::{
        Fault, FileError, Reading, Record, Shape, Syntax, friendly, optional, parse_json, parse_toml, read, required,
        without_mark,
    },
};

/// A file with nothing but rules.
static RULES_FILE: Record =
    Record(&[required("approvals", Shape::List(&Shape::Record(&APPROVAL_RULE)), "[[approvals]]")]);

/// The rules in a TOML or JSON file that has nothing else. `path_name` tells the format and names the file in errors.
pub fn parse_rules_file(path_name: &str, text: &str) -> Result<Vec<ApprovalRule>, FileError> {
    let text = without_mark(text);
    parse_text(path_name, text).map_err(|faults| FileError::new(path_name, text, faults))
}

fn parse_text(path_name: &str, text: &str) -> Result<Vec<ApprovalRule>, Vec<Fault>> {
    let syntax = syntax_of(path_name)?;
    let root = match syntax {
        Syntax::Toml => parse_toml(text),
        Syntax::Json => parse_json(text),
    };
    let Reading { value, faults, places } = read(&RULES_FILE, &root.map_err(|fault| vec![fault])?, syntax);
    if !faults.is_empty() {
        return Err(faults);
    }
    let rules = value.get("approvals").cloned().unwrap_or(Value::Null);
    let rules: Vec<ApprovalRule> =
        serde_json::from_value(rules).map_err(|error| vec![Fault::whole(error.to_string())])?;
    let problems = check_rules(&rules, "/approvals");
    if problems.is_empty() {
        Ok(rules)
    } else {
        Err(problems.into_iter().map(|problem| places.fault(problem)).collect())
    }
}

/// The fields of a rule.
pub static APPROVAL_RULE: Record = Record(&[
    optional("name", Shape::Text).about("a label for people"),
    optional("tool", Shape::Text).about("the tool's name; `*` stands for any text"),
    optional("tags", Shape::List(&Shape::Text)).about("the tool has at least one of these tags"),
    optional("source", Shape::Choice(&SourceFields::KINDS)).about("the kind of the tool"),
    optional("readOnly", Shape::Flag).about("whether the tool has the tag `read_only`"),
    optional("when", Shape::List(&Shape::Record(&ARGUMENT_TEST))).about("tests of the arguments; all must hold"),
    optional("caller", Shape::Text).about("the id of the run's starter; `*` stands for any text"),
    optional("costAtLeast", Shape::Amount).about("the run has spent this many US dollars or more"),
    required("outcome", Shape::Choice(&["allow", "ask", "deny"]), "\"ask\"").about("what becomes of the call"),
    optional("roles", Shape::List(&Shape::Text)).about("ask: who may answer; all approvers if absent"),
    friendly("expiresIn", "expiresInMs", Shape::Duration).about("ask: how long the run waits"),
    optional("expiresInMs", Shape::Millis),
    optional("onExpiry", EXPIRY).about("ask: what happens then"),
    optional("fourEyes", Shape::Flag).about("ask: the starter of the run may not approve"),
    optional("edit", Shape::Flag).about("ask: the approver may edit the arguments"),
    optional("title", Shape::Text).about("ask: shown above the prompt"),
    optional("prompt", Shape::Text).about("ask: shown to the person; `{name}` stands for a top-level argument"),
]);

static ARGUMENT_TEST: Record = Record(&[
    required("at", Shape::Text, "\"/amount\"").about("which value, as a JSON pointer"),
    required("op", Shape::Choice(&ArgumentOp::WORDS), "\"<=\"").about("how it is compared"),
    optional("value", Shape::Json).about("with what"),
]);
