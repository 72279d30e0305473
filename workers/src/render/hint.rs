//! Suggested commands, with the options of the current command.

/// Builds commands from how this one was called: the same program, the same server, the same data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    prefix: String,
}

impl Hint {
    /// `options` are those that differ from the defaults, each with its value.
    pub fn new<'a>(program: &str, options: impl IntoIterator<Item = (&'static str, &'a str)>) -> Self {
        let mut prefix = quoted(program);
        for (option, value) in options {
            prefix = format!("{prefix} {option} {}", quoted(value));
        }
        Self { prefix }
    }

    pub fn command(&self, rest: &str) -> String {
        format!("{} {rest}", self.prefix)
    }
}

/// A word, quoted for a shell if necessary.
fn quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        assert_eq!(Hint::new("windlass", []).command("runs list"), "windlass runs list");
        let hint = Hint::new("target/debug/windlass", [("--temporal", "127.0.0.1:17233"), ("--data-dir", "it's mine")]);
        assert_eq!(
            hint.command("doctor"),
            r"target/debug/windlass --temporal 127.0.0.1:17233 --data-dir 'it'\''s mine' doctor"
        );
    }
}
