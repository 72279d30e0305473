mod checks;
mod fields;
mod syntax;
mod whole;

use super::parse;

/// Asserts the whole error of each file. A text that starts on a line of its own starts there in the file too.
fn assert_errors(file: &str, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let own_line = |text: &str| text.strip_prefix('\n').unwrap_or(text).to_owned();
        assert_eq!(parse(file, &own_line(text)).unwrap_err().to_string(), own_line(expected), "{text}");
    }
}
