//! What a model is asked with, beside the conversation.

use serde::{Deserialize, Serialize};

use crate::envelope::Extra;

/// Parameters of every call of the agent's model. Absent leaves it to the provider.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelParameters {
    /// The output of one turn ends here, with the stop reason `max_tokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Options of single providers, by provider; an adapter reads its own.
    #[serde(skip_serializing_if = "Extra::is_empty")]
    pub provider_options: Extra,
}
