//! The project's text files.

use std::{fs, io::ErrorKind, path::Path, process::Command};

use anyhow::{Context, Result};

/// A text file of the project.
#[derive(Debug)]
pub(crate) struct File {
    /// From the workspace's root, with `/`.
    pub(crate) path: String,
    pub(super) text: String,
}

impl File {
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Every text file under `root` that is, or will be, under version control.
pub(crate) fn all(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    for path in paths(root)? {
        let bytes = match fs::read(root.join(&path)) {
            Ok(bytes) => bytes,
            // Deleted, but not committed yet.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("{path} could not be read")),
        };
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path, text });
        }
    }
    Ok(files)
}

fn paths(root: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    if let Ok(output) = git.output()
        && output.status.success()
    {
        let listed = String::from_utf8(output.stdout).context("a file name is not UTF-8; rename it")?;
        return Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect());
    }
    // A source archive has no repository. It contains only the project and its build.
    let mut paths = Vec::new();
    walk(root, "", &mut paths)?;
    Ok(paths)
}

fn walk(root: &Path, below: &str, paths: &mut Vec<String>) -> Result<()> {
    let folder = root.join(below);
    let context = || format!("{} could not be listed", folder.display());
    for entry in fs::read_dir(&folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        let name = entry.file_name().into_string().ok().context("a file name is not UTF-8; rename it")?;
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        let kind = entry.file_type().with_context(context)?;
        if kind.is_dir() && path != "target" && path != ".git" {
            walk(root, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::root;

    #[test]
    fn git_and_the_directory_walk_list_this_file() {
        let mut walked = Vec::new();
        walk(root(), "", &mut walked).unwrap();
        for paths in [paths(root()).unwrap(), walked] {
            assert!(paths.contains(&"xtask/src/tidy/files.rs".to_owned()));
            assert!(!paths.iter().any(|path| path.starts_with("target/") || path.starts_with(".git/")));
        }
    }

    #[test]
    fn only_text_is_read() {
        let files = all(root()).unwrap();
        let this = files.iter().find(|file| file.path == "xtask/src/tidy/files.rs").unwrap();
        assert_eq!(this.lines().next(), Some((1, "//! The project's text files.")));
        assert!(this.is_rust());
    }
}
