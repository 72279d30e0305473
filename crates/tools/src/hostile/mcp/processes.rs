//! Servers over stdio that write what is no message, too much, or too early.

use std::{collections::BTreeMap, time::Instant};

use super::*;
use crate::{McpEndpoint, McpServers};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/hostile/mcp/server.py");

/// How a call ends.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Result,
    Failure,
    /// A server that writes without reading can block itself; then the call fails at its deadline.
    Either,
}

const ATTACKS: [(&str, Ends); 17] = [
    ("invalid-utf8", Ends::Result),
    ("endless-line", Ends::Result),
    ("endless-line-with-the-answer", Ends::Failure),
    ("endless-stderr", Ends::Result),
    ("garbage", Ends::Either),
    ("deep-json", Ends::Either),
    ("wrong-id", Ends::Failure),
    ("another-answer", Ends::Result),
    ("answer-twice", Ends::Result),
    ("flood-ping", Ends::Either),
    ("flood-sampling", Ends::Either),
    ("flood-roots", Ends::Either),
    ("flood-list-changed", Ends::Result),
    ("half-a-line", Ends::Failure),
    ("close-output", Ends::Failure),
    ("never-read", Ends::Failure),
    ("old-version", Ends::Result),
];

pub(super) async fn attack(attacks: &mut Attacks) {
    for (attack, ends) in ATTACKS {
        let endpoint = McpEndpoint::Command {
            program: "python3".to_owned(),
            args: vec![SCRIPT.to_owned(), attack.to_owned()],
            env: BTreeMap::new(),
            cwd: None,
        };
        let servers = McpServers::default();
        let limit = Duration::from_secs(if ends == Ends::Result { 30 } else { 2 });
        let context = CallContext { deadline: Some(Instant::now() + limit), ..context() };
        // More than a pipe holds, for the server that never reads.
        let args = json!({"padding": "p".repeat(256 * 1024)});
        let called = servers.call("key", endpoint, "t", &context, &args.into()).await;
        let held = match ends {
            Ends::Result => called == done("own"),
            Ends::Failure => called.is_err(),
            Ends::Either => called.is_err() || called == done("own"),
        };
        attacks.record(attack, held, || format!("{called:?}"));

        servers.shutdown().await;
    }
}
