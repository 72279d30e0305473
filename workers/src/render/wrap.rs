//! Text that arrives in pieces, wrapped into lines.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Collects pieces of text and returns complete lines.
#[derive(Debug, Default)]
pub struct LineBuffer {
    /// Longer lines are broken, between words where there are any; without a width only line feeds break.
    width: Option<usize>,
    pending: String,
}

impl LineBuffer {
    pub fn new(width: Option<usize>) -> Self {
        Self { width: width.map(|width| width.max(1)), pending: String::new() }
    }

    /// Adds a piece; returns the lines it completed.
    pub fn push(&mut self, piece: &str) -> Vec<String> {
        self.pending.push_str(piece);
        let mut lines = Vec::new();
        while let Some((line, rest)) = self.pending.split_once('\n') {
            let (line, rest) = (line.to_owned(), rest.to_owned());
            lines.extend(broken(line, self.width));
            self.pending = rest;
        }
        let mut last = broken(std::mem::take(&mut self.pending), self.width);
        self.pending = last.pop().unwrap_or_default();
        lines.extend(last);
        lines
    }

    /// The unfinished line.
    pub fn pending(&self) -> &str {
        &self.pending
    }

    /// Ends the text: the unfinished line, unless it is empty.
    pub fn finish(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.pending)).filter(|line| !line.is_empty())
    }
}

fn broken(mut line: String, width: Option<usize>) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(width) = width.filter(|width| line.width() > *width) {
        let end = end_of_fit(&line, width);
        let (at, skip) = match line[..end].rfind(' ') {
            _ if line[end..].starts_with(' ') => (end, 1),
            Some(space) if space > 0 => (space, 1),
            _ => (end, 0),
        };
        if at + skip >= line.len() {
            break;
        }
        lines.push(line[..at].to_owned());
        line = line[at + skip..].to_owned();
    }
    lines.push(line);
    lines
}

/// Where the part of the line that fits ends; at least one character fits.
fn end_of_fit(line: &str, width: usize) -> usize {
    let mut used = 0;
    for (at, c) in line.char_indices() {
        used += c.width().unwrap_or(0);
        if used > width && at > 0 {
            return at;
        }
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(width: Option<usize>, pieces: &[&str]) -> (Vec<String>, Option<String>) {
        let mut buffer = LineBuffer::new(width);
        let lines = pieces.iter().flat_map(|piece| buffer.push(piece)).collect();
        (lines, buffer.finish())
    }

    #[test]
    fn pieces_become_lines() {
        assert_eq!(
            lines(None, &["a b", " c\nd", "\n\n", "e"]),
            (vec!["a b c".into(), "d".into(), String::new()], Some("e".into()))
        );
        assert_eq!(lines(None, &["a\n"]), (vec!["a".into()], None));
    }

    #[test]
    fn long_lines_break_between_words() {
        assert_eq!(lines(Some(7), &["one two ", "three"]), (vec!["one two".into()], Some("three".into())));
        assert_eq!(lines(Some(6), &["one two\nx"]), (vec!["one".into(), "two".into()], Some("x".into())));
    }

    #[test]
    fn a_word_that_does_not_fit_is_broken() {
        assert_eq!(lines(Some(3), &["abcdefgh"]), (vec!["abc".into(), "def".into()], Some("gh".into())));
        assert_eq!(lines(Some(1), &["日本"]), (vec!["日".into()], Some("本".into())));
        assert_eq!(lines(Some(4), &["日本語"]), (vec!["日本".into()], Some("語".into())));
    }
}
