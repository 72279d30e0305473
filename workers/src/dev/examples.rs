//! The example agents of `windlass dev`. Their models are scripted and need no API key, except for that of `assistant`.

use windlass_core::agent::{AgentDefinition, file};

use crate::{
    config::{Config, is_set, starter},
    failure::{Failure, usage},
};

const FILES: [(&str, &str); 3] = [
    ("demo.toml", include_str!("../../../examples/agents/demo.toml")),
    ("echo.toml", include_str!("../../../examples/agents/echo.toml")),
    ("tools.toml", include_str!("../../../examples/agents/tools.toml")),
];

/// The scripted examples, and `assistant` if a provider can be called.
pub(super) fn agents(config: &Config) -> Result<Vec<AgentDefinition>, Failure> {
    let parse = |(name, text): &(&str, &str)| file::parse(name, text).map_err(usage);
    let mut agents = FILES.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    if let Some(model) = assistant_model(config) {
        agents.push(AgentDefinition { model, ..parse(&("assistant.toml", starter::ASSISTANT))? });
    }
    Ok(agents)
}

/// The model of the example agent `assistant`, if there is one that can be called.
pub(crate) fn assistant_model(config: &Config) -> Option<String> {
    starter::ready_model(config, is_set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_valid() {
        let ids = |config: &str| -> Vec<String> {
            let config = Config::parse(Some(("windlass.toml".as_ref(), config))).unwrap();
            agents(&config).unwrap().into_iter().map(|agent| agent.id.to_string()).collect()
        };
        // The scripted examples need no key. A local model needs none either.
        assert_eq!(ids("[defaults]\nmodel = \"ollama:qwen3\""), ["demo", "echo", "tools", "assistant"]);
        assert_eq!(agents(&Config::default()).unwrap().len(), 3);
    }
}
