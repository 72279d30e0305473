//! `windlass secrets`: credentials that agents and tools refer to by name. They are in the store; no server is needed.

use std::{
    env, fs,
    io::{self, IsTerminal as _, Read as _},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::{Args, Subcommand, ValueHint};
use secrecy::SecretString;
use serde_json::json;
use windlass_core::time::Timestamp;
use windlass_store::{Rotated, SecretRow, Store, Vault};

use super::{Failure, Global, Output, exit, failed, now, usage};
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
    /// Encrypt the secrets of all workspaces with the first key of the key ring
    #[command(after_help = "\
To replace a key: put the new key before the old one in the key file or in WINDLASS_SECRETS_KEY, for all processes that use
the store, and restart them. Then run this command, and remove the old key. The command can be repeated, and workers keep
running meanwhile. If a value cannot be decrypted, the command says how many there are and exits with status 1: keep the old
keys then.")]
    Rotate,
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
            let row = vault_of(global, port)?.set(workspace, &args.name, &args.value()?).await?;
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
        SecretsCommand::Rotate => {
            let rotated = vault_of(global, port)?.rotate().await?;
            out.print(&rotated, || rotation(rotated))?;
            if rotated.unreadable > 0 {
                return Ok(ExitCode::from(exit::FAILED));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn vault_of(global: &Global, store: Arc<dyn Store>) -> Result<Vault, Failure> {
    global.secret_keys()?.vault(store)?.ok_or_else(|| {
        usage(
            "a Postgres store needs a key for secrets: set --secrets-key-file or WINDLASS_SECRETS_KEY; create a key with \
             `openssl rand -base64 32`",
        )
    })
}

/// What a rotation did, in words.
fn rotation(Rotated { rotated, unreadable }: Rotated) -> String {
    let values = |count: u64| format!("{count} {}", if count == 1 { "value" } else { "values" });
    let done = match (rotated, unreadable) {
        (0, 0) => "every value is encrypted with the current key already".to_owned(),
        _ => format!("{} encrypted with the current key", values(rotated)),
    };
    match unreadable {
        0 => done,
        _ => format!(
            "{done}; {} could not be decrypted with the keys of this process (the warnings name them): add the missing \
             key and repeat, or set these secrets again",
            values(unreadable)
        ),
    }
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
    fn a_rotation_says_how_many_values_it_encrypted_and_how_many_it_could_not_read() {
        let said = |rotated, unreadable| rotation(Rotated { rotated, unreadable });
        assert_eq!(said(0, 0), "every value is encrypted with the current key already");
        assert_eq!(said(1, 0), "1 value encrypted with the current key");
        assert!(said(2, 1).starts_with("2 values encrypted with the current key; 1 value could not be decrypted"));
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
