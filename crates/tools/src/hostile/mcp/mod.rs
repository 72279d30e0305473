//! What MCP servers may try, over HTTP and stdio. Each attack is recorded, whether it was held off or not.

mod calls;
mod lists;
mod peer;
mod processes;

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::{agent::ToolSpec, ids::ToolName};

use super::io;
use crate::{
    CallContext, ToolFailure, ToolReply, ToolSuccess,
    egress::peer::{page, response},
    fixtures::context,
};

#[derive(Default)]
struct Attacks {
    count: usize,
    through: Vec<String>,
}

impl Attacks {
    fn record(&mut self, name: &str, held: bool, found: impl FnOnce() -> String) {
        self.count += 1;
        if !held {
            self.through.push(format!("{name}: {:.500}", found()));
        }
    }
}

fn done(text: &str) -> Result<ToolReply, ToolFailure> {
    Ok(ToolReply::Done(ToolSuccess::new(json!(text))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_mcp_server_gets_through() {
    let mut attacks = Attacks::default();
    lists::attack(&mut attacks).await;
    calls::attack(&mut attacks).await;
    processes::attack(&mut attacks).await;
    let Attacks { count, through } = attacks;
    println!("hostile: {count} attacks of MCP servers, {} through", through.len());
    assert!(through.is_empty(), "{}", through.join("\n"));
}
