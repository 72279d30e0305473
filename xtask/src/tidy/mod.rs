//! Rules of the repository that no compiler checks. Each rule reads the files and returns its findings.

mod codes;
pub(crate) mod files;
mod links;
mod map;
mod text;
mod words;

use std::fmt;

use anyhow::{Result, bail};

use self::files::File;
use crate::cargo::root;

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1.
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

type Rule = fn(&[File]) -> Vec<Finding>;

const RULES: &[Rule] = &[
    text::long_files,
    text::unfinished_code,
    text::machine_paths,
    words::banned_words,
    codes::codes_without_page,
    codes::pages_without_code,
    map::folders_missing_from_map,
    links::broken_links,
    links::missing_files_of_walkthrough,
];

pub(crate) fn run() -> Result<()> {
    let files = files::all(root())?;
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&files)).collect();
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} places break the rules above", findings.len());
    }
    println!("{} files hold to {} rules", files.len(), RULES.len());
    Ok(())
}

#[cfg(test)]
fn finding(path: &str, line: usize, message: &str) -> Finding {
    Finding { path: path.to_owned(), line, message: message.to_owned() }
}
