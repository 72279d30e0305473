//! What is known of one model: its limits, what it can read, and how it is asked for reasoning and structured output.

use serde::{Deserialize, Serialize};
pub use windlass_core::agent::Effort;
use windlass_core::{agent::ModelParameters, cost::Prices};

/// Facts about one model. The config has them, with the table of known models below it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelSpec {
    /// Tokens that the conversation and the answer may have together. Without it nothing is trimmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The most tokens of one answer that the model allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// Whether it reads images. If not, an image is replaced by a text that says so.
    pub images: bool,
    /// Whether it reads PDF files. If not, a document without text is replaced by a text that says so.
    pub documents: bool,
    /// Whether it accepts `temperature` and `top_p`. If not, they are not sent.
    pub sampling: bool,
    pub reasoning: ReasoningControl,
    pub structured_output: StructuredOutputControl,
    /// For agents that do not set them.
    pub parameters: ModelParameters,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

impl Default for ModelSpec {
    /// A model of which nothing is known: it reads everything, takes sampling parameters and no reasoning setting.
    fn default() -> Self {
        Self {
            context_window: None,
            max_output_tokens: None,
            images: true,
            documents: true,
            sampling: true,
            reasoning: ReasoningControl::None,
            structured_output: StructuredOutputControl::Instruction,
            parameters: ModelParameters::default(),
            prices: None,
        }
    }
}

/// How a model is told how hard to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningControl {
    /// Not at all: the level is ignored.
    None,
    /// By a word: OpenAI's effort, Gemini's thinking level, Anthropic's effort with adaptive thinking.
    Effort,
    /// By a number of tokens: Anthropic's extended thinking, Gemini up to 2.5.
    Budget,
}

/// How a model is made to answer with JSON that matches a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutputControl {
    /// The provider constrains the output to the schema.
    Native,
    /// The answer is the arguments of a tool whose input schema is the output schema.
    Tool,
    /// The schema is part of the system prompt.
    Instruction,
}

/// The tokens of thinking for a level: about 512 at `low` (30) and 8,000 at `high` (80), as the protocol has it.
pub fn thinking_budget(level: u8) -> u32 {
    let level = u32::from(level.min(100));
    match level {
        0..=30 => level * 512 / 30,
        _ => 512 + (level - 30) * (8_000 - 512) / 50,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_the_efforts_and_budgets_of_the_protocol() {
        let table = [
            (0, Effort::Off, 0),
            (1, Effort::Low, 17),
            (30, Effort::Low, 512),
            (35, Effort::Low, 1260),
            (36, Effort::Medium, 1410),
            (50, Effort::Medium, 3507),
            (65, Effort::Medium, 5753),
            (66, Effort::High, 5903),
            (80, Effort::High, 8000),
            (100, Effort::High, 10_995),
        ];
        for (level, effort, budget) in table {
            assert_eq!((Effort::of_level(level), thinking_budget(level)), (effort, budget), "{level}");
        }
    }
}
