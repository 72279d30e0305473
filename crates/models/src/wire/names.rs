//! Names of tools on the wire. Providers allow letters, digits, `_` and `-` only, up to 64; ours may have dots and slashes.

use std::collections::HashMap;

use windlass_core::ids::ToolName;

/// The names of a request's tools in both directions. The same tools always get the same names.
#[derive(Debug, Clone, Default)]
pub struct ToolNames {
    to_wire: HashMap<ToolName, String>,
    from_wire: HashMap<String, ToolName>,
}

const LONGEST: usize = 64;

impl ToolNames {
    pub fn new<'a>(tools: impl IntoIterator<Item = &'a ToolName>) -> Self {
        let mut names = Self::default();
        for tool in tools {
            names.add(tool);
        }
        names
    }

    fn add(&mut self, tool: &ToolName) {
        if self.to_wire.contains_key(tool) {
            return;
        }
        let wire = self.unused(tool.as_str());
        self.to_wire.insert(tool.clone(), wire.clone());
        self.from_wire.insert(wire, tool.clone());
    }

    /// A name on the wire that none of the tools has.
    pub fn unused(&self, name: &str) -> String {
        let plain = allowed(name);
        let mut wire = plain.clone();
        let mut number = 2;
        while self.from_wire.contains_key(&wire) {
            let end = format!("_{number}");
            wire = format!("{}{end}", &plain[..plain.len().min(LONGEST - end.len())]);
            number += 1;
        }
        wire
    }

    /// The name for the provider. A tool that is not declared any more, in an old message, has its name made fit.
    pub fn wire(&self, tool: &ToolName) -> String {
        self.to_wire.get(tool).cloned().unwrap_or_else(|| allowed(tool.as_str()))
    }

    /// Our name. A name that the model made up stays as it is; the run refuses it.
    pub fn ours(&self, wire: &str) -> ToolName {
        self.from_wire.get(wire).cloned().unwrap_or_else(|| ToolName::new(wire))
    }
}

fn allowed(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = name.chars().map(fit).take(LONGEST).collect();
    // Some providers want a letter or `_` at the beginning.
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() || first == '_' => name,
        _ => format!("_{name}").chars().take(LONGEST).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_fit_and_found_again() {
        let tools: Vec<ToolName> =
            ["notes.add", "notes_add", "notes/add", "web-search", "7up", &"x".repeat(80)].map(ToolName::new).into();
        let names = ToolNames::new(&tools);
        let wire: Vec<String> = tools.iter().map(|tool| names.wire(tool)).collect();
        assert_eq!(wire, ["notes_add", "notes_add_2", "notes_add_3", "web-search", "_7up", &"x".repeat(64)]);
        for (tool, wire) in tools.iter().zip(&wire) {
            assert_eq!(names.ours(wire), *tool);
        }
        assert_eq!((names.unused("notes.add"), names.unused("new")), ("notes_add_4".into(), "new".into()));
        assert_eq!(names.ours("invented"), ToolName::new("invented"));
        assert_eq!(names.wire(&ToolName::new("gone.tool")), "gone_tool");
    }
}
