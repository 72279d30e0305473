//! Reading a definition from a TOML or JSON file, with errors that name the line and column to look at.
//!
//! A file is parsed to a tree with positions ([`tree`], [`toml`], [`json`]), read field by field against the known fields
//! ([`shape`], [`read`]), turned into an [`AgentDefinition`] and checked. Each of these steps reports everything it
//! finds; a later step is not tried on what an earlier one refused, because its findings would be guesses.
//!
//! Opening files is the caller's.

mod duration;
mod json;
mod read;
mod shape;
mod toml;
mod tree;
mod unknown;

use std::{fmt, path::Path};

pub use self::unknown::unknown_fields;
use self::{
    read::{Reading, read},
    tree::{Fault, Syntax},
};
use super::{AgentDefinition, check, check_sources};

/// Everything that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct DefinitionError {
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

impl fmt::Display for DefinitionError {
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

/// The definition in `text`; the format is told by the extension of `path_name`, which also names the file in errors.
pub fn parse(path_name: &str, text: &str) -> Result<AgentDefinition, DefinitionError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    parse_text(path_name, text).map_err(|mut faults| {
        faults.sort_by_key(|fault| fault.at);
        let problems = faults.into_iter().map(|fault| locate(text, fault)).collect();
        DefinitionError { file: path_name.to_owned(), problems }
    })
}

fn parse_text(path_name: &str, text: &str) -> Result<AgentDefinition, Vec<Fault>> {
    let syntax = syntax_of(path_name)?;
    let root = match syntax {
        Syntax::Toml => toml::tree(text),
        Syntax::Json => json::tree(text),
    }
    .map_err(|fault| vec![fault])?;

    let Reading { value, faults, places } = read(&shape::AGENT, &root, syntax);
    if !faults.is_empty() {
        return Err(faults);
    }
    let misplaced = check_sources(&value);
    if !misplaced.is_empty() {
        return Err(misplaced.into_iter().map(|problem| places.fault(problem)).collect());
    }
    let definition: AgentDefinition =
        serde_json::from_value(value).map_err(|error| vec![Fault::whole(error.to_string())])?;
    let problems = check(&definition);
    if problems.is_empty() {
        return Ok(definition);
    }
    Err(problems.into_iter().map(|problem| places.fault(problem)).collect())
}

/// The fields of a policy, as the wire and JSON files write them.
pub fn policy_fields() -> impl Iterator<Item = &'static str> {
    shape::POLICY.0.iter().filter(|field| field.key == field.fills).map(|field| field.key)
}

fn syntax_of(path_name: &str) -> Result<Syntax, Vec<Fault>> {
    match Path::new(path_name).extension() {
        Some(extension) if extension.eq_ignore_ascii_case("toml") => Ok(Syntax::Toml),
        Some(extension) if extension.eq_ignore_ascii_case("json") => Ok(Syntax::Json),
        _ => Err(vec![Fault::whole("the name of a definition file must end in .toml or .json".to_owned())]),
    }
}

fn locate(text: &str, fault: Fault) -> Located {
    let before = &text[..text.floor_char_boundary(fault.at)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Located {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        path: fault.path,
        message: fault.message,
    }
}

#[cfg(test)]
mod tests;
