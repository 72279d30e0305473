//! `windlass doctor`: checks the Temporal server, the store, the workers and the model providers. It changes nothing, except
//! with --adopt.

use std::{borrow::Cow, process::ExitCode, sync::Arc};

use clap::Args;
use serde::Serialize;
use temporalio_client::{Client, NamespacedClient, tonic::IntoRequest};
use temporalio_protos::temporal::api::workflowservice::v1::{DescribeNamespaceRequest, GetSystemInfoRequest};
use windlass_ops::{Paired, Pairing, RunOps};
use windlass_sqlite::{Examined, Progress};
use windlass_store::StoreError;

use super::{Failure, Global, Output, backup::watched, exit, failed, providers, usage};
use crate::{
    render::{Paint, Table, one_line},
    service::{AnyStore, Missing},
    temporal::{connect, missing_search_attributes, pollers},
};

const EXAMPLES: &str = "\
Examples:
  windlass doctor --temporal temporal.internal:7233
  windlass doctor --deep      check the SQLite database for damage
  windlass doctor --adopt     after the store was replaced, or runs were moved to another namespace

Model providers are checked if windlass.toml mentions them or their key is set: the key is there, and the server answers. No
key is sent, so nothing is spent; `windlass models test MODEL` makes a call.

A store is paired with a task queue of a namespace, and every process checks that. --adopt pairs this store with the given
namespace and task queue and replaces earlier pairings: processes that use another store with them stop, and open runs of
this store that have no workflow in this namespace end with RUN0012.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Check every page and row of the SQLite database instead. Needs no server; servers can keep running
    #[arg(long, conflicts_with = "adopt")]
    deep: bool,

    /// Pair this store with this namespace and task queue, replacing earlier pairings
    #[arg(long)]
    adopt: bool,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct Check {
    check: Cow<'static, str>,
    ok: bool,
    /// What was found, and how to fix a problem.
    detail: String,
    /// The single problems, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
}

impl Check {
    fn new(check: impl Into<Cow<'static, str>>, found: Result<String, String>) -> Self {
        let ok = found.is_ok();
        Self { check: check.into(), ok, detail: found.unwrap_or_else(|problem| problem), problems: Vec::new() }
    }

    fn of(examined: Examined) -> Self {
        let Examined { what, count, problems, more } = examined;
        let unit = if what == "file" { "pages" } else { "rows" };
        let found = match problems.first() {
            None if what == "references" => Ok("all references are valid".to_owned()),
            None => Ok(format!("{count} {unit}")),
            Some(first) => match problems.len() as u64 + more - 1 {
                0 => Err(first.clone()),
                others => Err(format!("{first}; and {others} more, which --json lists up to 20")),
            },
        };
        Self { problems, ..Self::new(what, found) }
    }
}

pub(super) async fn run(global: &Global, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    if args.adopt {
        let (client, store) = (connect(&global.connect("cli")?).await?, global.open_store(Missing::Refuse).await?);
        let ops = RunOps::new(client, store.port(), global.task_queue.clone(), global.workspace.clone());
        let paired = ops.pair(Pairing::Adopt).await?;
        if !paired.kept {
            return Err(failed(
                "the Temporal server does not allow changes to this namespace, so the store was not paired with it; runs \
                 carry the id of their installation, so this is safe",
            ));
        }
    }
    let checks = if args.deep { look_deep(global).await? } else { look(global).await? };
    out.print(&checks, || table(&checks, out.paint(), out.table_width()))?;
    let healthy = checks.iter().all(|check| check.ok);
    if args.deep && !healthy && !out.json {
        out.note("restore a backup with `windlass store restore FILE`; without a backup, undamaged data stays usable");
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

async fn look_deep(global: &Global) -> Result<Vec<Check>, Failure> {
    if global.postgres()?.is_some() {
        return Err(usage(
            "--deep checks SQLite files; for Postgres, run: pg_amcheck --heapallindexed --dbname=\"$WINDLASS_POSTGRES_URL\"",
        ));
    }
    global.store()?.check(Missing::Refuse)?;
    let (path, progress) = (global.store_path(), Arc::new(Progress::default()));
    let examined = tokio::task::spawn_blocking({
        let progress = Arc::clone(&progress);
        move || {
            windlass_sqlite::examine(&path, |sql| {
                let mut found = windlass_store::sqlite::examine(sql, &progress)?;
                found.extend(windlass_engine::examine(sql, &progress)?);
                Ok::<_, StoreError>(found)
            })
        }
    });
    let examined = watched(&progress, |rows| format!("{rows} rows checked"), examined).await?;
    Ok(examined.into_iter().map(Check::of).collect())
}

async fn look(global: &Global) -> Result<Vec<Check>, Failure> {
    let mut checks = Vec::new();
    match connect(&global.connect("cli")?).await {
        Err(error) => checks.push(Check::new("server", Err(error.to_string()))),
        Ok(client) => {
            checks.push(Check::new("server", server(&client, global.address()).await));
            checks.push(Check::new("namespace", namespace(&client).await));
            checks.push(Check::new("search attributes", attributes(&client).await));
            checks.push(Check::new("workers", workers(&client, &global.task_queue).await));
            checks.push(Check::new("installation", installation(client, global).await));
        }
    }
    checks.push(Check::new("store", store(global).await));
    for (name, found) in providers::check(global.config()).await? {
        checks.push(Check::new(name, found));
    }
    Ok(checks)
}

fn table(checks: &[Check], paint: Paint, width: Option<u16>) -> String {
    let mut table = Table::new(&["CHECK", "STATE", "DETAIL"]);
    for check in checks {
        let state = if check.ok { "ok" } else { "PROBLEM" };
        // Problems are printed in full below the table.
        table.row(vec![
            check.check.to_string(),
            state.to_owned(),
            if check.ok { check.detail.clone() } else { "see below".to_owned() },
        ]);
    }
    let problems = checks.iter().filter(|check| !check.ok);
    let problems = problems.map(|check| format!("\n{}: {}", paint.bad(&check.check), one_line(&check.detail, 1000)));
    [table.render(width)].into_iter().chain(problems).collect::<Vec<_>>().join("\n")
}

async fn server(client: &Client, address: &str) -> Result<String, String> {
    let info =
        client.connection().workflow_service().get_system_info(GetSystemInfoRequest::default().into_request()).await;
    let version = info.map_err(|status| status.message().to_owned())?.into_inner().server_version;
    Ok(format!("{address}, Temporal {version}"))
}

async fn namespace(client: &Client) -> Result<String, String> {
    let namespace = client.namespace();
    let request = DescribeNamespaceRequest { namespace: namespace.clone(), ..DescribeNamespaceRequest::default() };
    match client.connection().workflow_service().describe_namespace(request.into_request()).await {
        Ok(_) => Ok(namespace),
        Err(status) => Err(format!("{}; create it, or check --namespace", status.message())),
    }
}

async fn attributes(client: &Client) -> Result<String, String> {
    match missing_search_attributes(client).await {
        Ok(missing) if missing.is_empty() => Ok("registered".to_owned()),
        Ok(missing) => Err(format!("{} are not registered; the first worker registers them", missing.join(", "))),
        Err(error) => Err(error.to_string()),
    }
}

async fn workers(client: &Client, task_queue: &str) -> Result<String, String> {
    let found = pollers(client, task_queue).await.map_err(|status| status.message().to_owned())?;
    if found.workflows.is_empty() || found.activities.is_empty() {
        return Err(format!("no worker polls task queue {task_queue}; start `windlass worker`, or check --task-queue"));
    }
    Ok(format!("task queue {task_queue}: {}", found.workflows.join(", ")))
}

async fn installation(client: Client, global: &Global) -> Result<String, String> {
    let store = global.open_store(Missing::Refuse).await.map_err(|failure| failure.to_string())?;
    let ops = RunOps::new(client, store.port(), global.task_queue.clone(), global.workspace.clone());
    let Paired { installation, kept, namespace } = ops.pair(Pairing::Look).await.map_err(|error| error.to_string())?;
    let id = installation.id;
    let elsewhere = installation.namespaces.iter().filter(|known| namespace.as_ref() != Some(known)).count();
    match (namespace, kept) {
        (None, _) => {
            Ok(format!("{id}; the Temporal server does not store which installation the namespace belongs to"))
        }
        (Some(_), false) => Ok(format!("{id}; the namespace is not paired yet; the first worker pairs it")),
        (Some(_), true) if elsewhere > 0 => Ok(format!(
            "{id}; the store was also used with {elsewhere} other namespaces, so runs without a workflow here stay open"
        )),
        (Some(_), true) => Ok(id.to_string()),
    }
}

async fn store(global: &Global) -> Result<String, String> {
    match global.open_store(Missing::Refuse).await {
        Ok(AnyStore::Sqlite(_)) => Ok(global.store_path().display().to_string()),
        Ok(AnyStore::Postgres(_)) => Ok("Postgres".to_owned()),
        Err(failure) => Err(failure.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_printed_in_full_below_the_table() {
        let checks = [Check::new("server", Ok("here".into())), Check::new("store", Err("not there; make one".into()))];
        let expected = "\
CHECK   STATE    DETAIL
server  ok       here
store   PROBLEM  see below

store: not there; make one";
        assert_eq!(table(&checks, Paint::PLAIN, Some(60)), expected);
    }
}
