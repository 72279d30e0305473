//! Colours. They carry no information that is not in the text.

use std::env;

/// Whether and how text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    colours: bool,
}

impl Paint {
    pub const PLAIN: Self = Self { colours: false };

    /// For a stream: colours only on a terminal that can show them, and only if NO_COLOR is not set.
    pub fn for_stream(is_terminal: bool) -> Self {
        let objected = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { colours: is_terminal && !objected && !dumb }
    }

    pub fn colours(self) -> bool {
        self.colours
    }

    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    pub fn attention(self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_as_it_is() {
        assert_eq!(Paint::PLAIN.bad("no"), "no");
        assert_eq!(Paint { colours: true }.bad("no"), "\u{1b}[31mno\u{1b}[0m");
    }

    #[test]
    fn a_pipe_gets_no_colours() {
        assert_eq!(Paint::for_stream(false), Paint::PLAIN);
    }
}
