//! `windlass config`: what the config says and where each value came from.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Failure, Global, Output};
use crate::{
    config::{Config, KNOWN_MODELS_DATE, Origin, Setting, json_schema},
    render::Table,
};

const PRECEDENCE: &str = "\
A value comes from the first of these that has it:
  1. an option of the command line     2. an environment variable
  3. windlass.toml                     4. the built-in default

windlass.toml is the file of --config or WINDLASS_CONFIG, else the one in this directory or in the nearest directory above it
that has one. Keys and other secrets are shown as references, never as values.";

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print every value and where it came from.
    #[command(after_help = PRECEDENCE)]
    Show {
        /// Also print the built-in table of known models
        #[arg(long)]
        all: bool,
    },
    /// Check the config file. Exit code 2 if it has errors; each is printed with its line.
    Check,
    /// Print a JSON Schema of windlass.toml for editors.
    Schema,
}

pub(super) fn run(global: &Global, command: &ConfigCommand) -> Result<ExitCode, Failure> {
    let (out, config) = (Output::new(global.json), global.config());
    match command {
        ConfigCommand::Show { all } => {
            let (shown, left_out) = shown(&global.loaded.settings, *all || out.json);
            let document = json!({"file": config.file, "settings": shown});
            out.print(&document, || table(&shown).render(None))?;
            if left_out > 0 && !out.json {
                let known = format!("{left_out} values of the built-in table of models of {KNOWN_MODELS_DATE}");
                out.note(format!("not shown: {known}; use --all, or `windlass models list`"));
            }
        }
        // A file with errors has ended the command before this.
        ConfigCommand::Check => out.print(&summary(config), || sentence(config))?,
        ConfigCommand::Schema => out.line(format!("{:#}", json_schema())),
    }
    Ok(ExitCode::SUCCESS)
}

/// The settings to show, and how many are left out.
fn shown(settings: &[Setting], all: bool) -> (Vec<&Setting>, usize) {
    let built_in_model = |setting: &&Setting| setting.path.starts_with("models.") && setting.origin == Origin::Default;
    let (mut table, mut shown): (Vec<&Setting>, Vec<&Setting>) = settings.iter().partition(built_in_model);
    let left_out = if all { 0 } else { table.len() };
    if all {
        shown.append(&mut table);
    }
    shown.sort_by(|left, right| left.path.cmp(&right.path));
    (shown, left_out)
}

fn table(settings: &[&Setting]) -> Table {
    let mut table = Table::new(&["KEY", "VALUE", "FROM"]);
    for setting in settings {
        let value = match &setting.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        table.row(vec![setting.path.clone(), value, setting.origin.to_string()]);
    }
    table
}

fn summary(config: &Config) -> Value {
    json!({
        "file": config.file, "ok": true, "providers": config.providers.len(), "aliases": config.aliases.len(),
        "defaultModel": config.default_model,
    })
}

fn sentence(config: &Config) -> String {
    match &config.file {
        None => "there is no windlass.toml here or above; the built-in defaults apply; create one with `windlass init`"
            .to_owned(),
        Some(file) => {
            let Config { providers, aliases, .. } = config;
            format!(
                "{} is valid: {} providers, {} other names of models",
                file.display(),
                providers.len(),
                aliases.len()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_table_of_known_models_is_left_out_and_counted() {
        let text = "[models.\"openai:gpt-5.4\"]\ncontext_window = 1000\n";
        let config = Config::parse(Some((Path::new("w.toml"), text))).unwrap();
        let (some, left_out) = shown(&config.settings, false);
        assert_eq!(some.len() + left_out, config.settings.len());
        let models: Vec<&str> =
            some.iter().map(|setting| setting.path.as_str()).filter(|path| path.starts_with("models")).collect();
        assert_eq!(models, ["models.\"openai:gpt-5.4\".context_window"], "what the file says is shown");
        let rendered = table(&some).render(None);
        assert!(rendered.contains("providers.anthropic.key"), "{rendered}");
        assert!(rendered.lines().any(|line| line.ends_with("w.toml:2")), "{rendered}");
        assert_eq!(shown(&config.settings, true).1, 0);
    }
}
