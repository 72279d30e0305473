//! `cargo xtask schemathesis`: generated requests from the OpenAPI document against `windlass dev`.
//!
//! No response may be a server error, and every response must conform to the document.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{
    bench::free_port,
    cargo::{Profile, cargo, program, run as run_command, target},
    load::{Running, ready},
    tools,
};

pub(crate) const USAGE: &str = "schemathesis [--cases N] [--seed N]";
const KEY: &str = "wl_schemathesis";
const ROOT: &str = "/api/v1/workspaces/default";
/// Checks of every response. The status is not checked: every route may also answer with the errors of the guide.
const CHECKS: &str = "not_a_server_error,response_schema_conformance,content_type_conformance,\
                      response_headers_conformance,unsupported_method,ignored_auth";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let sizes = Sizes::parse(arguments)?;
    run_command(&mut cargo(&["build", "-p", "windlass"]))?;
    sizes.test("coverage,fuzzing")
}

/// The short form, on the existing build.
pub(crate) fn short() -> Result<()> {
    Sizes { cases: 4, seed: 1 }.test("fuzzing")
}

#[derive(Debug, PartialEq, Eq)]
struct Sizes {
    /// Cases per operation.
    cases: u64,
    seed: u64,
}

impl Sizes {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut sizes = Self { cases: 100, seed: 1 };
        for option in arguments.chunks(2) {
            let place = match option {
                [name, _] if name == "--cases" => &mut sizes.cases,
                [name, _] if name == "--seed" => &mut sizes.seed,
                _ => bail!("usage: cargo xtask {USAGE}"),
            };
            let (name, number) = (&option[0], &option[1]);
            *place = number.parse().ok().with_context(|| format!("{name} {number}: write a whole number"))?;
        }
        Ok(sizes)
    }

    fn test(&self, phases: &str) -> Result<()> {
        let schemathesis = tools::schemathesis()?;
        let folder = target().join("schemathesis");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("{} could not be emptied", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("{} could not be created", folder.display()))?;
        let (_dev, api) = dev(&folder)?;
        let config = folder.join("schemathesis.toml");
        fs::write(&config, configuration(api.trim_start_matches("http://"))?)?;
        let mut command = Command::new(schemathesis.join("bin").join("schemathesis"));
        command.env("PYTHONPATH", &schemathesis).current_dir(&folder).arg("--config-file").arg(&config);
        command.args(["run", &format!("{api}/openapi.json"), "--header", &format!("Authorization: Bearer {KEY}")]);
        command.args(["--checks", CHECKS, "--phases", phases, "--warnings", "off", "--request-timeout", "30"]);
        command.args(["--max-examples", &self.cases.to_string(), "--seed", &self.seed.to_string()]);
        run_command(&mut command)
    }
}

fn dev(folder: &Path) -> Result<(Running, String)> {
    let mut command = Command::new(program(Profile::Debug, "windlass"));
    command.args(["dev", "--json", "--log", "error", "--listen", "127.0.0.1:0", "--port", &free_port()?.to_string()]);
    command.arg("--data-dir").arg(folder.join("data")).env("WINDLASS_API_KEY", KEY);
    ready(command, "api")
}

/// A configuration with ids that exist, so that requests get past the first checks. Operations that end a run or a
/// session get their own.
fn configuration(api: &str) -> Result<String> {
    let start = |agent: &str| id(api, "/agent-runs", &json!({"agentId": agent, "prompt": "Go."}), "runId");
    let open =
        || id(api, "/agent-sessions", &json!({"systemPrompt": "Be kind.", "modelId": "script:echo"}), "sessionId");
    let ended = start("echo")?;
    // The stream of a run ends with the run.
    exchange(api, &format!("GET {ROOT}/agent-runs/{ended}/stream"), "")?;
    let named = [
        ("GET", "agent-runs/{id}/stream", ended),
        ("POST", "agent-runs/{id}/cancel", start("demo")?),
        ("DELETE", "agent-sessions/{id}", open()?),
    ];
    let mut text = "[parameters]\n\"path.slug\" = \"default\"\n".to_owned();
    for (method, path, id) in &named {
        text.push_str(&operation(&format!("include-name = {:?}", format!("{method} {}/{path}", template())), id));
    }
    for (path, id) in [("/agent-runs/", start("demo")?), ("/agent-sessions/", open()?)] {
        text.push_str(&operation(&format!("include-path-regex = {:?}", format!("{path}\\{{id\\}}")), &id));
    }
    Ok(text)
}

fn template() -> String {
    ROOT.replace("default", "{slug}")
}

fn operation(filter: &str, id: &str) -> String {
    format!("\n[[operations]]\n{filter}\nparameters = {{ \"path.id\" = {id:?} }}\n")
}

/// Creates something and returns its id.
fn id(api: &str, path: &str, body: &Value, field: &str) -> Result<String> {
    let answer = exchange(api, &format!("POST {ROOT}{path}"), &body.to_string())?;
    let body: Value = serde_json::from_str(&answer).with_context(|| format!("{path} answered {answer}"))?;
    Ok(body[field].as_str().with_context(|| format!("{path} answered {answer}"))?.to_owned())
}

/// Sends one request and returns the body of the response.
fn exchange(api: &str, request: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(api)?;
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {api}\r\nConnection: close\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_can_be_chosen() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Sizes::parse(&words).map_err(|error| error.to_string())
        };
        assert_eq!(parse(&[]), Ok(Sizes { cases: 100, seed: 1 }));
        assert_eq!(parse(&["--seed", "7", "--cases", "3"]), Ok(Sizes { cases: 3, seed: 7 }));
        assert_eq!(parse(&["--cases"]), Err(format!("usage: cargo xtask {USAGE}")));
        assert_eq!(parse(&["--cases", "x"]), Err("--cases x: write a whole number".to_owned()));
    }

    #[test]
    fn each_operation_has_its_own_table() {
        let text = operation("include-name = \"GET /a\"", "run-1");
        assert_eq!(text, "\n[[operations]]\ninclude-name = \"GET /a\"\nparameters = { \"path.id\" = \"run-1\" }\n");
    }
}
