//! Scripts of `windlass run --scripts` for runs in the command's own process. They are kept in the data directory, because
//! an unfinished run continues with the next command, which does not name them again.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use windlass_models::script::ScriptModel;

use crate::failure::{Failure, failed, usage};

const FILE: &str = "scripts.json";

/// The file with the kept scripts, if there is one.
pub(crate) fn kept(home: &Path) -> Option<PathBuf> {
    Some(home.join(FILE)).filter(|path| path.exists())
}

/// Adds scripts to the kept ones. A script of the same name is replaced.
pub(super) fn keep(home: &Path, given: &Path) -> Result<(), Failure> {
    let unusable = |problem: &dyn std::fmt::Display| usage(format!("{}: {problem}", given.display()));
    let read = |path: &Path| -> Result<Map<String, Value>, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        ScriptModel::from_json(&text).map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    let new = read(given).map_err(|problem| unusable(&problem))?;
    // If the old file cannot be read, it is replaced.
    let mut all = kept(home).and_then(|path| read(&path).ok()).unwrap_or_default();
    all.extend(new);
    let path = home.join(FILE);
    let written = fs::write(path.with_extension("new"), Value::Object(all).to_string())
        .and_then(|()| fs::rename(path.with_extension("new"), &path));
    written.map_err(|error| failed(format!("{} cannot be written: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_scripts_are_added_to_the_kept_ones() {
        let home = tempfile::tempdir().unwrap();
        let given = home.path().join("given.json");
        let keep_text = |text: &str| {
            fs::write(&given, text).unwrap();
            keep(home.path(), &given)
        };
        assert_eq!(kept(home.path()), None);
        keep_text(r#"{"a": {"turns": []}, "b": {"turns": []}}"#).unwrap();
        keep_text(r#"{"b": {"turns": [{"text": "new"}]}}"#).unwrap();
        let refused = keep_text(r#"{"c": {"turn": []}}"#).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("{}: script `c`: unknown field `turn`", given.display())), "{refused}");
        let text = fs::read_to_string(kept(home.path()).unwrap()).unwrap();
        assert_eq!(text, r#"{"a":{"turns":[]},"b":{"turns":[{"text":"new"}]}}"#);
    }
}
