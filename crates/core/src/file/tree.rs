//! What both formats parse to: JSON values that remember where they stand.

use serde_json::Number;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    Toml,
    Json,
}

/// A value and the byte it starts at.
#[derive(Debug)]
pub struct Node {
    pub at: usize,
    pub data: Data,
}

#[derive(Debug)]
pub enum Data {
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
pub struct Entry {
    pub key: String,
    /// The byte the key starts at.
    pub at: usize,
    pub node: Node,
}

/// Something wrong at a byte of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: usize,
    /// The field as the file writes it.
    pub path: String,
    pub message: String,
}

impl Fault {
    /// A fault of the file rather than of one field.
    pub fn whole(message: String) -> Self {
        Self::syntax(0, message)
    }

    pub fn syntax(at: usize, message: String) -> Self {
        Self { at, path: String::new(), message }
    }
}
