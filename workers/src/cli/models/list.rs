//! `windlass models list`.

use serde_json::{Value, json};
use windlass_api::models::ModelInfo;
use windlass_core::agent::nearest;
use windlass_models::{ModelSpec, ReasoningControl, script};

use super::{Failure, KeyState, Output};
use crate::{
    config::{Config, KNOWN_MODELS_DATE, is_set},
    failure::usage,
    render::Table,
    service::ModelCatalogue,
};

pub(super) fn run(
    config: &Config,
    catalogue: &ModelCatalogue,
    provider: Option<&str>,
    out: Output,
) -> Result<(), Failure> {
    if let Some(wanted) = provider.filter(|name| *name != script::SCHEME && !config.providers.contains_key(*name)) {
        let known = || config.providers.keys().map(String::as_str).chain([script::SCHEME]);
        return Err(usage(match nearest(wanted, known()) {
            Some(meant) => format!("there is no provider {wanted:?}; did you mean {meant}?"),
            None => format!("there is no provider {wanted:?}; there are {}", known().collect::<Vec<_>>().join(", ")),
        }));
    }
    let listed = catalogue.listing().models.iter().filter(|model| provider.is_none_or(|name| model.provider == name));
    // Every listed model can be resolved.
    let models: Vec<(&ModelInfo, ModelSpec, KeyState)> = listed
        .filter_map(|model| {
            let resolved = catalogue.registry().resolve(&model.id).ok()?;
            let key = config.providers.get(&model.provider).map(|provider| KeyState::of(provider, is_set));
            Some((model, (*resolved.spec).clone(), key.unwrap_or(KeyState::NotNeeded)))
        })
        .collect();
    let default = catalogue.listing().default_model_id.as_deref();
    let document = json!({
        "models": models.iter().map(|(model, spec, key)| row(model, spec, key)).collect::<Vec<_>>(),
        "providers": providers(config, provider),
        "defaultModelId": default,
        "knownModelsAsOf": KNOWN_MODELS_DATE,
    });
    out.print(&document, || table(&models, default).render(out.table_width()))?;
    if !out.json {
        out.note(format!(
            "Prices in US dollars for a million tokens, from the table of {KNOWN_MODELS_DATE} or windlass.toml. * is the \
             default. A provider can be asked for any other model, too: provider:model, with {}.",
            config.providers.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(())
}

fn row(model: &ModelInfo, spec: &ModelSpec, key: &KeyState) -> Value {
    let mut row = json!(model);
    row["capabilities"] = json!(spec);
    row["key"] = json!({"state": key.as_str(), "name": key.name()});
    row
}

fn providers(config: &Config, only: Option<&str>) -> Vec<Value> {
    let wanted = config.providers.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
    let provider = wanted.map(|(name, provider)| {
        let key = KeyState::of(provider, is_set);
        json!({
            "name": name, "api": provider.api.as_str(), "baseUrl": provider.base_url,
            "key": {"state": key.as_str(), "name": key.name()},
        })
    });
    provider.collect()
}

fn table(models: &[(&ModelInfo, ModelSpec, KeyState)], default: Option<&str>) -> Table {
    let mut table = Table::new(&["MODEL", "CONTEXT", "OUTPUT", "IN", "OUT", "CACHED", "READS", "THINKS", "KEY"]);
    for (model, spec, key) in models {
        let price = |of: Option<f64>| of.map(|price| price.to_string()).unwrap_or_default();
        let reads = match (spec.images, spec.documents) {
            (true, true) => "images, pdf",
            (true, false) => "images",
            (false, true) => "pdf",
            (false, false) => "text",
        };
        let scripted = model.provider == script::SCHEME;
        let thinks = match spec.reasoning {
            ReasoningControl::None => "",
            ReasoningControl::Effort => "effort",
            ReasoningControl::Budget => "budget",
        };
        let mark = if default == Some(model.id.as_str()) { "*" } else { "" };
        let alias = if model.label == model.id {
            format!(" = {}:{}", model.provider, model.vendor_model_id)
        } else {
            String::new()
        };
        table.row(vec![
            format!("{}{alias}{mark}", model.id),
            spec.context_window.map(tokens).unwrap_or_default(),
            spec.max_output_tokens.map(|count| tokens(count.into())).unwrap_or_default(),
            price(spec.prices.map(|prices| prices.input)),
            price(spec.prices.map(|prices| prices.output)),
            price(spec.prices.and_then(|prices| prices.cache_read)),
            if scripted { String::new() } else { reads.to_owned() },
            thinks.to_owned(),
            key.to_string(),
        ]);
    }
    table
}

/// `200k`, `1.05M`.
fn tokens(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a number of tokens for people")]
    let count = count as f64;
    let short = |number: f64| {
        let text = format!("{number:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if count >= 1e6 {
        format!("{}M", short(count / 1e6))
    } else if count >= 1e3 {
        format!("{}k", short(count / 1e3))
    } else {
        count.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::CatalogueOptions;

    #[test]
    fn numbers_of_tokens_are_short() {
        for (count, text) in [(512, "512"), (8192, "8.19k"), (200_000, "200k"), (1_050_000, "1.05M")] {
            assert_eq!(tokens(count), text);
        }
    }

    #[test]
    fn the_list_has_scripts_other_names_and_known_models_and_marks_the_default() {
        let text = "[models.fast]\nmodel = \"anthropic:claude-haiku-4-5\"\n[defaults]\nmodel = \"fast\"\n";
        let config = Config::parse(Some(("windlass.toml".as_ref(), text))).unwrap();
        let options = CatalogueOptions { config: config.into(), ..CatalogueOptions::default() };
        let catalogue = options.models().unwrap();
        let models: Vec<_> = catalogue
            .listing()
            .models
            .iter()
            .map(|model| {
                let spec = catalogue.registry().resolve(&model.id).unwrap().spec;
                (model, (*spec).clone(), KeyState::NotNeeded)
            })
            .collect();
        let text = table(&models, catalogue.listing().default_model_id.as_deref()).render(None);
        let line = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {text}"));
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("fast"), "fast = anthropic:claude-haiku-4-5* 200k 64k 1 5 0.1 images, pdf budget not needed");
        assert_eq!(line("script:echo"), "script:echo not needed");
        assert!(line("openai:gpt-4.1 ").starts_with("openai:gpt-4.1 1.05M 32.77k 2 8 0.5 images, pdf not needed"));
    }
}
