//! Error codes and their pages: each code in the sources has `docs/errors/CODE.md`, each page has its code.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, files::File};

const PAGES: &str = "docs/errors/";

/// Standards have names like codes.
const NOT_CODES: [&str; 2] = ["RFC", "ISO"];

pub(super) fn codes_without_page(files: &[File]) -> Vec<Finding> {
    let pages: BTreeSet<&str> = pages(files).map(|(code, _)| code).collect();
    let mut first_mentions = BTreeMap::new();
    for (code, path, line) in mentions(files) {
        first_mentions.entry(code).or_insert((path, line));
    }
    first_mentions
        .into_iter()
        .filter(|(code, _)| !pages.contains(code))
        .map(|(code, (path, line))| Finding {
            path: path.to_owned(),
            line,
            message: format!("error code {code} has no page; write {PAGES}{code}.md"),
        })
        .collect()
}

pub(super) fn pages_without_code(files: &[File]) -> Vec<Finding> {
    let used: BTreeSet<&str> = mentions(files).map(|(code, _, _)| code).collect();
    pages(files)
        .filter(|(code, _)| !used.contains(code))
        .map(|(code, path)| Finding {
            path: path.to_owned(),
            line: 1,
            message: format!("no source mentions {code}; delete its page"),
        })
        .collect()
}

fn pages(files: &[File]) -> impl Iterator<Item = (&str, &str)> {
    files.iter().filter_map(|file| {
        let name = file.path.strip_prefix(PAGES)?.strip_suffix(".md")?;
        is_code(name).then_some((name, file.path.as_str()))
    })
}

/// Each code in the Rust sources with its path and line.
fn mentions(files: &[File]) -> impl Iterator<Item = (&str, &str, usize)> {
    files.iter().filter(|file| file.is_rust()).flat_map(|file| {
        file.lines().flat_map(move |(line, text)| {
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.filter(|word| is_code(word)).map(move |code| (code, file.path.as_str(), line))
        })
    })
}

/// Three capital letters and four digits.
fn is_code(word: &str) -> bool {
    match word.split_at_checked(3) {
        Some((letters, digits)) => {
            letters.chars().all(|c| c.is_ascii_uppercase())
                && digits.len() == 4
                && digits.chars().all(|c| c.is_ascii_digit())
                && !NOT_CODES.contains(&letters)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{files::file, finding};

    /// A code that does not occur in this file, which is a source, too.
    fn code(number: u32) -> String {
        format!("ABC{number:04}")
    }

    #[test]
    fn error_codes_are_recognized() {
        let code = code(12);
        for (word, expected) in [
            (code.as_str(), true),
            ("AB00012", false),
            ("abc0012", false),
            ("ABC012", false),
            ("ABCD012", false),
            ("RFC8785", false),
            ("ISO8601", false),
            ("ÄÖ0012", false),
            ("", false),
        ] {
            assert_eq!(is_code(word), expected, "{word}");
        }
    }

    #[test]
    fn a_code_needs_a_page() {
        let (with, without) = (code(1), code(2));
        let files = [
            file("a.rs", &format!("\n\"{with}\" => {without}\n{without} X{without} {without}_{with}")),
            file("b.md", &code(3)),
            file(&format!("docs/errors/{with}.md"), ""),
        ];
        let message = format!("error code {without} has no page; write docs/errors/{without}.md");
        assert_eq!(codes_without_page(&files), [finding("a.rs", 2, &message)]);
    }

    #[test]
    fn a_page_needs_a_code() {
        let (used, unused) = (code(1), code(2));
        let files = [
            file("a.rs", &format!("\"{used}\"")),
            file(&format!("docs/errors/{used}.md"), ""),
            file(&format!("docs/errors/{unused}.md"), ""),
            file("docs/errors/README.md", ""),
        ];
        let path = format!("docs/errors/{unused}.md");
        let message = format!("no source mentions {unused}; delete its page");
        assert_eq!(pages_without_code(&files), [finding(&path, 1, &message)]);
    }
}
