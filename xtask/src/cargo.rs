//! Paths of the workspace and its build, and running programs in it.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

pub(crate) fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Debug,
    Release,
}

/// The path of a binary of the workspace.
pub(crate) fn program(profile: Profile, name: &str) -> PathBuf {
    let folder = match profile {
        Profile::Debug => "debug",
        Profile::Release => "release",
    };
    target().join(folder).join(format!("{name}{}", env::consts::EXE_SUFFIX))
}

/// `cargo` with these arguments, in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root()).args(arguments);
    command
}

/// Prints the command, runs it, and returns an error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("`{shown}` could not be started"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// The command as it is typed in a shell.
fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_else(|| command.get_program());
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let set = set.map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()));
    let words = [program].into_iter().chain(command.get_args()).map(|word| word.to_string_lossy().into_owned());
    set.chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_command_is_printed_as_typed() {
        let mut command = Command::new("/usr/bin/cargo");
        command.args(["test", "--lib"]).env("CASES", "5").env_remove("OTHER");
        assert_eq!(show(&command), "CASES=5 cargo test --lib");
    }

    #[test]
    fn a_failure_names_the_command() {
        let error = run(cargo(&["no-such-command"]).stderr(Stdio::null())).unwrap_err().to_string();
        assert!(error.starts_with("`cargo no-such-command` failed: "), "{error}");
    }
}
