//! Reading TOML and JSON files that people write, with errors that name the line and column to look at.
//!
//! A file is parsed to a tree with positions ([`toml`], [`json`]) and read field by field against a table of known fields
//! ([`Record`]). Agent files and the config are such tables. Opening files is the caller's.

mod duration;
mod json;
mod read;
mod shape;
mod toml;
mod tree;

use std::fmt;

pub use self::{
    json::tree as parse_json,
    read::{Places, Reading, read, snake_case},
    shape::{Field, Record, Shape, friendly, optional, required},
    toml::tree as parse_toml,
    tree::{Data, Entry, Fault, Node, Syntax},
};

/// Everything that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct FileError {
    pub file: String,
    /// In the order of the file.
    pub problems: Vec<Located>,
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The field as the file writes it, for example `tools[2].timeout`; empty for the file as a whole.
    pub path: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl FileError {
    pub fn new(file: &str, text: &str, mut faults: Vec<Fault>) -> Self {
        faults.sort_by_key(|fault| fault.at);
        let problems = faults.into_iter().map(|fault| locate(text, fault)).collect();
        Self { file: file.to_owned(), problems }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let Located { line, column, path, message } = problem;
            let newline = if index == 0 { "" } else { "\n" };
            let colon = if path.is_empty() { "" } else { ": " };
            write!(f, "{newline}{}:{line}:{column}: {path}{colon}{message}", self.file)?;
        }
        Ok(())
    }
}

/// The text without a byte order mark.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The line of a byte, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..text.floor_char_boundary(at)].matches('\n').count() + 1
}

fn locate(text: &str, fault: Fault) -> Located {
    let before = &text[..text.floor_char_boundary(fault.at)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Located {
        line: line_of(text, fault.at),
        column: before[line_start..].chars().count() + 1,
        path: fault.path,
        message: fault.message,
    }
}
