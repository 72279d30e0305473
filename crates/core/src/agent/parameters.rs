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

impl ModelParameters {
    /// These, and the defaults for what is absent. Options of a provider that both have are these.
    #[must_use]
    pub fn over(&self, defaults: &Self) -> Self {
        let mut provider_options = defaults.provider_options.clone();
        provider_options.extend(self.provider_options.clone());
        let own_sequences = !self.stop_sequences.is_empty();
        Self {
            max_output_tokens: self.max_output_tokens.or(defaults.max_output_tokens),
            temperature: self.temperature.or(defaults.temperature),
            top_p: self.top_p.or(defaults.top_p),
            stop_sequences: if own_sequences { &self.stop_sequences } else { &defaults.stop_sequences }.clone(),
            provider_options,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_agents_parameters_come_before_those_of_its_model() {
        let read = |value| serde_json::from_value::<ModelParameters>(value).unwrap();
        let model = read(json!({"maxOutputTokens": 9, "temperature": 0.1, "stopSequences": ["END"],
            "providerOptions": {"openai": {"a": 1}, "x": {"b": 2}}}));
        let agent = read(json!({"temperature": 0.7, "topP": 0.5, "providerOptions": {"openai": {"c": 3}}}));
        let both = read(json!({"maxOutputTokens": 9, "temperature": 0.7, "topP": 0.5, "stopSequences": ["END"],
            "providerOptions": {"openai": {"c": 3}, "x": {"b": 2}}}));
        assert_eq!(agent.over(&model), both);
        assert_eq!(agent.over(&ModelParameters::default()), agent);
    }
}
