mod arbitrary;
mod check;
mod file;
mod grants;
mod guide;
mod properties;
mod stored;
mod table;
mod terms;

use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::time::Timestamp;

/// When the tests decide.
const NOW: Timestamp = Timestamp(1_000_000);

/// A call with its own data. Rows of tables write what differs from [`Call::default`] as JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Call {
    tool: ToolName,
    tags: Vec<String>,
    source: String,
    args: Value,
    /// The arguments are too large to look into.
    unseen: bool,
    confirmation: Option<ConfirmationSpec>,
    starter: Option<Actor>,
    cost: Cost,
    run: RunId,
    session: Option<SessionId>,
    agent: AgentId,
    configured: bool,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            tool: "refund".into(),
            tags: vec!["money".to_owned(), "write".to_owned()],
            source: "http".to_owned(),
            args: json!({"amount": 120, "to": "ann@example.com"}),
            unseen: false,
            confirmation: None,
            starter: Some("key-1".into()),
            cost: Cost::ZERO,
            run: "run-1".into(),
            session: Some("session-1".into()),
            agent: "support".into(),
            configured: true,
        }
    }
}

impl Call {
    fn facts(&self) -> CallFacts<'_> {
        CallFacts {
            tool: &self.tool,
            tags: &self.tags,
            source: &self.source,
            args: (!self.unseen).then_some(&self.args),
            args_digest: Digest::of_json(&self.args),
            confirmation: self.confirmation.as_ref(),
            starter: self.starter.as_ref(),
            cost: self.cost,
            run: &self.run,
            session: self.session.as_ref(),
            agent: &self.agent,
            configured: self.configured,
        }
    }

    fn decide(&self, layers: &[ApprovalLayer], grants: &[Grant]) -> ApprovalDecision {
        decide(&self.facts(), layers, grants, NOW)
    }
}

fn call(differs: Value) -> Call {
    serde_json::from_value(differs).unwrap()
}

/// Layers by name; one that ends in `!` may relax.
fn layers(written: Value) -> Vec<ApprovalLayer> {
    let Value::Object(written) = written else { panic!("{written}") };
    let layer = |(name, rules): (String, Value)| {
        let layer = name.trim_end_matches('!');
        serde_json::from_value(json!({"layer": layer, "rules": rules, "mayRelax": name.ends_with('!')})).unwrap()
    };
    written.into_iter().map(layer).collect()
}
