//! What both formats parse to: JSON values that remember where they stand.

use serde_json::Number;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    Toml,
    Json,
}

/// A value and the byte it starts at.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) data: Data,
}

#[derive(Debug)]
pub(super) enum Data {
    Null,
    Flag(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// A TOML value that JSON has no form for, and what it is.
    Foreign(&'static str),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The byte the key starts at.
    pub(super) at: usize,
    pub(super) node: Node,
}

/// Something wrong at a byte of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: usize,
    /// The field as the file writes it.
    pub(super) path: String,
    pub(super) message: String,
}

impl Fault {
    /// A fault of the file rather than of one field.
    pub(super) fn whole(message: String) -> Self {
        Self::syntax(0, message)
    }

    pub(super) fn syntax(at: usize, message: String) -> Self {
        Self { at, path: String::new(), message }
    }
}
