//! Plain technical English: words and phrases that the project does not use, with what to write instead.

use super::{Finding, files::File};

/// Words and phrases, in lower case, and their replacements.
const BANNED: &[(&str, &str)] = &[
    ("whoever", "name the subject (the caller, the worker, the API server)"),
    ("whomever", "name the subject (the caller, the worker, the API server)"),
    ("nobody", "name the subject (no worker, no caller, no process)"),
    ("somebody", "name the subject (a caller, a client, a worker)"),
    ("everybody", "name the subject (all callers, all components)"),
    ("anybody", "name the subject (a caller, a client, a worker)"),
    ("is said", "by default; or name the program that reports it"),
    ("was said", "was reported; or name the program that reports it"),
    ("over its head", "externally, on the server"),
    ("the seed", "the name of the document, or a random seed"),
    ("all is well", "name what succeeded"),
    ("if need be", "if necessary"),
    ("for want of", "without"),
    ("in vain", "without success"),
    ("anew", "again"),
    ("let go", "evict, release or drop"),
    ("lets go", "evicts, releases or drops"),
    ("taken along", "included"),
    ("hears of", "is notified of, or gets"),
    ("heard of", "known, or notified of"),
    ("sign of life", "heartbeat"),
    ("signs of life", "heartbeats"),
    ("folded in", "checkpointed, or merged"),
    ("comes into being", "is created"),
    ("makes no sense", "is invalid"),
    ("farewell", "run ending"),
];

/// Files that people read.
const EXTENSIONS: [&str; 5] = [".rs", ".md", ".toml", ".proto", ".json"];

/// Recorded data, which is never edited, and this list.
const EXCLUDED: &[&str] = &["crates/api/fixtures", "workflows/histories", "xtask/src/tidy/words.rs"];

/// Files in which a banned word is the name of something outside the project.
const NAMES: &[(&str, &str)] = &[("crates/store/src/postgres/testing.rs", "nobody")];

pub(super) fn banned_words(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| applies_to(&file.path)) {
        for (line, text) in file.lines() {
            let text = if file.path.ends_with(".md") { plain(&without_code(text)) } else { plain(text) };
            let found = |banned: &str| text.contains(&format!(" {banned} ")) && !NAMES.contains(&(&file.path, banned));
            for (banned, instead) in BANNED.iter().filter(|(banned, _)| found(banned)) {
                let message = format!("`{banned}`; instead: {instead}");
                findings.push(Finding { path: file.path.clone(), line, message });
            }
        }
    }
    findings
}

fn applies_to(path: &str) -> bool {
    EXTENSIONS.iter().any(|extension| path.ends_with(extension)) && !EXCLUDED.iter().any(|place| is_in(path, place))
}

/// Whether a path is this file or inside this folder.
fn is_in(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A line of a page without its code spans, which may name anything.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// The words of a line in lower case, each between blanks. Names in snake case are split, so test names are checked too.
fn plain(line: &str) -> String {
    let words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(" ".to_owned(), |text, word| text + &word.to_lowercase() + " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{files::file, finding};

    #[test]
    fn a_banned_word_is_found_in_prose_names_and_strings() {
        let expected = "`nobody`; instead: name the subject (no worker, no caller, no process)";
        for line in ["/// Nobody waits.", "fn a_task_that_nobody_takes() {", "bail!(\"nobody's\")", "nobody"] {
            let text = format!("first\n{line}\n");
            assert_eq!(banned_words(&[file("xtask/a.rs", &text)]), [finding("xtask/a.rs", 2, expected)], "{line}");
        }
        for line in ["let nobodys = 1;", "no body", "A body that no worker reads."] {
            assert_eq!(banned_words(&[file("xtask/a.rs", line)]), [], "{line}");
        }
    }

    #[test]
    fn code_spans_of_pages_are_not_checked() {
        assert_eq!(banned_words(&[file("docs/a.md", "as the user `postgres` or `nobody`, because")]), []);
        assert_eq!(banned_words(&[file("docs/a.md", "`postgres` or nobody")]).len(), 1);
        assert_eq!(banned_words(&[file("xtask/a.rs", "// as the user `nobody`")]).len(), 1);
    }

    #[test]
    fn every_banned_phrase_is_found() {
        for (banned, instead) in BANNED {
            let line = format!("X {}, y", banned.to_uppercase());
            let message = format!("`{banned}`; instead: {instead}");
            assert_eq!(banned_words(&[file("docs/guides/a.md", &line)]), [finding("docs/guides/a.md", 1, &message)]);
        }
    }

    #[test]
    fn all_texts_but_recorded_data_are_checked() {
        let checked = ["README.md", "crates/engine/a.json", "xtask/Cargo.toml", "crates/api/fixtures.rs"];
        let not_checked = [
            "xtask/src/tidy/words.rs",
            "crates/engine/src/visibility/tests/recorded.jsonl",
            "workflows/histories/a.json",
            "xtask/a.py",
        ];
        for path in checked {
            assert_eq!(banned_words(&[file(path, "somebody")]).len(), 1, "{path}");
        }
        for path in not_checked {
            assert_eq!(banned_words(&[file(path, "somebody")]), [], "{path}");
        }
    }

    #[test]
    fn a_name_is_allowed_in_its_file_only() {
        for (path, name) in NAMES {
            assert_eq!(banned_words(&[file(path, name)]), [], "{path}");
            assert_eq!(banned_words(&[file("xtask/a.rs", name)]).len(), 1, "{name}");
        }
    }

    #[test]
    fn every_place_of_the_lists_exists() {
        let files = crate::tidy::files::all(crate::cargo::root()).unwrap();
        for place in EXCLUDED.iter().chain(NAMES.iter().map(|(path, _)| path)) {
            assert!(files.iter().any(|file| is_in(&file.path, place)), "{place}");
        }
    }
}
