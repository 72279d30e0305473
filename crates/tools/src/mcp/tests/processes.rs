//! Servers that are child processes.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Instant};

use rustix::process::{Pid, test_kill_process};
use secrecy::SecretString;
use tempfile::TempDir;

use super::*;
use crate::mcp::pool::Pool;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mcp/tests/server.py");

/// A file with a line for each start of the server.
struct Child {
    directory: TempDir,
}

impl Child {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn endpoint(&self, options: &[&str]) -> McpEndpoint {
        let file = self.directory.path().join("starts");
        let mut args = vec![SCRIPT.to_owned(), file.to_str().unwrap().to_owned()];
        args.extend(options.iter().map(|option| (*option).to_owned()));
        let env = BTreeMap::from([("TOKEN".to_owned(), SecretString::from("s3cret"))]);
        McpEndpoint::Command { program: "python3".into(), args, env, cwd: None }
    }

    fn starts(&self) -> usize {
        lines(&self.directory.path().join("starts"))
    }

    /// Waits until so many calls of `wait` are in flight.
    async fn waiting(&self, calls: usize) {
        while lines(&self.directory.path().join("starts.waiting")) < calls {
            tokio::task::yield_now().await;
        }
    }
}

fn lines(file: &Path) -> usize {
    std::fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

async fn pid(servers: &McpServers, endpoint: McpEndpoint) -> Pid {
    pid_by("pid", servers, endpoint).await
}

async fn pid_by(tool: &str, servers: &McpServers, endpoint: McpEndpoint) -> Pid {
    match call(servers, endpoint, tool, &context(), json!({})).await {
        Ok(ToolReply::Done(success)) => {
            Pid::from_raw(success.result.to_value().as_str().unwrap().parse().unwrap()).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

/// Waits until a process has ended. Of a descendant an entry may remain until its new parent looks.
async fn gone(pid: Pid) {
    let zombie = || {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        status.is_ok_and(|status| status.contains(") Z "))
    };
    while test_kill_process(pid).is_ok() && !zombie() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn all_calls_share_one_process_and_shutdown_ends_it() {
    let child = Child::new();
    let servers = McpServers::default();
    let (one, two) = tokio::join!(pid(&servers, child.endpoint(&[])), pid(&servers, child.endpoint(&[])));
    assert_eq!((one, child.starts()), (two, 1));
    servers.shutdown().await;
    assert!(test_kill_process(one).is_err(), "the process has ended when shutdown returns");
    let later = call(&servers, child.endpoint(&[]), "pid", &context(), json!({})).await;
    assert_eq!(later, Err(unavailable("this worker is shutting down")));
}

#[tokio::test]
async fn a_process_dies_with_the_last_handle() {
    let child = Child::new();
    let servers = McpServers::default();
    let pid = pid(&servers, child.endpoint(&[])).await;
    drop(servers);
    gone(pid).await;
}

#[tokio::test]
async fn a_process_gets_its_secrets_and_little_of_the_workers_environment() {
    let child = Child::new();
    let reply = call(&McpServers::default(), child.endpoint(&[]), "environment", &context(), json!({})).await;
    let Ok(ToolReply::Done(success)) = reply else { panic!("{reply:?}") };
    let names = success.result.to_value();
    let names: Vec<&str> = names.as_str().unwrap().split(' ').collect();
    assert!(names.contains(&"TOKEN") && names.contains(&"PATH"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
}

#[tokio::test]
async fn a_process_that_dies_fails_the_calls_in_flight_and_is_started_again_by_the_next() {
    let child = Child::new();
    let servers = McpServers::default();
    let context = context();
    let (waiting, dying) = tokio::join!(call(&servers, child.endpoint(&[]), "wait", &context, json!({})), async {
        child.waiting(1).await;
        call(&servers, child.endpoint(&[]), "die", &context, json!({})).await
    });
    let closed = unavailable("the MCP server closed the connection before it answered");
    assert_eq!((waiting, dying), (Err(closed.clone()), Err(closed)));
    pid(&servers, child.endpoint(&[])).await;
    assert_eq!(child.starts(), 2);
}

#[tokio::test]
async fn what_a_process_started_ends_with_it_and_holds_up_no_call() {
    let child = Child::new();
    let servers = McpServers::default();
    let descendant = pid_by("descendant", &servers, child.endpoint(&[])).await;
    let dying = call(&servers, child.endpoint(&[]), "die", &context(), json!({})).await;
    assert_eq!(dying, Err(unavailable("the MCP server closed the connection before it answered")));
    gone(descendant).await;
}

#[tokio::test]
async fn a_server_that_exits_on_an_unknown_request_is_started_again_by_the_older_handshake() {
    let child = Child::new();
    let servers = McpServers::default();
    let (_, resolved) = servers.tools("key", child.endpoint(&["exit-on-discover"]), &toolset(), LONG).await.unwrap();
    assert_eq!((resolved.protocol.as_deref(), child.starts()), (Some("2025-11-25"), 2));
}

#[tokio::test]
async fn a_failed_start_is_remembered_for_a_moment() {
    let child = Child::new();
    let servers = McpServers::default();
    let message = "the MCP server's process ended during the handshake (exit status: 3); its standard error is in the \
                   worker's log at level debug";
    for _ in 0..3 {
        let reply = call(&servers, child.endpoint(&["exit-at-start"]), "pid", &context(), json!({})).await;
        assert_eq!(reply, Err(unavailable(message)));
    }
    assert_eq!(child.starts(), 2, "one start by each handshake");
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named() {
    let env = BTreeMap::new();
    let endpoint = McpEndpoint::Command { program: "no-such-program".into(), args: vec![], env, cwd: None };
    let message =
        "the MCP server's program \"no-such-program\" cannot be started: No such file or directory (os error 2)";
    let reply = call(&McpServers::default(), endpoint, "pid", &context(), json!({})).await;
    assert_eq!(reply, Err(ToolFailure::new(ToolErrorKind::ToolUnavailable, message)));
}

#[tokio::test]
async fn a_list_that_hangs_ends_in_time_and_calls_go_on() {
    let child = Child::new();
    let servers = McpServers::default();
    let hanging = ["hang-on-list"];
    pid(&servers, child.endpoint(&hanging)).await;
    let short = Duration::from_millis(200);
    let listed = servers.tools("key", child.endpoint(&hanging), &toolset(), short).await;
    assert_eq!(listed, Err(timed_out()));
    pid(&servers, child.endpoint(&hanging)).await;
    assert_eq!(child.starts(), 1);
}

#[tokio::test]
async fn an_unused_connection_is_closed_and_a_used_one_is_not() {
    let child = Child::new();
    let servers = McpServers(Arc::new(Pool::with_idle(Duration::from_millis(200))));
    let first = pid(&servers, child.endpoint(&[])).await;
    let held = CallContext { deadline: Some(Instant::now() + Duration::from_millis(700)), ..context() };
    assert_eq!(call(&servers, child.endpoint(&[]), "wait", &held, json!({})).await, Err(timed_out()));
    assert_eq!(child.starts(), 1, "a connection is not closed under a call");
    gone(first).await;
    pid(&servers, child.endpoint(&[])).await;
    assert_eq!(child.starts(), 2);
}

#[tokio::test]
async fn a_question_belongs_to_the_only_call_in_flight() {
    let child = Child::new();
    let reply = call(&McpServers::default(), child.endpoint(&[]), "ask", &context(), json!({})).await;
    let Ok(ToolReply::Continue(continuation)) = reply else { panic!("{reply:?}") };
    assert_eq!(continuation.inputs[0].prompt, "Sure?");
}

#[tokio::test]
async fn a_question_is_refused_if_it_may_belong_to_several_calls() {
    let child = Child::new();
    let servers = McpServers::default();
    let (waiting, asking) = (context(), context());
    let (_, answer) = tokio::join!(call(&servers, child.endpoint(&[]), "wait", &waiting, json!({})), async {
        child.waiting(1).await;
        let answer = call(&servers, child.endpoint(&[]), "ask", &asking, json!({})).await;
        waiting.cancel.cancel();
        answer
    });
    let refused = "the client cannot tell which call asks: make no other call to this server meanwhile";
    assert_eq!(answer, done(json!(refused)));
}
