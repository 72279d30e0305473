//! Links and file names in pages must exist.

use std::collections::BTreeSet;

use super::{Finding, files::File};

const WALKTHROUGH: &str = "docs/walkthrough.md";

/// Links from one page to a file of the repository.
pub(super) fn broken_links(files: &[File]) -> Vec<Finding> {
    let paths = existing(files);
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, text) in file.lines() {
            for target in links(text).filter(|target| !exists(&paths, &resolved(&file.path, target))) {
                let message = format!("the link to {target} leads to no file; correct it");
                findings.push(Finding { path: file.path.clone(), line, message });
            }
        }
    }
    findings
}

/// Files and folders that the walkthrough names.
pub(super) fn missing_files_of_walkthrough(files: &[File]) -> Vec<Finding> {
    let paths = existing(files);
    let roots: BTreeSet<&str> = files.iter().filter_map(|file| Some(file.path.split_once('/')?.0)).collect();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path == WALKTHROUGH) {
        for (line, text) in file.lines() {
            let quoted = text.split('`').skip(1).step_by(2);
            let named = quoted.filter(|name| name.split_once('/').is_some_and(|(root, _)| roots.contains(root)));
            for name in named.filter(|name| !exists(&paths, name)) {
                let message = format!("there is no {name}; name the file that has it now");
                findings.push(Finding { path: file.path.clone(), line, message });
            }
        }
    }
    findings
}

/// All files and their folders.
fn existing(files: &[File]) -> BTreeSet<&str> {
    let mut paths = BTreeSet::new();
    for file in files {
        let mut path = file.path.as_str();
        while paths.insert(path)
            && let Some((folder, _)) = path.rsplit_once('/')
        {
            path = folder;
        }
    }
    paths
}

fn exists(paths: &BTreeSet<&str>, path: &str) -> bool {
    paths.contains(path.trim_end_matches('/'))
}

/// The targets of a line's links inside the repository.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?.split('#').next()?;
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}

/// The target of a link in a page, relative to the root.
fn resolved(page: &str, target: &str) -> String {
    let mut folders: Vec<&str> = page.split('/').collect();
    folders.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(folders.pop()),
            part => folders.push(part),
        }
    }
    folders.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{files::file, finding};

    #[test]
    fn links_lead_to_files_and_folders() {
        let files = [
            file(
                "README.md",
                "[a](docs/a.md), [b](docs/b.md#part)\n[web](https://x.y/z) [here](#part) [docs](docs/)\n",
            ),
            file("docs/a.md", "[up](../README.md) [beside](./b.md)\n\n[gone](../gone.md)\n"),
            file("docs/b.md", ""),
        ];
        let message = "the link to ../gone.md leads to no file; correct it";
        assert_eq!(broken_links(&files), [finding("docs/a.md", 3, message)]);
    }

    #[test]
    fn the_walkthrough_names_files_that_exist() {
        let walkthrough =
            "`create` in `crates/api/src/runs.rs` and `crates/api`\n`crates/api/src/old.rs`, `POST /x/y`, `a/b`\n";
        let files = [file("docs/walkthrough.md", walkthrough), file("crates/api/src/runs.rs", "")];
        let message = "there is no crates/api/src/old.rs; name the file that has it now";
        assert_eq!(missing_files_of_walkthrough(&files), [finding("docs/walkthrough.md", 2, message)]);
    }
}
