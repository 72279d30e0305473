//! Agent definitions from files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use windlass_core::{
    agent::{AgentDefinition, file},
    ids::AgentId,
};

use crate::failure::{Failure, usage};

/// Reads the definition in a file. The error names each faulty line.
pub fn read(path: &Path) -> Result<AgentDefinition, Failure> {
    let name = path.to_string_lossy();
    let text = fs::read_to_string(path).map_err(|error| usage(format!("{name} cannot be read: {error}")))?;
    file::parse(&name, &text).map_err(usage)
}

/// Reads the definitions in files and directories. No two may have the same id. The error names all faults at once.
pub fn load(paths: &[PathBuf]) -> Result<Vec<AgentDefinition>, Failure> {
    let mut found: BTreeMap<AgentId, PathBuf> = BTreeMap::new();
    let mut definitions = Vec::new();
    let mut problems = Vec::new();
    for path in files(paths)? {
        match read(&path) {
            Err(problem) => problems.push(problem.to_string()),
            Ok(definition) => {
                if let Some(other) = found.insert(definition.id.clone(), path.clone()) {
                    let (id, path, other) = (&definition.id, path.display(), other.display());
                    problems.push(format!("{path}: agent `{id}` is defined in {other} as well; rename one"));
                }
                definitions.push(definition);
            }
        }
    }
    if problems.is_empty() { Ok(definitions) } else { Err(usage(problems.join("\n"))) }
}

fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let unreadable = |error| usage(format!("{} cannot be listed: {error}", path.display()));
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.path();
            if file.extension().is_some_and(|extension| extension == "toml" || extension == "json") {
                inside.push(file);
            }
        }
        if inside.is_empty() {
            return Err(usage(format!("{} has no agent definition; it must end in .toml or .json", path.display())));
        }
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(definitions: Vec<AgentDefinition>) -> Vec<String> {
        definitions.into_iter().map(|definition| definition.id.to_string()).collect()
    }

    #[test]
    fn a_directory_is_read_in_alphabetical_order() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("b.toml"), "id = \"b\"\nmodel = \"script:echo\"").unwrap();
        fs::write(directory.path().join("a.json"), "{\"id\": \"a\", \"model\": \"script:echo\"}").unwrap();
        fs::write(directory.path().join("notes.txt"), "not an agent").unwrap();
        assert_eq!(ids(load(&[directory.path().to_owned()]).unwrap()), ["a", "b"]);
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let good = "id = \"a\"\nmodel = \"script:echo\"";
        for (name, text) in [("a.toml", good), ("b.toml", good), ("c.toml", "id = \"c\"\nmodle = \"x\"")] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let said = load(&[directory.path().to_owned()]).unwrap_err().to_string();
        assert!(said.contains("b.toml: agent `a` is defined in "), "{said}");
        assert!(said.contains("c.toml:2:1: modle"), "{said}");
    }

    #[test]
    fn an_empty_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(load(&[directory.path().to_owned()]).unwrap_err().to_string().contains("has no agent definition"));
    }
}
