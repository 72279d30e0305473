//! A disk that fills up under load, simulated by a limit on file sizes. What was acknowledged is kept, other requests
//! can be repeated, and no run stays half started.

use std::process::Command;

use serde_json::json;

use super::{Tally, wire::Caller};
use crate::{
    proofs::scale,
    sdk::dev::{Dev, binary},
    support::block_on,
};

/// Of every file, in blocks of 512 bytes as POSIX counts them, or of 1024 where the shell does.
const BLOCKS: u32 = 10_000;

#[test]
fn a_full_disk_leaves_no_run_half_started() {
    let after_full = scale("WINDLASS_HOSTILE_STARTS", 20) as u64;
    block_on(async {
        let mut dev = Dev::start_with(["--port", "0"].map(Into::into).to_vec());
        dev.stop();
        dev.start_as(limited());
        let caller = Caller::of_dev(&dev.listen);
        let mut tally = Tally::new("a full disk");
        let mut acknowledged = Vec::new();
        let mut refused = Vec::new();
        for number in 0.. {
            let chosen = format!("full-{number}");
            match caller.post("/agent-runs", &start(&chosen)).await {
                Ok(answer) if answer.status == 202 => acknowledged.push(chosen),
                Ok(answer) if answer.status >= 500 => refused.push(chosen),
                Ok(answer) => tally.finding(format!("{chosen}: {answer:?}")),
                Err(_) => refused.push(chosen),
            }
            if refused.len() as u64 >= after_full || number > 3000 {
                break;
            }
        }
        if refused.is_empty() {
            tally.finding("the disk was never full");
        }
        tally.count("requests", (acknowledged.len() + refused.len()) as u64);
        tally.count("requests rejected on a full disk", refused.len() as u64);

        dev.kill();
        dev.start_again();
        for chosen in &refused {
            match caller.post("/agent-runs", &start(chosen)).await {
                Ok(answer) if answer.status == 202 => {}
                other => tally.finding(format!("{chosen} sent again: {other:?}")),
            }
        }
        for chosen in acknowledged.iter().chain(&refused) {
            // The stream ends with the run.
            let path = format!("/agent-runs/{chosen}/stream");
            let ended = caller.get(&path).await.map(|answer| answer.body.to_string()).unwrap_or_default();
            if !ended.contains("xxxxxxxx") {
                tally.finding(format!("{chosen}: {}", ended.chars().take(300).collect::<String>()));
            }
        }
        tally.close();
    });
}

/// Each run writes some kilobytes.
fn start(chosen: &str) -> serde_json::Value {
    let prompt = "x".repeat(20_000);
    json!({"runId": chosen, "modelId": "script:echo", "systemPrompt": "s", "prompt": prompt, "tools": []})
}

/// The server under a limit on file sizes. A process that ignores the signal for it gets an error from `write`, as from a
/// disk without space.
fn limited() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("trap '' XFSZ; ulimit -f {BLOCKS}; exec \"$@\""), "sh"]).arg(binary());
    command
}
