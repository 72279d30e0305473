//! The options that every command has: server, store, workspace, TLS and output.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, ValueHint};
use secrecy::SecretString;
use windlass_core::ids::WorkspaceId;
use windlass_store::postgres;

use super::{Failure, settings::Loaded, usage, values};
use crate::{
    config::Config,
    dev::Place,
    render::Hint,
    service::{AnyStore, Missing, SecretKeys, StoreLocation, store::DATABASE},
    temporal::{Connect, TlsFiles},
};

pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:7233";
/// The variable with the Postgres store's URL, which contains a password.
const POSTGRES: &str = "WINDLASS_POSTGRES_URL";

/// The variable with the keys that encrypt secrets.
const SECRETS_KEY: &str = "WINDLASS_SECRETS_KEY";

/// The variable with the API key for --server.
const SERVER_KEY: &str = "WINDLASS_API_KEY";

pub(super) const DEFAULT_NAMESPACE: &str = "default";
pub(super) const DEFAULT_TASK_QUEUE: &str = "windlass";
pub(super) const DEFAULT_DATA_DIR: &str = ".windlass";
const DEFAULT_WORKSPACE: &str = "default";

const CONFIG: &str = "Config";
const SERVER: &str = "Server and data";
const TLS: &str = "Secure connections";
const OUTPUT: &str = "Output";

/// The variable with the API key of Temporal. A key is never an argument: all users of the machine can see arguments.
const API_KEY: &str = "WINDLASS_TEMPORAL_API_KEY";

#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Config file [default: windlass.toml in this directory or in the nearest directory above it that has one]
    #[arg(long, global = true, env = "WINDLASS_CONFIG", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = CONFIG)]
    pub config: Option<PathBuf>,

    /// Read no config file
    #[arg(long, global = true, help_heading = CONFIG)]
    pub no_config: bool,

    /// What the config file says.
    #[arg(skip)]
    pub loaded: Loaded,

    /// URL of an API server to use instead of Temporal and the store; its key is in WINDLASS_API_KEY or --api-key-file
    #[arg(long, global = true, env = "WINDLASS_SERVER", value_name = "URL", value_hint = ValueHint::Url, help_heading = SERVER)]
    pub server: Option<String>,

    /// File with the API key for --server; or set WINDLASS_API_KEY
    #[arg(long, global = true, env = "WINDLASS_API_KEY_FILE", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = SERVER)]
    pub api_key_file: Option<PathBuf>,

    /// Temporal server [default: 127.0.0.1:7233]
    #[arg(long, global = true, env = "WINDLASS_TEMPORAL", value_name = "HOST:PORT", help_heading = SERVER)]
    pub temporal: Option<String>,

    /// Temporal namespace
    #[arg(long, global = true, env = "WINDLASS_NAMESPACE", default_value = DEFAULT_NAMESPACE, help_heading = SERVER)]
    pub namespace: String,

    /// Task queue that workers poll and runs are started on
    #[arg(long, global = true, env = "WINDLASS_TASK_QUEUE", default_value = DEFAULT_TASK_QUEUE, value_name = "NAME", help_heading = SERVER)]
    pub task_queue: String,

    /// Directory of the store; the worker and this command must use the same one
    #[arg(long, global = true, env = "WINDLASS_DATA_DIR", default_value = DEFAULT_DATA_DIR, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = SERVER)]
    pub data_dir: PathBuf,

    /// File with the URL of a Postgres store, which replaces the store in the data directory; or set
    /// WINDLASS_POSTGRES_URL
    #[arg(long, global = true, env = "WINDLASS_POSTGRES_URL_FILE", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = SERVER)]
    pub postgres_url_file: Option<PathBuf>,

    /// File with the key that encrypts secrets; or set WINDLASS_SECRETS_KEY [default: created in the data directory]
    #[arg(long, global = true, env = "WINDLASS_SECRETS_KEY_FILE", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = SERVER)]
    pub secrets_key_file: Option<PathBuf>,

    /// PEM file of the CA of the Postgres server's certificate [default: the system's CAs]
    #[arg(long, global = true, env = "WINDLASS_POSTGRES_CA", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TLS, hide_short_help = true)]
    pub postgres_ca: Option<PathBuf>,

    /// Workspace of the runs
    #[arg(long, global = true, env = "WINDLASS_WORKSPACE", default_value = DEFAULT_WORKSPACE, value_name = "NAME", value_parser = values::workspace, help_heading = SERVER)]
    pub workspace: WorkspaceId,

    /// Use TLS; implied by the other TLS options and by an API key
    #[arg(long, global = true, env = "WINDLASS_TLS", help_heading = TLS, hide_short_help = true)]
    pub tls: bool,

    /// PEM file of the CA of the Temporal server's certificate [default: the system's CAs]
    #[arg(long, global = true, env = "WINDLASS_TLS_CA", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TLS, hide_short_help = true)]
    pub tls_ca: Option<PathBuf>,

    /// Name in the Temporal server's certificate, if it differs from the host name
    #[arg(long, global = true, env = "WINDLASS_TLS_SERVER_NAME", value_name = "NAME", help_heading = TLS, hide_short_help = true)]
    pub tls_server_name: Option<String>,

    /// PEM file of the client's certificate, for mutual TLS
    #[arg(long, global = true, env = "WINDLASS_TLS_CERT", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TLS, hide_short_help = true)]
    pub tls_cert: Option<PathBuf>,

    /// PEM file of the client's private key, for mutual TLS
    #[arg(long, global = true, env = "WINDLASS_TLS_KEY", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TLS, hide_short_help = true)]
    pub tls_key: Option<PathBuf>,

    /// File with the API key of the Temporal server; or set WINDLASS_TEMPORAL_API_KEY
    #[arg(long, global = true, env = "WINDLASS_TEMPORAL_API_KEY_FILE", value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TLS, hide_short_help = true)]
    pub temporal_api_key_file: Option<PathBuf>,

    /// Print JSON on stdout: one document, or one per line for streams
    #[arg(long, global = true, help_heading = OUTPUT)]
    pub json: bool,

    /// Log filter, for example `info` or `warn,windlass=debug` [default: info for dev, serve and worker, else warn]
    #[arg(long, global = true, env = "WINDLASS_LOG", value_name = "FILTER", help_heading = OUTPUT)]
    pub log: Option<String>,

    /// Log as JSON lines
    #[arg(long, global = true, env = "WINDLASS_JSON_LOGS", help_heading = OUTPUT)]
    pub json_logs: bool,
}

impl Global {
    pub(crate) fn address(&self) -> &str {
        self.temporal.as_deref().unwrap_or(DEFAULT_ADDRESS)
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.data_dir.join(DATABASE)
    }

    /// The data directory, if it is not the default.
    pub(crate) fn given_data_dir(&self) -> Option<&Path> {
        Some(self.data_dir.as_path()).filter(|given| *given != Path::new(DEFAULT_DATA_DIR))
    }

    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.loaded.config
    }

    /// The Temporal connection of a process with this role.
    pub(crate) fn connect(&self, role: &str) -> Result<Connect, Failure> {
        let files = TlsFiles {
            server_ca: self.tls_ca.clone(),
            server_name: self.tls_server_name.clone(),
            client_cert: self.tls_cert.clone(),
            client_key: self.tls_key.clone(),
        };
        let any_file = [&self.tls_ca, &self.tls_cert, &self.tls_key].iter().any(|file| file.is_some());
        let tls = self.tls || any_file || self.tls_server_name.is_some();
        Ok(Connect {
            address: self.address().to_owned(),
            namespace: self.namespace.clone(),
            tls: tls.then_some(files),
            api_key: self.api_key()?,
            identity: identity(role),
        })
    }

    fn api_key(&self) -> Result<Option<SecretString>, Failure> {
        secret("API key file", self.temporal_api_key_file.as_deref(), API_KEY)
    }

    /// The API key for --server.
    pub(crate) fn server_key(&self) -> Result<SecretString, Failure> {
        let key = secret("API key file", self.api_key_file.as_deref(), SERVER_KEY)?;
        key.ok_or_else(|| usage("--server needs an API key: set WINDLASS_API_KEY or --api-key-file"))
    }

    /// Where the store is: in Postgres if a URL is given, else in the data directory.
    pub(crate) fn store(&self) -> Result<StoreLocation, Failure> {
        Ok(self.postgres()?.map_or_else(|| StoreLocation::DataDir(self.data_dir.clone()), StoreLocation::Postgres))
    }

    pub(crate) async fn open_store(&self, missing: Missing) -> Result<AnyStore, Failure> {
        self.store()?.open(missing).await
    }

    /// Where the keys of secrets are: in the given file or variable, else in the data directory. A Postgres store has no
    /// default.
    pub(crate) fn secret_keys(&self) -> Result<SecretKeys, Failure> {
        if let Some(path) = &self.secrets_key_file {
            return Ok(SecretKeys::File(path.clone()));
        }
        Ok(match (secret("", None, SECRETS_KEY)?, self.store()?) {
            (Some(text), _) => SecretKeys::Variable(text, SECRETS_KEY),
            (None, StoreLocation::DataDir(data_dir)) => SecretKeys::DataDir(data_dir),
            (None, StoreLocation::Postgres(_)) => SecretKeys::Absent,
        })
    }

    /// The installation on the data directory, for a server in this process.
    pub(crate) fn place(&self, role: &str) -> Result<Place, Failure> {
        Ok(Place {
            data_dir: self.data_dir.clone(),
            namespace: self.namespace.clone(),
            task_queue: self.task_queue.clone(),
            workspace: self.workspace.clone(),
            secret_keys: self.secret_keys()?,
            identity: self.connect(role)?.identity,
        })
    }

    /// Where the Postgres store is, if there is one.
    pub(crate) fn postgres(&self) -> Result<Option<postgres::Options>, Failure> {
        let url = secret("file of the Postgres URL", self.postgres_url_file.as_deref(), POSTGRES)?;
        let with_ca =
            |url| postgres::Options { root_certificates: self.postgres_ca.clone(), ..postgres::Options::new(url) };
        Ok(url.map(with_ca))
    }

    /// Builds commands that use the same server and data. Values from the environment apply to them, too.
    pub(crate) fn hint(&self) -> Hint {
        let data_dir = self.data_dir.to_string_lossy();
        let server = self.server.as_deref().unwrap_or_default();
        let key_file = self.api_key_file.as_deref().map(Path::to_string_lossy).unwrap_or_default();
        let config = self.config.as_deref().map(Path::to_string_lossy).unwrap_or_default();
        // What the config file says applies to the next command, too.
        let file = &self.loaded.config.defaults;
        let file_data_dir = file.data_dir.as_deref().map(Path::to_string_lossy);
        let or = |file: &'_ Option<String>, default: &'static str| file.clone().unwrap_or_else(|| default.to_owned());
        let (no_temporal, namespace, queue) =
            (or(&file.temporal, ""), or(&file.namespace, DEFAULT_NAMESPACE), or(&file.task_queue, DEFAULT_TASK_QUEUE));
        let options = [
            ("--config", &*config, "", "WINDLASS_CONFIG"),
            ("--server", server, "", "WINDLASS_SERVER"),
            ("--api-key-file", &key_file, "", "WINDLASS_API_KEY_FILE"),
            ("--temporal", self.temporal.as_deref().unwrap_or_default(), &*no_temporal, "WINDLASS_TEMPORAL"),
            ("--namespace", &self.namespace, &*namespace, "WINDLASS_NAMESPACE"),
            ("--task-queue", &self.task_queue, &*queue, "WINDLASS_TASK_QUEUE"),
            ("--data-dir", &data_dir, file_data_dir.as_deref().unwrap_or(DEFAULT_DATA_DIR), "WINDLASS_DATA_DIR"),
            ("--workspace", self.workspace.as_str(), DEFAULT_WORKSPACE, "WINDLASS_WORKSPACE"),
        ];
        // With --server, the options of Temporal and the store have no effect.
        let over_api = ["--config", "--server", "--api-key-file", "--workspace"];
        let given = options.into_iter().filter(|(option, value, default, variable)| {
            let matters = self.server.is_none() || over_api.contains(option);
            matters && value != default && std::env::var(variable).ok().as_deref() != Some(*value)
        });
        let program = std::env::args().next().unwrap_or_else(|| "windlass".to_owned());
        Hint::new(&program, given.map(|(option, value, _, _)| (option, value)))
    }
}

/// The contents of a file, or else of a variable.
fn secret(what: &str, file: Option<&Path>, variable: &str) -> Result<Option<SecretString>, Failure> {
    let Some(path) = file else {
        return Ok(std::env::var(variable).ok().filter(|secret| !secret.is_empty()).map(SecretString::from));
    };
    let text = fs::read_to_string(path)
        .map_err(|error| usage(format!("the {what} {} cannot be read: {error}", path.display())))?;
    match text.trim() {
        "" => Err(usage(format!("the {what} {} is empty", path.display()))),
        secret => Ok(Some(SecretString::from(secret))),
    }
}

/// The identity that Temporal shows for this process.
fn identity(role: &str) -> String {
    let host = rustix::system::uname();
    format!("windlass-{role}-{}@{}", std::process::id(), host.nodename().to_string_lossy())
}
