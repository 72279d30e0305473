//! The guide has the real output of `explain` for the rules of its own example.

use serde_json::json;

use super::{ApprovalLayer, Call, Grant, Layer, NOW, check_rules, explain, file::rules_in, layers};
use crate::file::Syntax;

const GUIDE: &str = include_str!("../../../../../docs/guides/approvals.md");

/// The code block of the guide that follows a comment.
fn block(mark: &str) -> &'static str {
    let (_, after) = GUIDE.split_once(&format!("<!-- {mark} -->\n```")).unwrap();
    let (_, text) = after.split_once('\n').unwrap();
    text.split_once("```").unwrap().0
}

#[test]
fn the_guide_shows_what_explain_prints_for_its_example() {
    let rules = rules_in(Syntax::Toml, block("rules")).unwrap();
    assert_eq!(check_rules(&rules, ""), []);
    let agent = ApprovalLayer { layer: Layer::Agent, rules, may_relax: true, set_by: None };
    let run = layers(json!({"run": [{"name": "trust me", "outcome": "allow"}]}));
    let layers: Vec<ApprovalLayer> = [vec![agent], run].concat();
    let grant: Grant = serde_json::from_value(json!({
        "id": "grant-7", "scope": {"kind": "session", "id": "session-1"}, "tool": "refund",
        "shape": {"kind": "same_values", "values": {"/to": "bob@example.com"}}, "grantedBy": "key-2", "grantedAt": 5,
    }))
    .unwrap();
    let printed = explain(&Call::default().facts(), &layers, &[grant], NOW).to_string();
    assert_eq!(block("explain"), format!("{printed}\n"), "docs/guides/approvals.md is stale; replace the block");
}
