//! Which fields a rule may have in agent files and in the config, and what each may hold.
//!
//! The table follows [`super::ApprovalRule`] field by field; a test holds the two together.

use super::ArgumentOp;
use crate::{
    agent::{SourceFields, file::shape::EXPIRY},
    file::{Record, Shape, friendly, optional, required},
};

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
