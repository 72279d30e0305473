//! A client of the agent-runs API: start runs, follow them across lost connections and server restarts, execute local
//! tools for them, and answer their awaits.
//!
//! ```no_run
//! use windlass_client::{Client, Options, RunSpec, Tools};
//! use serde_json::json;
//!
//! #[derive(serde::Deserialize)]
//! struct Sum {
//!     a: i64,
//!     b: i64,
//! }
//!
//! # async fn example() -> Result<(), windlass_client::Error> {
//! let key = std::env::var("WINDLASS_API_KEY").unwrap_or_default();
//! let client = Client::new(Options::new("http://127.0.0.1:8080", key.into(), "default"))?;
//!
//! let integers = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
//! let tools = Tools::new().add("add", integers, "Adds two numbers.", async |Sum { a, b }: Sum| {
//!     a.checked_add(b).ok_or("the sum is too large")
//! });
//! let spec = RunSpec::new("What is 2 + 3?").system_prompt("You can add.").model("script:adder");
//! let outcome = client.run(&spec, &tools).await?;
//! println!("{}", outcome.text);
//! # Ok(())
//! # }
//! ```
//!
//! Which requests are repeated: a stream reconnects and continues after the last event that it returned, the
//! result of a tool is sent until the server accepts or rejects it, and the start of a run is sent with one run id until
//! the server responds. Every other request is sent once.

mod approvals;
mod client;
mod drive;
mod error;
mod event;
mod http;
mod operate;
mod options;
mod outcome;
mod sessions;
mod spec;
mod stream;
mod tools;
mod views;

pub use self::{
    client::Client,
    error::{Error, Refusal, RunError},
    event::{Event, EventBody, ModelRef, Tokens},
    options::{Address, Options},
    outcome::Outcome,
    sessions::SessionFilter,
    spec::{AgentSpec, MessageSpec, OutputSchema, Reasoning, RunSpec, Said, SaidMessage, Settings},
    stream::{EventStream, LogStream, Lost, Update},
    tools::{Tool, Tools},
    views::{
        Agent, Identity, Kept, RowPage, Run, RunFilter, RunPage, Session, SessionHistory, SessionItem, SessionPage,
        Transcript,
    },
};
