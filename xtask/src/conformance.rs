//! `cargo xtask conformance`: the official conformance tests of the Model Context Protocol, of our server and of our
//! client, for both revisions.
//!
//! `tests/fixtures/mcp-conformance/expected.json` has the scenarios that are not passed, with the reason of each. The
//! command fails if the results differ from it in either direction.

mod report;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::report::{Expected, Outcome, Scenario, Side};
use crate::{
    bench::free_port,
    cargo::{Profile, cargo, program, root, run as run_command, target},
    load::{Running, ready},
    tools::{self, McpConformance},
};

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];
const KEY: &str = "wl_conformance";
/// Client scenarios at once. Most of their time the tests wait for their own servers to close.
const AT_ONCE: usize = 12;
/// Of one scenario. A client starts a whole `windlass dev`.
const TIMEOUT_MS: &str = "60000";

pub(crate) fn run() -> Result<()> {
    run_command(&mut cargo(&["build", "-p", "windlass"]))?;
    on_existing_build()
}

/// As [`run`], on the existing build.
pub(crate) fn on_existing_build() -> Result<()> {
    let suite = Suite::prepare()?;
    let expected = Expected::read(&fs::read_to_string(suite.fixtures.join("expected.json"))?)?;
    let mut outcomes = Vec::new();
    for revision in REVISIONS {
        let scenarios = report::scenarios(&suite.output(&["list", "--requirements", revision])?, revision);
        outcomes.extend(suite.server(revision, &scenarios)?);
        outcomes.extend(suite.client(&scenarios)?);
    }
    outcomes.sort_by_key(|outcome| (outcome.scenario.side, outcome.scenario.revision));
    println!("{}", report::table(&outcomes, &expected));
    let differences = report::differences(&outcomes, &expected);
    if !differences.is_empty() {
        bail!("{}\ncorrect the code, or tests/fixtures/mcp-conformance/expected.json", differences.join("\n"));
    }
    Ok(())
}

/// The installed tests, and where they run.
struct Suite {
    tests: McpConformance,
    fixtures: PathBuf,
    folder: PathBuf,
}

impl Suite {
    fn prepare() -> Result<Self> {
        let folder = target().join("mcp-conformance");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("{} could not be emptied", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("{} could not be created", folder.display()))?;
        let fixtures = root().join("tests/fixtures/mcp-conformance");
        Ok(Self { tests: tools::mcp_conformance()?, fixtures, folder })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.tests.node);
        command.arg(&self.tests.program).args(arguments).current_dir(&self.folder);
        command
    }

    /// What the tests print. They exit with 1 if a check failed, so the status says nothing.
    fn output(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments).output().context("the conformance tests could not be started")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn server(&self, revision: &'static str, scenarios: &[Scenario]) -> Result<Vec<Outcome>> {
        let (_dev, api) = self.dev(revision)?;
        let mut proxy = Command::new(&self.tests.node);
        proxy.arg(self.fixtures.join("proxy.mjs")).args([&api, KEY]);
        let (_proxy, url) = ready(proxy, "proxy")?;
        let results = self.folder.join(format!("server-{revision}"));
        let url = format!("{url}/mcp");
        let place = results.display().to_string();
        println!("the server, revision {revision}");
        self.output(&["server", "--url", &url, "--requirements", revision, "--timeout", TIMEOUT_MS, "-o", &place])?;
        let of_server = scenarios.iter().filter(|scenario| scenario.side == Side::Server);
        of_server.map(|scenario| outcome(scenario, &results, &format!("server-{}", scenario.name))).collect()
    }

    fn dev(&self, revision: &str) -> Result<(Running, String)> {
        let node = self.tests.node.display().to_string();
        let forms = self.fixtures.join("forms.mjs").display().to_string();
        let config = self.folder.join("windlass.toml");
        fs::write(&config, format!("[mcp.forms]\ncommand = [{node:?}, {forms:?}]\n"))?;
        let mut command = Command::new(program(Profile::Debug, "windlass"));
        command.args(["dev", "--json", "--log", "error", "--listen", "127.0.0.1:0"]).arg("--config").arg(&config);
        command.args(["--port", &free_port()?.to_string()]).arg("--agents").arg(self.fixtures.join("agents"));
        command.arg("--scripts").arg(self.fixtures.join("scripts.json"));
        command.arg("--data-dir").arg(self.folder.join(format!("data-{revision}"))).env("WINDLASS_API_KEY", KEY);
        ready(command, "api")
    }

    /// One scenario after the other on each of a few threads: all at once, as the tests do it, they take too long on a
    /// small machine and those about timing fail.
    fn client(&self, scenarios: &[Scenario]) -> Result<Vec<Outcome>> {
        let of_client = scenarios.iter().filter(|scenario| scenario.side == Side::Client);
        let queue = Mutex::new(of_client.enumerate().collect::<Vec<_>>().into_iter());
        let outcomes = Mutex::new(Vec::new());
        if let Some(scenario) = scenarios.first() {
            println!("the client, revision {}", scenario.revision);
        }
        let work = || {
            loop {
                let next = queue.lock().ok().and_then(|mut queue| queue.next());
                let Some((index, scenario)) = next else { return };
                let outcome = self.client_scenario(scenario);
                if let Ok(mut outcomes) = outcomes.lock() {
                    outcomes.push((index, outcome));
                }
            }
        };
        thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
        let mut outcomes = outcomes.into_inner().unwrap_or_default();
        outcomes.sort_by_key(|(index, _)| *index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn client_scenario(&self, scenario: &Scenario) -> Result<Outcome> {
        let client = format!("{} {}", self.tests.node.display(), self.fixtures.join("client.mjs").display());
        let results = self.folder.join(format!("client-{}", scenario.revision));
        let mut command = self.command(&["client", "--command", &client, "--scenario", &scenario.name]);
        command.args(["--spec-version", scenario.revision, "--force", "--timeout", TIMEOUT_MS, "-o"]).arg(&results);
        command.env("WINDLASS_BIN", program(Profile::Debug, "windlass"));
        command.output().context("the conformance tests could not be started")?;
        outcome(scenario, &results, &scenario.name)
    }
}

/// The checks of a scenario, in the folder with its name and a time.
fn outcome(scenario: &Scenario, results: &Path, name: &str) -> Result<Outcome> {
    let (parent, name) = match name.rsplit_once('/') {
        Some((folder, name)) => (results.join(folder), name),
        None => (results.to_owned(), name),
    };
    let folders =
        fs::read_dir(&parent).with_context(|| format!("the conformance tests left no {}", parent.display()))?;
    let is_result =
        |file: &str| file.strip_prefix(name).is_some_and(|time| time.starts_with("-20") && time.len() == 25);
    let folder = folders
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.file_name().and_then(|file| file.to_str()).is_some_and(is_result))
        .with_context(|| format!("the conformance tests did not run {}", scenario.name))?;
    let checks = fs::read_to_string(folder.join("checks.json"))
        .with_context(|| format!("{} has no checks", folder.display()))?;
    let checks: Vec<Value> = serde_json::from_str(&checks)?;
    Ok(Outcome::of(scenario.clone(), &checks))
}
