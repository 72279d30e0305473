//! `windlass dev` as the SDKs meet it: a process of its own, with a key and scripted models.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::process::Process;
pub(crate) use crate::support::server::lasting_port;

pub(crate) const KEY: &str = "wl_sdk_tests_0123456789abcdef";
pub(crate) const WORKSPACE: &str = "sdk-tests";

pub(crate) struct Dev {
    pub(crate) url: String,
    dir: TempDir,
    pub(crate) listen: String,
    args: Vec<OsString>,
    variables: &'static [(&'static str, &'static str)],
    process: Option<Process>,
}

impl Dev {
    pub(crate) fn start(local_tool_timeout: &'static str) -> Self {
        let args = ["--port", "0", "--local-tool-timeout", local_tool_timeout].map(OsString::from);
        let files = ["--scripts".into(), here("scripts.json").into(), "--agents".into(), here("agents").into()];
        Self::start_with(args.into_iter().chain(files).collect())
    }

    /// With these options beside the key and the workspace.
    pub(crate) fn start_with(args: Vec<OsString>) -> Self {
        Self::start_in(&[], args)
    }

    /// With these variables of the environment, too.
    pub(crate) fn start_in(variables: &'static [(&'static str, &'static str)], args: Vec<OsString>) -> Self {
        let dir = TempDir::new().unwrap();
        let listen = format!("127.0.0.1:{}", lasting_port());
        let mut dev = Self { url: format!("http://{listen}"), dir, listen, args, variables, process: None };
        dev.start_again();
        dev
    }

    pub(crate) fn data_dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Asks it to end, as a deployment would, and waits until it has.
    pub(crate) fn stop(&mut self) {
        self.process.take().unwrap().terminate();
    }

    /// On the same data, at the same address.
    pub(crate) fn start_again(&mut self) {
        self.start_as(Command::new(binary()));
    }

    /// On the same data, at the same address, by a command that ends with the program's name.
    pub(crate) fn start_as(&mut self, mut command: Command) {
        command.args(["dev", "--json", "--listen", &self.listen]).arg("--data-dir").arg(self.dir.path());
        command.args(["--api-key", KEY, "--workspace", WORKSPACE]).args(&self.args);
        command.envs(self.variables.iter().copied());
        let process = Process::spawn(command);
        let banner: Value = serde_json::from_str(&process.line(|line| line.contains("\"api\""))).unwrap();
        assert_eq!(banner["api"], self.url.as_str());
        self.process = Some(process);
    }
}

pub(crate) fn binary() -> PathBuf {
    let path = std::env::var_os("WINDLASS_BIN");
    PathBuf::from(path.expect("WINDLASS_BIN names the built binary; `cargo xtask test` builds it and sets it"))
}

/// A file beside this one.
pub(super) fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("it/sdk").join(name)
}
