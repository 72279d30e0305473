//! Layers over each other: a value of an upper layer replaces the value at the same path, and nothing else.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::{Map, Value};

use super::layer::Layer;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built into this program.
    Default,
    File {
        path: PathBuf,
        line: usize,
    },
    /// An environment variable.
    Env(String),
    /// An option of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Env(name) => write!(f, "${name}"),
            Self::Flag(option) => f.write_str(option),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let of = |kind: &str, more: Value| {
            let mut fields = Map::from_iter([("kind".to_owned(), Value::from(kind))]);
            fields.extend(more.as_object().cloned().unwrap_or_default());
            fields
        };
        match self {
            Self::Default => of("default", Value::Null),
            Self::File { path, line } => of("file", serde_json::json!({"file": path, "line": line})),
            Self::Env(name) => of("env", serde_json::json!({"variable": name})),
            Self::Flag(option) => of("flag", serde_json::json!({"option": option})),
        }
        .serialize(serializer)
    }
}

/// One value of the effective configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// As a file writes it: `providers.anthropic.base_url`.
    pub path: String,
    pub value: Value,
    pub origin: Origin,
}

/// The effective values, by JSON pointer.
#[derive(Debug, Default)]
pub(super) struct Merged(pub(super) BTreeMap<String, Setting>);

impl Merged {
    /// Puts a layer over what there is. `file` is the layer's file; without it, the layer is built in.
    #[must_use]
    pub(super) fn under(mut self, layer: &Layer<'_>, file: Option<&Path>) -> Self {
        for (pointer, leaf) in &layer.values {
            let origin = match file {
                None => Origin::Default,
                Some(path) => Origin::File { path: path.to_owned(), line: leaf.line },
            };
            let setting = Setting { path: leaf.path.clone(), value: leaf.value.clone(), origin };
            self.0.insert(pointer.clone(), setting);
        }
        self
    }

    /// The values as one document.
    pub(super) fn document(&self) -> Value {
        let mut root = Value::Object(Map::new());
        for (pointer, setting) in &self.0 {
            let mut place = &mut root;
            for key in pointer.split('/').skip(1) {
                let key = key.replace("~1", "/").replace("~0", "~");
                // A value that is no object cannot have values below it: each layer has been read against one table.
                place = &mut place[key];
            }
            *place = setting.value.clone();
        }
        root
    }
}
