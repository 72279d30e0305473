//! Random calls, layers and grants. Words are few, so that rules often match and scopes often agree.

use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
    sample::{select, subsequence},
};
use serde_json::{Value, json};

use super::{
    ApprovalLayer, ApprovalOutcome, ApprovalRule, ApprovalScope, ArgumentOp, ArgumentTest, AskTerms, Call,
    ConfirmationSpec, Cost, Digest, Grant, GrantShape, Layer, NOW,
};
use crate::{
    awaits::ExpiryOutcome,
    canonical::tests::any_json,
    envelope::Extra,
    time::{Millis, Timestamp},
};

const TOOLS: [&str; 2] = ["pay", "pay.refund"];
const PATTERNS: [&str; 4] = ["*", "pay*", "pay", "*refund"];
const TAGS: [&str; 3] = ["money", "write", "read_only"];
const SOURCES: [&str; 2] = ["http", "mcp"];
const PEOPLE: [&str; 2] = ["ann", "bob"];
const POINTERS: [&str; 5] = ["", "/a", "/a/0", "/b", "b"];
const ROLES: [&str; 3] = ["finance", "legal", "ops"];

fn word(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(words).prop_map(str::to_owned)
}

fn words(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    subsequence(words, 0..=words.len()).prop_map(|some| some.into_iter().map(str::to_owned).collect())
}

/// Values that are often equal, with numbers at the edges of their types.
pub(super) fn value() -> impl Strategy<Value = Value> {
    let leaf = select(vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(1.0),
        json!(2.5),
        json!("a"),
        json!("ab"),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(f64::MAX),
        json!(9_007_199_254_740_993_u64),
    ]);
    leaf.prop_recursive(2, 8, 3, |inner| {
        let map = btree_map(select(vec!["a", "b"]).prop_map(str::to_owned), inner.clone(), 0..3);
        prop_oneof![
            vec(inner, 0..3).prop_map(Value::from),
            map.prop_map(|map| Value::Object(map.into_iter().collect()))
        ]
    })
}

pub(super) fn op() -> impl Strategy<Value = ArgumentOp> {
    let words: Vec<&str> = ArgumentOp::WORDS.into_iter().chain(["newer"]).collect();
    select(words).prop_map(|word| word.to_owned().into())
}

fn test() -> impl Strategy<Value = ArgumentTest> {
    (word(&POINTERS), op(), option::of(value())).prop_map(|(at, op, value)| ArgumentTest { at, op, value })
}

fn terms() -> impl Strategy<Value = AskTerms> {
    let expiry = select(vec![ExpiryOutcome::Deny, ExpiryOutcome::Fail]);
    let span = (1..4_u64).prop_map(Millis);
    (words(&ROLES), option::of(span), option::of(expiry), any::<bool>(), any::<bool>()).prop_map(
        |(roles, expires_in_ms, on_expiry, four_eyes, edit)| AskTerms {
            roles,
            expires_in_ms,
            on_expiry,
            four_eyes,
            edit,
            title: None,
            prompt: None,
        },
    )
}

fn outcome() -> impl Strategy<Value = ApprovalOutcome> {
    // Most cases would be denied if each outcome were as likely as the others.
    prop_oneof![
        5 => Just(ApprovalOutcome::Allow),
        5 => Just(ApprovalOutcome::Ask),
        1 => Just(ApprovalOutcome::Deny),
    ]
}

pub(super) fn rule() -> impl Strategy<Value = ApprovalRule> {
    let of_tool = (
        option::weighted(0.3, word(&PATTERNS)),
        prop_oneof![2 => Just(Vec::new()), 1 => words(&TAGS)],
        option::weighted(0.2, word(&SOURCES)),
        option::weighted(0.2, any::<bool>()),
    );
    let of_run = (option::weighted(0.2, word(&PEOPLE)), option::weighted(0.2, cost()));
    let when = prop_oneof![2 => Just(Vec::new()), 1 => vec(test(), 1..3)];
    let extra = prop_oneof![9 => Just(Extra::new()), 1 => Just(Extra::from([("newer".to_owned(), json!(1))]))];
    (of_tool, of_run, when, outcome(), terms(), extra).prop_map(
        |((tool, tags, source, read_only), (caller, cost_at_least), when, outcome, terms, extra)| ApprovalRule {
            tool,
            tags,
            source,
            read_only,
            when,
            caller,
            cost_at_least,
            terms: if outcome == ApprovalOutcome::Ask { terms } else { AskTerms::default() },
            extra,
            ..ApprovalRule::new(outcome)
        },
    )
}

fn cost() -> impl Strategy<Value = Cost> {
    (0..3_u64).prop_map(Cost::from_nanos)
}

pub(super) fn layer(may_relax: impl Strategy<Value = bool>) -> impl Strategy<Value = ApprovalLayer> {
    let kind = select(vec![Layer::Workspace, Layer::Agent, Layer::Session, Layer::Run]);
    (kind, vec(rule(), 0..4), may_relax).prop_map(|(layer, rules, may_relax)| ApprovalLayer {
        layer,
        rules,
        may_relax,
        set_by: None,
    })
}

/// Up to five, in any order, and several of one kind.
pub(super) fn layers() -> impl Strategy<Value = Vec<ApprovalLayer>> {
    vec(layer(any::<bool>()), 0..5)
}

pub(super) fn call() -> impl Strategy<Value = Call> {
    let confirmation =
        any::<bool>().prop_map(|four_eyes| ConfirmationSpec { four_eyes, ..ConfirmationSpec::default() });
    let args =
        prop_oneof![3 => btree_map(select(vec!["a", "b"]), value(), 0..3).prop_map(|map| json!(map)), 1 => any_json()];
    (
        (word(&TOOLS), words(&TAGS), word(&SOURCES)),
        (args, prop::bool::weighted(0.1)),
        (option::of(confirmation), option::weighted(0.9, word(&PEOPLE)), cost(), any::<bool>()),
    )
        .prop_map(|((tool, tags, source), (args, unseen), (confirmation, starter, cost, in_session))| Call {
            tool: tool.as_str().into(),
            tags,
            source,
            args,
            unseen,
            confirmation,
            starter: starter.map(Into::into),
            cost,
            session: in_session.then(|| "session-1".into()),
            ..Call::default()
        })
}

/// Some grants are for the arguments of `call`.
pub(super) fn grants(call: &Call) -> impl Strategy<Value = Vec<Grant>> + use<> {
    let scope = select(vec![
        ApprovalScope::Run { id: "run-1".into() },
        ApprovalScope::Run { id: "run-2".into() },
        ApprovalScope::Session { id: "session-1".into() },
        ApprovalScope::Agent { id: "support".into() },
        ApprovalScope::Unknown,
    ]);
    let same_values = btree_map(word(&POINTERS), value(), 0..2).prop_map(|values| GrantShape::SameValues { values });
    let shape = prop_oneof![
        2 => Just(GrantShape::AnyArguments),
        1 => Just(GrantShape::SameArguments { digest: Digest::of_json(&call.args) }),
        1 => Just(GrantShape::SameArguments { digest: Digest::ZERO }),
        1 => same_values,
        1 => Just(GrantShape::Unknown),
    ];
    let expires_at = option::of((NOW.0 - 2..NOW.0 + 3).prop_map(Timestamp));
    let grant = (scope, word(&TOOLS), shape, word(&PEOPLE), expires_at, prop::bool::weighted(0.2)).prop_map(
        |(scope, tool, shape, granted_by, expires_at, revoked)| Grant {
            id: "grant".into(),
            scope,
            tool: tool.as_str().into(),
            shape,
            granted_by: granted_by.into(),
            granted_at: Timestamp(1),
            expires_at,
            revoked,
            extra: Extra::new(),
        },
    );
    vec(grant, 0..4)
}

/// A call with grants.
pub(super) fn granted_call() -> impl Strategy<Value = (Call, Vec<Grant>)> {
    call().prop_flat_map(|call| {
        let grants = grants(&call);
        (Just(call), grants)
    })
}
