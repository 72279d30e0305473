//! ARCHITECTURE.md lists every crate.

use super::{Finding, files::File};

const MAP: &str = "ARCHITECTURE.md";

pub(super) fn folders_missing_from_map(files: &[File]) -> Vec<Finding> {
    let Some(map) = files.iter().find(|file| file.path == MAP) else {
        return vec![Finding { path: MAP.to_owned(), line: 1, message: "the file is missing; write it".to_owned() }];
    };
    let listed: Vec<&str> = map.lines().map(|(_, line)| listed_folder(line)).collect();
    files
        .iter()
        .filter_map(|file| file.path.strip_suffix("/Cargo.toml"))
        .filter(|folder| !listed.contains(folder))
        .map(|folder| Finding {
            path: MAP.to_owned(),
            line: 1,
            message: format!("the crate {folder} is not listed; add a line that starts with its folder"),
        })
        .collect()
}

/// The first word of a line of a list, table or code block, without its markup.
fn listed_folder(line: &str) -> &str {
    let text = line.trim_start_matches(|c: char| c.is_whitespace() || "|*-`".contains(c));
    let end = text.find(|c: char| c.is_whitespace() || "|`:".contains(c)).unwrap_or(text.len());
    text[..end].trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{files::file, finding};

    #[test]
    fn folders_are_found_in_lists_tables_and_blocks() {
        for line in ["crates/core  the domain", "| `crates/core` | x |", "- `crates/core/`: x", "  * crates/core: x"] {
            assert_eq!(listed_folder(line), "crates/core", "{line}");
        }
        for line in ["see crates/core", "crates/core2", "`crates/core/src`", ""] {
            assert_ne!(listed_folder(line), "crates/core", "{line}");
        }
    }

    #[test]
    fn every_crate_is_on_the_map() {
        let files = [
            file("ARCHITECTURE.md", "# Map\n- `crates/core`: x\nwe have tests and xtask\n"),
            file("Cargo.toml", ""),
            file("crates/core/Cargo.toml", ""),
            file("tests/Cargo.toml", ""),
            file("tests/fixtures/a.toml", ""),
        ];
        let message = "the crate tests is not listed; add a line that starts with its folder";
        assert_eq!(folders_missing_from_map(&files), [finding("ARCHITECTURE.md", 1, message)]);
        let missing = finding("ARCHITECTURE.md", 1, "the file is missing; write it");
        assert_eq!(folders_missing_from_map(&files[1..]), [missing]);
    }
}
