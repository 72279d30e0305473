//! Random secrets, planted in every field that can hold one, are searched for in everything that runs leave: histories,
//! events, transcripts, rows, results, failures, the API's answers, logs at trace level, and the files of the store.

use std::{
    fs::{self, File},
    process::Command,
    sync::Mutex,
};

use serde_json::{Value, json};
use temporalio_client::UntypedWorkflow;
use windlass_core::{
    agent::AgentDefinition,
    event::EventBody,
    ids::{RunId, SessionId, WorkspaceId},
    secret::SecretRef,
};
use windlass_store::SecretOwner;

use super::{echo_server::EchoServer, in_commands::search_commands, in_specs, search::Search, with_tools};
use crate::{
    api::rig::{Rig, WORKSPACE},
    support::{World, agent, agent_with, block_on, calls, says, script, world::scripts},
};

const ROUNDS: usize = 6;
/// Rounds in which tools and specs have secrets, too.
const ROUNDS_WITH_TOOLS: usize = 2;

/// A variable of the environment that an agent refers to. It is set in the process that is searched.
pub(super) const VARIABLE: &str = "WINDLASS_IT_PLANTED";

/// The runs are executed in a process of their own: its logs are those of these runs, and its environment is planted too.
#[test]
fn planted_secrets_are_found_nowhere() {
    if let Ok(variable) = std::env::var(VARIABLE) {
        return block_on(plant_and_search(variable));
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "runs::secrets::planted::planted_secrets_are_found_nowhere", "--nocapture"]);
    child.env(VARIABLE, Search::default().plant("variable"));
    let output = child.output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).join("\n");
    assert!(output.status.success() && said.contains("none found"), "{said}");
    let report = said.lines().skip_while(|line| !line.contains("none found")).take_while(|line| !line.is_empty());
    println!("{}", report.collect::<Vec<_>>().join("\n"));
}

async fn plant_and_search(variable: String) {
    let logs = tempfile::tempdir().unwrap();
    let log = logs.path().join("log");
    log_everything(&log);
    let needs = |turn: Value| {
        let mut turn = turn;
        turn["needs_credentials"] = json!(true);
        turn
    };
    let reports = calls(&[("report", json!({"pages": 2}))]);
    let mut scripts = scripts([
        ("uses", script(&[needs(reports.clone()), says("{{last_tool_result}}")])),
        ("lacks", script(&[reports, says("{{last_tool_result}}")])),
        ("asks", script(&[needs(calls(&[("ask", json!({"question": "why?"}))])), says("{{last_tool_result}}")])),
        ("helper", script(&[needs(says("because"))])),
        (in_specs::SCRIPT, in_specs::script_of()),
    ]);
    for kind in with_tools::KINDS {
        scripts[kind] = with_tools::script_of(kind);
    }
    let server = EchoServer::start();
    let mut world = World::without_worker(scripts).await;
    world.ports.tools = with_tools::toolbox(&world, &server);
    world.start_worker();
    let rig = Rig::of(world).await;
    let mut search = Search::default();
    search.add("variable", variable.clone());
    search.add("API key", rig.key.reveal().to_owned());
    for round in 0..ROUNDS {
        let session = SessionId::new(format!("chat-{round}"));
        plant(&rig.world, &mut search, &session, round).await;
        for definition in agents(round) {
            let session = session.clone();
            let run = rig.world.start_with(definition, "go", |start| start.session_id = Some(session)).await;
            split(&rig.world, &mut search, "run", SecretOwner::Run(run.clone())).await;
            let ended = rig.world.result(&run).await;
            search.text("results and failures", &format!("{ended:?}"));
            let row = rig.world.ops.store().run(&run).await.unwrap().unwrap();
            for run in row.children.iter().chain([&run]) {
                search_run(&rig, &mut search, run).await;
            }
        }
        if round < ROUNDS_WITH_TOOLS {
            search_tools(&rig, &mut search, &server, &variable).await;
            for run in in_specs::runs(&rig, &mut search, &server).await {
                search_run(&rig, &mut search, &run).await;
            }
        }
        refused_values(&rig, &mut search).await;
        search_routes(&rig, &mut search, &session).await;
    }
    search_commands(&mut search, &server);
    rig.world.ports.tools.shutdown().await;
    search_files(&rig.world, &mut search);
    let logged = fs::read(&log).unwrap();
    let text = String::from_utf8_lossy(&logged);
    assert!(text.contains("TRACE") && text.contains("/agent-sessions/chat-0"), "the log is at trace level");
    search.bytes("logs", &logged);
    println!("\n{}\n", search.report());
}

/// Installs a subscriber for the whole process, with every target as low as `--log trace` has it.
fn log_everything(path: &std::path::Path) {
    let file = Mutex::new(File::create(path).unwrap());
    let filter = tracing_subscriber::EnvFilter::new(windlass::cli::logs::filter("trace"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    subscriber.with_writer(file).try_init().unwrap();
}

/// Runs with tools of every kind, whose servers repeat the credentials.
async fn search_tools(rig: &Rig, search: &mut Search, server: &EchoServer, variable: &str) {
    let planted = with_tools::Planted::plant(&rig.world, search, server).await;
    let mut last = None;
    for kind in with_tools::KINDS {
        server.hold();
        let run = rig.world.start(with_tools::agent(kind, server), "go").await;
        if kind == "mcp" {
            // Each server that reports progress repeats the credentials in it.
            let redacted = |event: &EventBody, call: &str| {
                matches!(event, EventBody::ToolProgress { tool_use_id, message: Some(message), .. }
                if tool_use_id.as_str() == call && message.contains("[redacted]"))
            };
            for call in ["call-0-0", "call-0-4", "call-0-6"] {
                rig.world.event(&run, |event| redacted(event, call)).await;
            }
        }
        server.release();
        let ended = rig.world.result(&run).await;
        assert!(ended.is_ok(), "{kind}: {ended:?}");
        search.text("results and failures", &format!("{ended:?}"));
        search_run(rig, search, &run).await;
        last = Some(run);
    }
    planted.arrived(&rig.world, server, variable, &last.unwrap()).await;
}

async fn plant(world: &World, search: &mut Search, session: &SessionId, round: usize) {
    for name in ["model.key", "report.key", "helper.key"] {
        let value = search.plant(name);
        world.set_secret(name, &value).await;
    }
    // A secret that no agent refers to, and one of another workspace.
    let vault = world.ports.vault.as_ref().unwrap();
    for workspace in [WORKSPACE, "another"] {
        let (name, value) = (format!("unused-{round}"), search.plant("unused"));
        vault.set(&WorkspaceId::new(workspace), &name, &value.into()).await.unwrap();
    }
    split(world, search, "session", SecretOwner::Session(session.clone())).await;
}

/// A secret that was split from a spec.
async fn split(world: &World, search: &mut Search, field: &str, owner: SecretOwner) {
    let value = search.plant(field).into();
    let vault = world.ports.vault.as_ref().unwrap();
    vault.split(&WorkspaceId::new(WORKSPACE), &owner, "headers.Authorization", &value).await.unwrap();
}

/// Agents with credentials of every kind: a stored secret, a variable, one that does not exist, those of a sub-agent.
fn agents(round: usize) -> Vec<AgentDefinition> {
    let tools = json!([{"name": "report"}]);
    let with = |mut definition: AgentDefinition, credentials: SecretRef| {
        definition.credentials = Some(credentials);
        definition
    };
    let secret = |name: &str| SecretRef::Secret(name.to_owned());
    let parent = agent_with(
        "asks",
        json!({
            "tools": [{"name": "ask", "kind": "agent", "agent": "helper", "inputSchema": {"type": "object"}}],
            "agents": [{"id": "helper", "model": "script:helper", "credentials": {"secret": "helper.key"}}],
        }),
    );
    let missing = match round % 2 {
        0 => SecretRef::Env("WINDLASS_IT_NO_SUCH_VARIABLE".to_owned()),
        _ => secret("no.such.secret"),
    };
    vec![
        with(agent("uses", tools.clone()), secret("model.key")),
        with(agent("uses", tools.clone()), SecretRef::Env(VARIABLE.to_owned())),
        with(agent("lacks", tools.clone()), missing),
        agent("lacks", tools),
        with(parent, secret("model.key")),
    ]
}

/// A value in the place of a reference is refused, and the refusal does not repeat it.
async fn refused_values(rig: &Rig, search: &mut Search) {
    let value = search.plant("in-place");
    for credentials in [json!(value), json!({"secret": format!("{value} ")}), json!({"value": value})] {
        let definition = json!({"id": "inline", "model": "script:uses", "credentials": credentials});
        let answer = rig.post("/agent-runs", json!({"definition": definition, "prompt": "go"})).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        search.text("API answers", &format!("{answer:?}"));
    }
    let answer = rig.get(&format!("/agent-runs?cursor={value}")).await;
    assert!(answer.status >= 400, "{answer:?}");
}

async fn search_run(rig: &Rig, search: &mut Search, run: &RunId) {
    let handle = rig.world.ops.client().get_workflow_handle::<UntypedWorkflow>(run.to_string());
    let history = handle.fetch_history(Default::default()).to_json().await.unwrap();
    search.bytes("histories", &history);
    search.text("events", &format!("{:?}", rig.world.bodies(run).await));
    search.text("transcripts", &format!("{:?}", rig.world.transcript(run).await));
    let row = rig.world.ops.store().run(run).await.unwrap();
    search.text("rows", &format!("{row:?}"));
    let digest = row.and_then(|row| row.agent_digest).unwrap();
    search.text("definitions", &format!("{:?}", rig.world.ops.store().blob(&digest).await.unwrap().unwrap()));
    let run = run.as_str().replace('/', "%2F");
    for route in ["", "/events", "/transcript", "/awaits", "/stream", "/stream?format=log"] {
        search_route(rig, search, &format!("/agent-runs/{run}{route}")).await;
    }
}

/// Everything that the API shows beside single runs.
async fn search_routes(rig: &Rig, search: &mut Search, session: &SessionId) {
    for route in ["/models", "/agents", "/identity", "/agent-runs?limit=100", "/agent-sessions"] {
        search_route(rig, search, route).await;
    }
    for route in ["", "/events"] {
        search_route(rig, search, &format!("/agent-sessions/{session}{route}")).await;
    }
}

async fn search_route(rig: &Rig, search: &mut Search, route: &str) {
    let answer = rig.get(route).await;
    assert_eq!(answer.status, 200, "{route}: {answer:?}");
    search.text("API answers", &format!("{answer:?}"));
}

fn search_files(world: &World, search: &mut Search) {
    let held = search.files(world.directory());
    assert!(held.contains("keyLength"), "the files have what the tool returned");
}
