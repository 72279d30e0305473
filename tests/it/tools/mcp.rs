//! Tools of MCP servers: reference servers from npm and PyPI over stdio, and a server of fastmcp.

mod failures;
mod inputs;
mod secrets;
mod tasks;

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_core::agent::AgentDefinition;

use super::{
    servers::{HttpPeer, LOOPBACK, from_npm, in_python, toolset},
    site::{Site, failed, succeeded, tool_names},
};
use crate::support::{block_on, calls, says, script};

/// A repository with one commit, and the commit.
fn repository(path: &Path) -> String {
    fs::create_dir(path).unwrap();
    fs::write(path.join("log.txt"), "cast off\n").unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(path).args(["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]).args(args);
        command.env("GIT_AUTHOR_DATE", "2026-11-01T08:00:00Z").env("GIT_COMMITTER_DATE", "2026-11-01T08:00:00Z");
        let output = command.output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--initial-branch", "main"]);
    git(&["add", "log.txt"]);
    git(&["commit", "--message", "Cast off"]);
    git(&["rev-parse", "HEAD"])
}

/// What a run found at its servers.
fn found(definition: &AgentDefinition) -> Vec<Value> {
    definition.toolsets.iter().map(|toolset| json!([toolset.name, toolset.resolved])).collect()
}

#[test]
fn a_run_uses_tools_of_five_servers_and_keeps_the_tools_that_they_had_when_it_opened() {
    let dir = TempDir::new().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (files, repo, graph) = (root.join("files"), root.join("repo"), root.join("memory.jsonl"));
    let [files, graph] = [&files, &graph].map(|path| path.to_str().unwrap());
    fs::create_dir(files).unwrap();
    let commit = repository(&repo);
    let repo = repo.to_str().unwrap();
    let peer = HttpPeer::start();
    let config = [
        from_npm("everything", &["stdio"]),
        from_npm("filesystem", &[files]),
        format!("{}env = {{ MEMORY_FILE_PATH = {} }}\n", from_npm("memory", &[]), json!(graph)),
        in_python("git", &["-m", "mcp_server_git", "--repository", repo]),
        peer.config("peer"),
        LOOPBACK.to_owned(),
    ];
    let toolsets = json!([
        toolset("everything", &["echo", "get-s*"]),
        toolset("filesystem", &["read_text_file", "write_file"]),
        toolset("memory", &[]),
        toolset("git", &["git_log"]),
        toolset("peer", &["add", "learn", "sail"]),
    ]);
    let note = format!("{files}/note.txt");
    let entity = json!({"name": "Ann", "entityType": "person", "observations": ["sails"]});
    let at_work = script(&[
        calls(&[
            ("everything_echo", json!({"message": "ahoy"})),
            ("everything_get-structured-content", json!({"location": "Chicago"})),
            ("filesystem_write_file", json!({"path": note, "content": "High tide at six.\n"})),
            ("memory_create_entities", json!({"entities": [entity]})),
            ("git_git_log", json!({"repo_path": repo, "max_count": 1})),
            ("peer_add", json!({"a": 19, "b": 23})),
        ]),
        calls(&[
            ("filesystem_read_text_file", json!({"path": note})),
            ("memory_read_graph", json!({})),
            ("peer_learn", json!({"name": "sail"})),
        ]),
        calls(&[("peer_sail", json!({}))]),
        says("done"),
    ]);
    let later = script(&[calls(&[("peer_sail", json!({}))]), says("done")]);
    let agents = [
        json!({"id": "first", "model": "script:at_work", "toolsets": toolsets}),
        json!({"id": "second", "model": "script:later", "toolsets": toolsets}),
    ];
    let site = Site::new(&config.concat(), &agents, &json!({"at_work": at_work, "later": later}));
    let run = site.run("first");
    site.completed(&run);

    let log = format!(
        "Commit history:\nCommit: {commit}\nAuthor: Ann\nDate: 2026-11-01 08:00:00+00:00\nMessage: Cast off\n\n"
    );
    let structured = json!({"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82});
    let hint = json!({"reason": "tool_unavailable", "tool": "peer_sail", "restrictToTool": false,
                      "message": "call one of the tools you were given"});
    let unknown = json!({"error": "there is no tool named `peer_sail`", "kind": "tool_unknown", "hint": hint});
    let expected = [
        succeeded("call-0-0", "everything_echo", json!("Echo: ahoy")),
        succeeded("call-0-1", "everything_get-structured-content", structured),
        succeeded("call-0-2", "filesystem_write_file", json!({"content": format!("Successfully wrote to {note}")})),
        succeeded("call-0-3", "memory_create_entities", json!({"entities": [entity]})),
        succeeded("call-0-4", "git_git_log", json!(log)),
        succeeded("call-0-5", "peer_add", json!({"result": 42})),
        succeeded("call-1-0", "filesystem_read_text_file", json!({"content": "High tide at six.\n"})),
        succeeded("call-1-1", "memory_read_graph", json!({"entities": [entity], "relations": []})),
        succeeded("call-1-2", "peer_learn", json!({"result": "sail is learned"})),
        failed("call-2-0", "peer_sail", unknown),
    ];
    assert_eq!(site.results(&run), expected);
    assert_eq!(fs::read_to_string(&note).unwrap(), "High tide at six.\n");

    let next = site.run("second");
    site.completed(&next);
    assert_eq!(site.results(&next), [succeeded("call-0-0", "peer_sail", json!({"result": "sail is known"}))]);

    let [first, second] = [&run, &next].map(|run| block_on(site.definition(run)));
    let tools = [
        "everything_echo",
        "everything_get-structured-content",
        "everything_get-sum",
        "filesystem_read_text_file",
        "filesystem_write_file",
        "memory_add_observations",
        "memory_create_entities",
        "memory_create_relations",
        "memory_delete_entities",
        "memory_delete_observations",
        "memory_delete_relations",
        "memory_open_nodes",
        "memory_read_graph",
        "memory_search_nodes",
        "git_git_log",
        "peer_add",
        "peer_learn",
    ];
    assert_eq!(tool_names(&first), tools);
    assert_eq!(tool_names(&second), [&tools[..], &["peer_sail"]].concat());
    let servers = [
        json!(["everything", {"server": "mcp-servers/everything", "version": "2.0.0", "protocol": "2025-11-25"}]),
        json!(["filesystem", {"server": "secure-filesystem-server", "version": "0.2.0", "protocol": "2025-11-25"}]),
        json!(["memory", {"server": "memory-server", "version": "0.6.3", "protocol": "2025-11-25"}]),
        json!(["git", {"server": "mcp-git", "version": "2026.10.19", "protocol": "2026-07-28"}]),
        json!(["peer", {"server": "peer", "version": "1.0", "protocol": "2026-07-28"}]),
    ];
    assert_eq!((found(&first), found(&second)), (servers.to_vec(), servers.to_vec()));
    let log = fs::read_to_string(site.log()).unwrap();
    assert!(log.contains("worker ready") && !log.contains("serve_inner"), "only our own messages are logged: {log}");
}
