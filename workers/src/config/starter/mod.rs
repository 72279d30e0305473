//! What a new directory gets: a config, an agent and the names of the variables.

use super::{Config, Provider};

/// An agent on a real model. Its model line is replaced.
pub const ASSISTANT: &str = include_str!("../../../../examples/agents/assistant.toml");

/// The model in [`ASSISTANT`].
const ASSISTANT_MODEL: &str = "anthropic:claude-sonnet-5-5";

/// The models for a first try, in the order in which their keys are looked for.
const FIRST_MODELS: [&str; 3] = [ASSISTANT_MODEL, "openai:gpt-6.1-terra", "gemini:gemini-3.8-flash"];

/// The files, relative to the new directory, for an agent on this model.
pub fn files(model: &str) -> [(&'static str, String); 3] {
    [
        ("windlass.toml", include_str!("windlass.toml").replace("MODEL", model)),
        ("agents/assistant.toml", ASSISTANT.replace(ASSISTANT_MODEL, model)),
        (".env.example", include_str!("env.example").to_owned()),
    ]
}

/// A model that can be called now: the default of the config, or one of a provider whose key is there.
pub fn ready_model(config: &Config, is_set: impl Fn(&str) -> bool) -> Option<String> {
    let usable = |provider: &Provider| provider.missing_variable(&is_set).is_none();
    let default = config.default_model.as_ref().filter(|model| {
        let provider = config.provider_of(model);
        provider.is_some_and(|(_, provider)| usable(provider))
    });
    let first = || {
        FIRST_MODELS.iter().find(|model| {
            let provider = config.provider_of(model);
            provider.is_some_and(|(_, provider)| provider.key.is_some() && usable(provider))
        })
    };
    default.cloned().or_else(|| first().map(|model| (*model).to_owned()))
}

/// The model of a new directory: one that can be called now, else the first one.
pub fn first_model(config: &Config, is_set: impl Fn(&str) -> bool) -> String {
    ready_model(config, is_set).unwrap_or_else(|| FIRST_MODELS[0].to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use windlass_core::agent::file;

    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse(Some((Path::new("windlass.toml"), text))).map_err(|error| error.to_string()).unwrap()
    }

    #[test]
    fn the_starter_is_valid_as_it_is_and_with_all_its_examples() {
        for model in FIRST_MODELS {
            let [(_, config), (_, agent), _] = files(model);
            let parsed = parse(&config);
            assert_eq!(parsed.default_model.as_deref(), Some(model));
            assert!(parsed.models.contains_key(model), "{model} is in the table of known models");
            assert_eq!(file::parse("assistant.toml", &agent).unwrap().model, model);
            let is_example = |line: &str| line.starts_with('#') && !line.starts_with("# ");
            let uncommented = |line: &str| if is_example(line) { line[1..].to_owned() } else { line.to_owned() };
            let with_examples = config.lines().map(uncommented).collect::<Vec<_>>().join("\n");
            let parsed = parse(&with_examples);
            assert!(parsed.providers.contains_key("azure") && parsed.aliases.contains_key("fast"));
        }
    }

    #[test]
    fn the_example_variables_are_those_of_the_built_in_providers() {
        let text = include_str!("env.example");
        for (name, provider) in parse("").providers {
            if let Some(key) = provider.key.filter(|_| provider.key_required) {
                assert!(text.contains(&format!("#{}=", key.name())), "{name}: {key}");
            }
        }
    }

    #[test]
    fn the_first_model_is_one_whose_key_is_there() {
        let cases: [(&str, &[&str], Option<&str>); 6] = [
            ("", &[], None),
            ("", &["GEMINI_API_KEY"], Some("gemini:gemini-3.8-flash")),
            ("", &["OPENAI_API_KEY", "ANTHROPIC_API_KEY"], Some("anthropic:claude-sonnet-5-5")),
            ("[defaults]\nmodel = \"ollama:qwen3\"", &["OPENAI_API_KEY"], Some("ollama:qwen3")),
            ("[defaults]\nmodel = \"xai:grok\"", &["OPENAI_API_KEY"], Some("openai:gpt-6.1-terra")),
            ("[defaults]\nmodel = \"script:demo\"", &[], None),
        ];
        for (text, set, expected) in cases {
            let found = ready_model(&parse(text), |name| set.contains(&name));
            assert_eq!(found.as_deref(), expected, "{text} {set:?}");
        }
        assert_eq!(first_model(&parse(""), |_| false), "anthropic:claude-sonnet-5-5");
    }
}
