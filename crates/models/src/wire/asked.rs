//! What a reader has of its request.

use windlass_core::event::EnforcementMechanism;

use super::{Output, ToolNames, prepare};
use crate::ModelRequest;

#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) provider: String,
    /// As asked for; then as the provider reports it.
    pub(crate) model: String,
    pub(crate) names: ToolNames,
    /// The wire name of the tool whose arguments are the answer.
    answer_tool: Option<String>,
    pub(crate) enforced: EnforcementMechanism,
}

impl Asked {
    /// `enforced` says how the format enforces the form of the answer.
    pub(crate) fn of<'a>(request: &'a ModelRequest, enforced: impl Fn(&Output<'a>) -> EnforcementMechanism) -> Self {
        let prepared = prepare(request);
        Self {
            provider: request.provider.clone(),
            model: request.model.clone(),
            enforced: enforced(&prepared.output),
            answer_tool: prepared.output.answer_tool().map(str::to_owned),
            names: prepared.names,
        }
    }

    pub(crate) fn is_answer(&self, tool: &str) -> bool {
        self.answer_tool.as_deref() == Some(tool)
    }

    /// The provider reported the model. An empty name is none.
    pub(crate) fn reported(&mut self, model: Option<String>) {
        if let Some(model) = model.filter(|model| !model.is_empty()) {
            self.model = model;
        }
    }

    /// The model as usage names it.
    pub(crate) fn full_model(&self) -> Option<String> {
        Some(format!("{}:{}", self.provider, self.model))
    }
}
