//! Texts that must not be in a file.

use super::{Finding, files::File};

const MAX_LINES: usize = 800;

/// Split so that this file does not break its own rule.
const UNFINISHED: [(&str, &str); 4] = [
    (concat!("to", "do!("), "finish this"),
    (concat!("un", "implemented!("), "finish this"),
    (concat!("db", "g!("), "remove this"),
    (concat!("#[ig", "nore"), "a test runs or is deleted"),
];

/// Folders of the machines on which this project is built.
const MACHINE_FOLDERS: [&str; 4] = ["work", "root", "home", "farm"];

pub(super) fn long_files(files: &[File]) -> Vec<Finding> {
    let lengths = files.iter().filter(|file| file.is_rust()).map(|file| (file, file.text.lines().count()));
    lengths
        .filter(|(_, length)| *length > MAX_LINES)
        .map(|(file, length)| Finding {
            path: file.path.clone(),
            line: MAX_LINES + 1,
            message: format!("{length} lines; split the file, {MAX_LINES} is the most"),
        })
        .collect()
}

pub(super) fn unfinished_code(files: &[File]) -> Vec<Finding> {
    each_line(files.iter().filter(|file| file.is_rust()), |line| {
        let (pattern, advice) = UNFINISHED.iter().find(|(pattern, _)| line.contains(pattern))?;
        Some(format!("`{pattern}`: {advice}"))
    })
}

pub(super) fn machine_paths(files: &[File]) -> Vec<Finding> {
    each_line(files.iter(), |line| {
        let folder = MACHINE_FOLDERS.iter().find(|folder| names_folder(line, folder))?;
        Some(format!("`/{folder}` is a path of one machine; write a relative one"))
    })
}

/// Whether an absolute path that starts with this folder is on the line.
fn names_folder(line: &str, folder: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || "._-~/}".contains(c);
    line.match_indices(&format!("/{folder}")).any(|(at, found)| {
        let (before, after) = (&line[..at], &line[at + found.len()..]);
        let starts = before.ends_with("file://") || !before.chars().next_back().is_some_and(part_of_name);
        starts && !after.chars().next().is_some_and(|c| c.is_alphanumeric() || "_-".contains(c))
    })
}

fn each_line<'a>(files: impl Iterator<Item = &'a File>, rule: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let rule = &rule;
    files
        .flat_map(|file| {
            file.lines()
                .filter_map(move |(line, text)| Some(Finding { path: file.path.clone(), line, message: rule(text)? }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{files::file, finding};

    #[test]
    fn a_file_may_have_800_lines_and_no_more() {
        let files = [
            file("a.rs", &"x\n".repeat(800)),
            file("b.rs", &"x\n".repeat(801)),
            file("Cargo.lock", &"x\n".repeat(9000)),
        ];
        assert_eq!(long_files(&files), [finding("b.rs", 801, "801 lines; split the file, 800 is the most")]);
    }

    #[test]
    fn unfinished_code_is_found_in_rust_only() {
        for (pattern, advice) in UNFINISHED {
            let text = format!("fn a() {{}}\n  {pattern}");
            assert_eq!(
                unfinished_code(&[file("a.rs", &text), file("a.md", &text)]),
                [finding("a.rs", 2, &format!("`{pattern}`: {advice}"))]
            );
        }
        assert_eq!(unfinished_code(&[file("a.rs", "// to do: ignore me\nlet dbg = unimplemented;")]), []);
    }

    #[test]
    fn machine_paths_are_found_everywhere() {
        for folder in MACHINE_FOLDERS {
            let expected = [finding("a.md", 1, &format!("`/{folder}` is a path of one machine; write a relative one"))];
            for sample in ["see /{}/notes", "/{}", "cd \"/{}\"", "path=/{}/x", "(/{})", "file:///{}/x"] {
                let line = sample.replace("{}", folder);
                assert_eq!(machine_paths(&[file("a.md", &line)]), expected, "{line}");
            }
            for sample in ["/{}flows", "/api/{}", "../{}/x", "~/{}", "{a}/{}", "src/{}.rs", "/{}-a", "https://{}.net"] {
                assert_eq!(machine_paths(&[file("a.md", &sample.replace("{}", folder))]), [], "{sample} {folder}");
            }
        }
    }
}
