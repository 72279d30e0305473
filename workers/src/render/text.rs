//! Untrusted text, made safe for a terminal.

use std::fmt::Display;

/// Replaces control characters other than line feeds and tabs, and marks that change the text direction.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if obeyed(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn obeyed(c: char) -> bool {
    let turns_text = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns_text || (c.is_control() && c != '\n' && c != '\t')
}

/// Cleaned, on one line, at most `max` characters.
pub fn one_line(text: &str, max: usize) -> String {
    cut(&clean(text).split_whitespace().collect::<Vec<_>>().join(" "), max)
}

/// Compact JSON, at most `max` characters.
pub fn json_line(value: &impl Display, max: usize) -> String {
    cut(&clean(&value.to_string()), max)
}

fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    text.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_terminal_is_not_steered_by_a_model() {
        assert_eq!(clean("a\u{1b}[2Jb\rc\u{9b}d\n\te"), "a�[2Jb�c�d\n\te");
        assert_eq!(clean("pay \u{202e}001\u{202c} now"), "pay �001� now");
        assert_eq!(json_line(&json!({"a": "\u{1b}\u{9b}"}), 80), "{\"a\":\"\\u001b�\"}");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(one_line(" two\n  lines ", 20), "two lines");
        assert_eq!(one_line("äöüß", 3), "äö…");
        assert_eq!(json_line(&json!([1, 2, 3]), 5), "[1,2…");
    }
}
