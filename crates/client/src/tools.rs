//! Local tools: their declarations and handlers.

use std::{
    collections::HashSet,
    fmt::Display,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use windlass_core::ids::{CallId, RunId};

use crate::Error;

/// A call's result for the model, or its error.
pub(crate) type CallResult = Result<String, String>;

type Handler = Arc<dyn Fn(Value) -> BoxFuture<'static, CallResult> + Send + Sync>;

/// A local tool: a declaration and a handler.
#[derive(Clone)]
pub struct Tool {
    declaration: Value,
    handler: Handler,
}

impl Tool {
    /// A handler gets the arguments, deserialized into its parameter type. A string is the result as it is, any other value as
    /// JSON; an error is sent to the model.
    pub fn new<A, T, E, F, R>(
        name: impl Into<String>,
        schema: Value,
        description: impl Into<String>,
        handler: F,
    ) -> Self
    where
        A: DeserializeOwned,
        T: Serialize,
        E: Display,
        F: Fn(A) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, E>> + Send + 'static,
    {
        let handler = move |args: Value| match serde_json::from_value(args) {
            Ok(args) => handler(args).map(|result| text_of(result)).boxed(),
            Err(error) => std::future::ready(Err(format!("the arguments do not match: {error}"))).boxed(),
        };
        let declaration = json!({
            "kind": "local", "name": name.into(), "description": description.into(), "parameters": schema,
        });
        Self { declaration, handler: Arc::new(handler) }
    }

    /// Declares that the tool changes nothing, so that several calls of one turn are executed at the same time.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.declaration["readOnly"] = json!(true);
        self
    }

    /// Declares that the tool takes long; the model is told not to call it again while it is pending.
    #[must_use]
    pub fn long_running(mut self) -> Self {
        self.declaration["longRunning"] = json!(true);
        self
    }

    fn name(&self) -> &str {
        self.declaration["name"].as_str().unwrap_or_default()
    }
}

fn text_of<T: Serialize, E: Display>(result: Result<T, E>) -> CallResult {
    let value = result.map_err(|error| error.to_string())?;
    match serde_json::to_value(value).map_err(|error| format!("the result cannot be written as JSON: {error}"))? {
        Value::String(text) => Ok(text),
        value => Ok(value.to_string()),
    }
}

/// The local tools of this process. Clones share the set of calls that have begun.
#[derive(Clone, Default)]
pub struct Tools {
    tools: Vec<Tool>,
    /// Calls that have begun in this process: a call that arrives again, on another stream, is not executed again.
    begun: Arc<Mutex<HashSet<(RunId, CallId)>>>,
}

impl Tools {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool; see [`Tool::new`].
    #[must_use]
    pub fn add<A, T, E, F, R>(
        self,
        name: impl Into<String>,
        schema: Value,
        description: impl Into<String>,
        handler: F,
    ) -> Self
    where
        A: DeserializeOwned,
        T: Serialize,
        E: Display,
        F: Fn(A) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.with(Tool::new(name, schema, description, handler))
    }

    #[must_use]
    pub fn with(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// The spec as it is sent, with these tools in it.
    pub(crate) fn declared_in(&self, spec: &impl Serialize) -> Result<Value, Error> {
        let mut body = serde_json::to_value(spec).map_err(|error| Error::Unusable { what: error.to_string() })?;
        let ours = self.tools.iter().map(|tool| tool.declaration.clone());
        match &mut body["tools"] {
            Value::Array(tools) => tools.extend(ours),
            // A message without tools must not replace the session's tools.
            none if self.tools.is_empty() => drop(none.take()),
            none => *none = ours.collect(),
        }
        if let Value::Object(fields) = &mut body {
            fields.retain(|_, value| !value.is_null());
        }
        Ok(body)
    }

    /// Whether this process has not begun the call before.
    pub(crate) fn begin(&self, run: &RunId, call: &CallId) -> bool {
        self.begun().insert((run.clone(), call.clone()))
    }

    /// Removes the calls of a run that has ended.
    pub(crate) fn forget(&self, run: &RunId) {
        self.begun().retain(|(other, _)| other != run);
    }

    fn begun(&self) -> std::sync::MutexGuard<'_, HashSet<(RunId, CallId)>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a call. Every outcome of the handler, also a panic, is a result for the model.
    pub(crate) fn call(&self, name: &str, args: Value) -> BoxFuture<'static, CallResult> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name) else {
            return std::future::ready(Err(format!("No local handler registered for tool '{name}'"))).boxed();
        };
        let failed = format!("Local tool '{name}' failed");
        let handler = Arc::clone(&tool.handler);
        let called = AssertUnwindSafe(async move { handler(args).await }).catch_unwind();
        let result = called.map(move |result| match result {
            Ok(result) => result.map_err(|error| format!("{failed}: {error}")),
            Err(_) => Err(format!("{failed}: the handler panicked")),
        });
        result.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageSpec, RunSpec};

    #[derive(serde::Deserialize)]
    struct Pair {
        a: u8,
        b: u8,
    }

    fn tools() -> Tools {
        let schema = json!({"type": "object"});
        Tools::new()
            .add("add", schema.clone(), "Adds.", async |Pair { a, b }: Pair| a.checked_add(b).ok_or("too large"))
            .add("shout", schema.clone(), "Shouts.", async |args: Value| {
                Ok::<_, String>(args["text"].as_str().unwrap_or_default().to_uppercase())
            })
            .add("burn", schema, "Fails badly.", async |_: Value| -> Result<(), String> {
                // Without the panic hook, whose output would look like a failure of the test.
                std::panic::resume_unwind(Box::new("on fire"))
            })
    }

    async fn call(name: &str, args: Value) -> CallResult {
        tools().call(name, args).await
    }

    #[tokio::test]
    async fn every_outcome_of_a_handler_is_a_result_for_the_model() {
        assert_eq!(call("add", json!({"a": 2, "b": 3})).await, Ok("5".into()));
        assert_eq!(call("shout", json!({"text": "hey"})).await, Ok("HEY".into()));
        let failures = [
            (call("add", json!({"a": 200, "b": 100})).await, "Local tool 'add' failed: too large"),
            (call("burn", json!({})).await, "Local tool 'burn' failed: the handler panicked"),
            (call("nope", json!({})).await, "No local handler registered for tool 'nope'"),
        ];
        for (result, expected) in failures {
            assert_eq!(result, Err(expected.to_owned()));
        }
        let mismatch = call("add", json!({"a": "x"})).await.unwrap_err();
        assert!(mismatch.starts_with("Local tool 'add' failed: the arguments do not match: "), "{mismatch}");
    }

    #[test]
    fn a_call_begins_once_until_its_run_has_ended() {
        let (tools, run, call) = (tools(), RunId::new("r"), CallId::new("c"));
        let same = tools.clone();
        assert_eq!((tools.begin(&run, &call), same.begin(&run, &call)), (true, false));
        assert!(tools.begin(&"other".into(), &call));
        tools.forget(&run);
        assert!(tools.begin(&run, &call));
    }

    #[test]
    fn tools_are_declared_beside_those_of_the_server() {
        let mut spec = RunSpec::new("hi");
        spec.agent.settings.tools.push(json!({"kind": "mantyx", "id": "clock"}));
        let tool =
            Tool::new("look", json!({"type": "object"}), "Looks.", async |_: Value| Ok::<_, String>(1)).read_only();
        let declared = Tools::new().with(tool).declared_in(&spec).unwrap();
        let local = json!({"kind": "local", "name": "look", "description": "Looks.", "parameters": {"type": "object"},
            "readOnly": true});
        assert_eq!(declared, json!({"prompt": "hi", "tools": [{"kind": "mantyx", "id": "clock"}, local]}));
        assert_eq!(Tools::new().declared_in(&MessageSpec::new("hi")).unwrap(), json!({"prompt": "hi"}));
    }
}
