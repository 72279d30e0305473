//! `windlass secrets`: credentials that agents and tools refer to by name. They are in the store; no server is needed.

use std::{
    env, fs,
    io::{self, IsTerminal as _, Read as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Subcommand, ValueHint};
use secrecy::SecretString;
use serde_json::json;
use windlass_core::time::Timestamp;
use windlass_store::SecretRow;

use super::{Failure, Global, Output, failed, now, usage};
use crate::{
    render::{Table, age},
    service::{AnyStore, Missing},
};

#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Set a secret of a workspace, or replace its value
    Set(SetArgs),
    /// List the secrets of a workspace; values are never shown
    List,
    /// Remove a secret
    Rm {
        /// Name of the secret, as shown by `secrets list`
        name: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass secrets set SEARCH_KEY < key.txt
  windlass secrets set SEARCH_KEY --from-env SEARCH_KEY --workspace acme
  windlass secrets set CLIENT_KEY --from-file client.pem

The value is encrypted before it is stored. One line break at its end is removed, except with --from-env. The value is never
an argument, because all users of the machine can see arguments. Workers and API servers need the same key: see
--secrets-key-file.")]
pub struct SetArgs {
    /// Name of the secret: letters, digits, `_`, `.` and `-`
    name: String,

    /// Read the value from an environment variable [default: from stdin]
    #[arg(long, value_name = "VARIABLE", conflicts_with = "from_file")]
    from_env: Option<String>,

    /// Read the value from a file [default: from stdin]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    from_file: Option<PathBuf>,
}

pub(super) async fn run(global: &Global, command: SecretsCommand) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    let store = global.open_store(Missing::Create).await?;
    let done = execute(global, command, &store, out).await;
    store.close().await?;
    done
}

async fn execute(global: &Global, command: SecretsCommand, store: &AnyStore, out: Output) -> Result<ExitCode, Failure> {
    let (workspace, port) = (&global.workspace, store.port());
    match command {
        SecretsCommand::Set(args) => {
            let vault = global.secret_keys()?.vault(port)?.ok_or_else(|| {
                usage(
                    "a Postgres store needs a key for secrets: set --secrets-key-file or WINDLASS_SECRETS_KEY; create a \
                     key with `openssl rand -base64 32`",
                )
            })?;
            let row = vault.set(workspace, &args.name, &args.value()?).await?;
            out.print(&row, || format!("set {}", row.name))?;
        }
        SecretsCommand::List => {
            let secrets = port.secrets(workspace).await?;
            out.print(&json!({"secrets": secrets}), || table(&secrets, now()).render(out.table_width()))?;
        }
        SecretsCommand::Rm { name } => {
            if !port.remove_secret(workspace, &name).await? {
                return Err(failed(format!("workspace {workspace} has no secret {name}; see `windlass secrets list`")));
            }
            out.print(&json!({"name": name, "removed": true}), || format!("removed {name}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl SetArgs {
    fn value(&self) -> Result<SecretString, Failure> {
        if let Some(variable) = &self.from_env {
            let value = env::var(variable).map_err(|error| usage(format!("the variable {variable}: {error}")))?;
            return Ok(value.into());
        }
        let mut text = String::new();
        match &self.from_file {
            Some(path) => {
                text = fs::read_to_string(path)
                    .map_err(|error| usage(format!("{} cannot be read: {error}", path.display())))?;
            }
            None if io::stdin().is_terminal() => {
                return Err(usage("pipe the value to stdin, or use --from-env or --from-file"));
            }
            None => drop(io::stdin().lock().read_to_string(&mut text)?),
        }
        let line_break = ["\r\n", "\n"].into_iter().find(|end| text.ends_with(end)).map_or(0, str::len);
        text.truncate(text.len() - line_break);
        Ok(text.into())
    }
}

fn table(secrets: &[SecretRow], now: Timestamp) -> Table {
    let mut table = Table::new(&["NAME", "KEY", "CREATED", "UPDATED"]);
    for secret in secrets {
        let SecretRow { name, key_id, created_at, updated_at } = secret;
        table.row(vec![name.clone(), key_id.clone(), age(now, *created_at), age(now, *updated_at)]);
    }
    table
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn a_value_from_a_file_loses_one_line_break_and_nothing_else() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let args = SetArgs { name: "N".to_owned(), from_env: None, from_file: Some(file.path().to_owned()) };
        for (text, expected) in [("v", "v"), ("v\n", "v"), ("v\r\n", "v"), (" v \n\n", " v \n"), ("a\nb\n", "a\nb")] {
            fs::write(file.path(), text).unwrap();
            assert_eq!(args.value().unwrap().expose_secret(), expected, "{text:?}");
        }
    }

    #[test]
    fn the_list_shows_names_keys_and_ages() {
        let row = SecretRow {
            name: "TOKEN".to_owned(),
            key_id: "0123456789abcdef".to_owned(),
            created_at: Timestamp(0),
            updated_at: Timestamp(60_000),
        };
        let expected = "NAME   KEY               CREATED  UPDATED\nTOKEN  0123456789abcdef  2m       1m";
        assert_eq!(table(&[row], Timestamp(120_000)).render(None), expected);
    }
}
