//! The example agents of `windlass dev`. Their models are scripted and need no API key.

use windlass_core::agent::{AgentDefinition, file};

use crate::failure::{Failure, usage};

const FILES: [(&str, &str); 3] = [
    ("demo.toml", include_str!("../../../examples/agents/demo.toml")),
    ("echo.toml", include_str!("../../../examples/agents/echo.toml")),
    ("tools.toml", include_str!("../../../examples/agents/tools.toml")),
];

pub(super) fn agents() -> Result<Vec<AgentDefinition>, Failure> {
    FILES.iter().map(|(name, text)| file::parse(name, text).map_err(usage)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_valid() {
        let ids: Vec<_> = agents().unwrap().into_iter().map(|agent| agent.id.to_string()).collect();
        assert_eq!(ids, ["demo", "echo", "tools"]);
    }
}
