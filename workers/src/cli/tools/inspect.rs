//! `windlass mcp inspect`: what an MCP server is and offers.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use windlass_core::agent::{HttpAccess, McpServer};
use windlass_tools::McpInspection;

use super::{Failure, Global, Output, Workbench, usage};
use crate::{
    cli::failed,
    render::{Table, one_line},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass mcp inspect files
  windlass mcp inspect https://mcp.example.com/mcp
  windlass mcp inspect -- npx -y @modelcontextprotocol/server-everything

A name is that of a server in windlass.toml ([mcp.NAME]), with its credentials.")]
pub struct InspectArgs {
    /// Name of a server in windlass.toml, URL of a server, or a command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "NAME|URL|COMMAND")]
    server: Vec<String>,

    /// Timeout of the connection and of all lists together
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = crate::cli::values::span)]
    timeout: Duration,
}

pub(in crate::cli) async fn inspect(global: &Global, args: InspectArgs) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    let mut bench = Workbench::open(global).await?;
    let server = match args.server.as_slice() {
        [url] if url.starts_with("http://") || url.starts_with("https://") => {
            // The person at the shell chooses the address, so it may be a private one.
            let access = HttpAccess { allow_private: true, ..HttpAccess::default() };
            McpServer { server: None, url: Some(url.clone()), access }
        }
        [name] if global.config().mcp.contains_key(name) => {
            McpServer { server: Some(name.clone()), ..McpServer::default() }
        }
        [name] if !name.contains(['/', '.', ' ']) && !is_program(name) => {
            let known: Vec<&str> = global.config().mcp.keys().map(String::as_str).collect();
            let known =
                if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
            return Err(usage(format!(
                "the config has no MCP server {name:?} ({known}), and there is no such program"
            )));
        }
        command => {
            bench.tools = bench.tools.with_command("inspected", command.to_vec());
            McpServer { server: Some("inspected".to_owned()), ..McpServer::default() }
        }
    };
    let found = bench.tools.inspect(&server, &*bench.secrets, args.timeout).await;
    let redaction = bench.secrets.redaction();
    bench.close().await?;
    let found = found.map_err(|failure| failed(redaction.failure(failure).error.message))?;
    let found = redaction.inspection(found);
    out.print(&found, || text(&found, out))?;
    Ok(ExitCode::SUCCESS)
}

fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

fn text(found: &McpInspection, out: Output) -> String {
    let field = |value: &serde_json::Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let (name, version) = (field(&found.server, "name"), field(&found.server, "version"));
    let mut lines = vec![format!("{name} {version}, protocol {}", found.protocol)];
    if let Some(instructions) = &found.instructions {
        lines.push(one_line(instructions, 400));
    }
    let mut table = Table::new(&["TOOL", "DESCRIPTION"]);
    for tool in &found.tools {
        table.row(vec![field(tool, "name"), one_line(&field(tool, "description"), 120)]);
    }
    lines.push(table.render(out.table_width()));
    lines.push(format!(
        "{} tools, {} prompts, {} resources, {} resource templates",
        found.tools.len(),
        found.prompts.len(),
        found.resources.len(),
        found.resource_templates.len()
    ));
    lines.join("\n")
}
