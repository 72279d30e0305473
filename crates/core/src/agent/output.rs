//! What the final answer of a run must look like.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON document that fits a schema is wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputSchema {
    /// What providers call it.
    #[serde(default = "default_name")]
    pub name: String,
    pub schema: Value,
    #[serde(default)]
    pub enforcement: Enforcement,
}

fn default_name() -> String {
    "output".to_owned()
}

/// What becomes of an answer that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// It is given as it is.
    #[default]
    BestEffort,
    /// The run fails.
    Strict,
}
