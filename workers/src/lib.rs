//! The `windlass` binary. `service` composes all crates; `cli` parses and prints.
//!
//! It is also a library, so that SDK futures are compiled once and tests can run a worker in process.

pub mod bench;
pub mod cli;
pub mod config;
pub mod dev;
pub mod failure;
mod output;
pub mod render;
pub mod service;
pub mod temporal;

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    fn sources(directory: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn modules_depend_on_each_other_in_one_direction() {
        // No module may use one that is listed before it.
        let layers = ["cli", "bench", "dev", "service", "config", "output", "temporal", "render", "failure"];
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        for (level, layer) in layers.iter().enumerate() {
            let directory = root.join(layer);
            let files = if directory.is_dir() { sources(&directory) } else { vec![directory.with_extension("rs")] };
            for file in files {
                let text = fs::read_to_string(&file).unwrap();
                for above in &layers[..level] {
                    // Imports of several modules are grouped: `use crate::{ above::Thing, … }`.
                    let used = text.contains(&format!("crate::{above}")) || text.contains(&format!("\n    {above}::"));
                    assert!(!used, "{} uses `{above}`, which is above `{layer}`", file.display());
                }
            }
        }
    }
}
