//! `tools`: the time per step by the kind of its tool.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use serde_json::json;
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use windlass_activities::AgentCatalog;
use windlass_core::{agent::AgentDefinition, ids::AgentId};
use windlass_models::script::{SCHEME, ScriptModel};
use windlass_tools::{Egress, EgressRules, McpServerConfig, ToolRegistry, Toolbox};

use super::{
    backend::Opened,
    probe::{Lookup, Probe},
    progress::Progress,
    reading::{Reading, ToolStep},
    rig::{self, Rig},
    site::Site,
    stats::{percentile, rounded},
    tool_server,
    work::{TOOL, Work},
};
use crate::{
    failure::{Failure, failed},
    service::{ModelCatalogue, Ports},
};

/// Warm-up runs of each kind: processes, connections and caches are created once.
const WARM_UP: u32 = 2;
const KINDS: [&str; 5] = ["builtin", "http", "mcp-stdio", "mcp-http", "temporal"];

/// Runs of all kinds take turns, so that whatever slows the machine down slows down all of them.
pub(super) async fn measure(site: &Site, runs: u32, work: Work, progress: &Progress) -> Result<Vec<Reading>, Failure> {
    let url = tool_server::serve().await?;
    let queue = format!("{}-tools", site.task_queue);
    let bar = progress.begin("tools", (runs + WARM_UP) * KINDS.len() as u32);
    let mut steps: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let ports = |opened: &Opened| ports(opened, work, &url, &queue);
    Rig::with_ports(site, ports, async |rig| {
        let ops = &rig.ops;
        let worker = foreign_worker(ops.client().clone(), &queue)?;
        for run in 0..WARM_UP + runs {
            for kind in KINDS {
                let begun = Instant::now();
                let id = rig::start(ops, AgentId::new(format!("bench.{kind}")), rig.next_run()).await?;
                let output = rig::finish(ops, &id).await?;
                let took = begun.elapsed().as_secs_f64() * 1000.0;
                if let Some(error) = output.tool_events.iter().find_map(|call| call.error.as_ref()) {
                    return Err(failed(format!("a call of kind {kind} failed: {}", error.message)));
                }
                if run >= WARM_UP {
                    steps.entry(kind).or_default().push(took / f64::from(work.turns));
                }
                bar.step();
            }
        }
        worker();
        Ok(())
    })
    .await?;
    let of = |samples: &[f64], percent| rounded(percentile(samples, percent).unwrap_or_default());
    let reading = |kind: &str| {
        let samples = steps.get(kind).map(Vec::as_slice).unwrap_or_default();
        Reading::Tools(ToolStep {
            kind: kind.to_owned(),
            runs,
            turns: work.turns,
            ms_per_step_p50: of(samples, 50.0),
            ms_per_step_p99: of(samples, 99.0),
        })
    };
    Ok(KINDS.iter().map(|kind| reading(kind)).collect())
}

/// One agent for each kind, which calls its one tool in every turn.
fn ports(opened: &Opened, work: Work, url: &str, queue: &str) -> Result<Ports, Failure> {
    let mut scripts = serde_json::Map::new();
    let mut agents = Vec::new();
    for kind in KINDS {
        let agent = agent(kind, url, queue)?;
        let name = match kind {
            "mcp-stdio" | "mcp-http" => format!("peer_{TOOL}"),
            _ => TOOL.to_owned(),
        };
        let call = |turn: u32| json!({"tool_calls": [{"name": name, "args": {"turn": turn}}]});
        let turns: Vec<_> = (0..work.turns).map(call).chain([json!({"text": "done"})]).collect();
        scripts.insert(kind.to_owned(), json!({"turns": turns}));
        agents.push(agent);
    }
    let scripts = ScriptModel::from_json(&serde_json::Value::Object(scripts).to_string())?;
    let names: Vec<String> = scripts.names().map(str::to_owned).collect();
    let command = vec![
        std::env::current_exe()?.display().to_string(),
        "bench".to_owned(),
        "tools".to_owned(),
        "--tool-server".to_owned(),
    ];
    let stdio = McpServerConfig::Command { command, env: BTreeMap::new(), cwd: None };
    let builtins = ToolRegistry::new().with(Lookup { work, probe: Probe::default() });
    let tools = Toolbox::new(builtins, Egress::new(EgressRules::default())?, [("bench".to_owned(), stdio)].into());
    Ok(Ports {
        vault: None,
        store: opened.store.clone(),
        models: ModelCatalogue::new().with(SCHEME, Arc::new(scripts), names, None),
        tools,
        agents: AgentCatalog::from_iter(agents),
    })
}

fn agent(kind: &str, url: &str, queue: &str) -> Result<AgentDefinition, serde_json::Error> {
    let tool = |fields: serde_json::Value| {
        let mut tool = json!({"name": TOOL, "inputSchema": {"type": "object"}, "idempotent": false});
        tool.as_object_mut().into_iter().for_each(|tool| tool.extend(fields.as_object().cloned().unwrap_or_default()));
        json!({"tools": [tool]})
    };
    let mut definition = match kind {
        "http" => tool(json!({"kind": "http", "http": {"url": format!("{url}/lookup"), "allowPrivate": true}})),
        "mcp-stdio" => json!({"toolsets": [{"name": "peer", "mcp": {"server": "bench"}}]}),
        "mcp-http" => {
            json!({"toolsets": [{"name": "peer", "mcp": {"url": format!("{url}/mcp"), "allowPrivate": true}}]})
        }
        "temporal" => tool(json!({"kind": "temporal", "temporal": {"activity": TOOL, "taskQueue": queue}})),
        _ => tool(json!({})),
    };
    definition["id"] = json!(format!("bench.{kind}"));
    definition["model"] = json!(format!("{SCHEME}:{kind}"));
    definition["guards"] = json!({"loopDetection": false});
    serde_json::from_value(definition)
}

/// A worker on a task queue of its own; the returned function stops it.
fn foreign_worker(client: temporalio_client::Client, queue: &str) -> Result<impl FnOnce() + use<>, Failure> {
    let refused = |error: &dyn std::fmt::Display| failed(format!("the worker of the tools cannot start: {error}"));
    let runtime = Runtime::from_current_tokio(Default::default()).map_err(|error| refused(&error))?;
    let options = WorkerOptions::new(queue.to_owned()).register_activities(foreign::ForeignTools).build();
    let mut worker = Worker::new(&runtime, client, options).map_err(|error| refused(&error))?;
    let stop = worker.shutdown_handle();
    let handle = tokio::runtime::Handle::current();
    std::thread::spawn(move || handle.block_on(worker.run()));
    Ok(stop)
}

/// The activity as another team's worker has it.
#[allow(dead_code, unreachable_pub, reason = "the macro makes public items that are used by name only")]
mod foreign {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use temporalio_macros::activities;
    use temporalio_sdk::activities::{ActivityContext, ActivityError};

    pub struct ForeignTools;

    #[activities]
    impl ForeignTools {
        #[activity(name = "bench.lookup")]
        pub async fn lookup(self: Arc<Self>, _ctx: ActivityContext, _args: Value) -> Result<Value, ActivityError> {
            Ok(json!({"found": "x".repeat(1000)}))
        }
    }
}
