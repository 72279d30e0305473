//! `windlass init`: a config, an agent and an example of the variables, to start from.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueHint};
use serde_json::json;

use super::{Failure, Global, Output, failed, usage};
use crate::config::{Config, is_set, starter};

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Directory to write to; it is created if it does not exist
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    directory: PathBuf,

    /// Overwrite files that exist
    #[arg(long)]
    force: bool,
}

pub(super) fn run(global: &Global, args: &InitArgs) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    // The new file has no config above it yet.
    let config = Config::parse(None).map_err(usage)?;
    let model = starter::first_model(&config, is_set);
    let written = write(&args.directory, &model, args.force)?;
    let ready = starter::ready_model(&config, is_set).is_some();
    let variable = config.provider_of(&model).and_then(|(_, provider)| provider.key.as_ref()).map(|key| key.name());
    let key = variable.filter(|_| !ready).map(|name| format!("export {name}=…"));
    let enter = (args.directory != Path::new(".")).then(|| format!("cd {}", args.directory.display()));
    let next = [format!("windlass models test {model}"), "windlass dev".to_owned()];
    let next: Vec<String> = enter.into_iter().chain(key).chain(next).collect();
    out.print(&json!({"files": written, "model": model, "next": next}), || {
        let files = written.iter().map(|path| format!("wrote {}", path.display()));
        let steps = next.iter().map(|step| format!("  {step}"));
        let lines: Vec<String> = files.chain(["Next:".to_owned()]).chain(steps).collect();
        lines.join("\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes all files, or none if one of them exists.
fn write(directory: &Path, model: &str, force: bool) -> Result<Vec<PathBuf>, Failure> {
    let files = starter::files(model).map(|(name, text)| (directory.join(name), text));
    let existing: Vec<String> =
        files.iter().filter(|(path, _)| path.exists()).map(|(path, _)| path.display().to_string()).collect();
    if !force && !existing.is_empty() {
        let what = if existing.len() == 1 { "exists" } else { "exist" };
        let message =
            format!("{} {what} already; choose another directory, or overwrite with --force", existing.join(", "));
        return Err(usage(message));
    }
    for (path, text) in &files {
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
        written.map_err(|error| failed(format!("{} cannot be written: {error}", path.display())))?;
    }
    Ok(files.map(|(path, _)| path).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_if_one_of_the_files_exists() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("new");
        fs::create_dir_all(home.join("agents")).unwrap();
        fs::write(home.join("agents/assistant.toml"), "mine").unwrap();
        let refused = write(&home, "openai:x", false).unwrap_err().to_string();
        assert!(refused.contains("agents/assistant.toml exists already; choose another"), "{refused}");
        assert!(!home.join("windlass.toml").exists());
        let written = write(&home, "openai:x", true).unwrap();
        assert_eq!(written, ["windlass.toml", "agents/assistant.toml", ".env.example"].map(|name| home.join(name)));
        assert!(fs::read_to_string(home.join("agents/assistant.toml")).unwrap().contains("model = \"openai:x\""));
    }
}
