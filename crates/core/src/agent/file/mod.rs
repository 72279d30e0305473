//! Reading a definition from a TOML or JSON file, with errors that name the line and column to look at.
//!
//! A file is parsed to a tree with positions and read against the known fields ([`shape`]) by [`crate::file`], turned into
//! an [`AgentDefinition`] and checked. Each of these steps reports everything it finds; a later step is not tried on what
//! an earlier one refused, because its findings would be guesses.
//!
//! Opening files is the caller's.

pub(crate) mod shape;
mod unknown;

use std::path::Path;

pub(crate) use self::unknown::unknown_rule_fields;
pub use self::{shape::CONFIGURED_TOOL, unknown::unknown_fields};
use super::{AgentDefinition, check, check_sources};
use crate::file::{Fault, Reading, Syntax, parse_json, parse_toml, read, without_mark};
pub use crate::file::{FileError as DefinitionError, Located};

/// The definition in `text`; the format is told by the extension of `path_name`, which also names the file in errors.
pub fn parse(path_name: &str, text: &str) -> Result<AgentDefinition, DefinitionError> {
    let text = without_mark(text);
    parse_text(path_name, text).map_err(|faults| DefinitionError::new(path_name, text, faults))
}

fn parse_text(path_name: &str, text: &str) -> Result<AgentDefinition, Vec<Fault>> {
    let syntax = syntax_of(path_name)?;
    let root = match syntax {
        Syntax::Toml => parse_toml(text),
        Syntax::Json => parse_json(text),
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

pub(crate) fn syntax_of(path_name: &str) -> Result<Syntax, Vec<Fault>> {
    match Path::new(path_name).extension() {
        Some(extension) if extension.eq_ignore_ascii_case("toml") => Ok(Syntax::Toml),
        Some(extension) if extension.eq_ignore_ascii_case("json") => Ok(Syntax::Json),
        _ => Err(vec![Fault::whole("the name of a definition file must end in .toml or .json".to_owned())]),
    }
}

#[cfg(test)]
mod tests;
