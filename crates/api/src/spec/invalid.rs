//! Why a request body is not valid.

/// The first invalid field of a body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// For example `tools[2].name`.
    pub field: String,
    /// What is wrong and what to send instead.
    pub problem: String,
}

impl Invalid {
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}
