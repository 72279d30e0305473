//! Splits a query into tokens, with MySQL's syntax.

/// Words that cannot be field names unless they are quoted.
const RESERVED: &str = "
    add all alter analyze and as asc auto_increment between binary by case collate column constraint convert
    create cross database databases default delete desc describe distinct div drop else end escape exists
    explain false for force from full group group_concat having if ignore in index inner insert interval into is
    join key left like limit lock match maxvalue mod natural next not null on or order outer processlist regexp
    rename replace right rlike schema select separator set show starts_with straight_join substr substring table
    tables then to true union unique update use using values when where";

/// Longest first, so that no symbol is taken for the prefix of another.
const SYMBOLS: &str = "<=> <= >= <> != << >> && || = < > ( ) , ; + - * / % & | ^ ~ ! .";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Name(String),
    Reserved(&'static str),
    Text(String),
    Number(String),
    Symbol(&'static str),
    /// An invalid token: a stray character or an unterminated quote.
    Unreadable(String),
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// Start and end in the text, in bytes.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Token {
    /// The token as syntax errors quote it.
    pub(super) fn near(&self) -> Option<&str> {
        match &self.kind {
            Kind::Name(text) | Kind::Text(text) | Kind::Number(text) | Kind::Unreadable(text) => Some(text),
            Kind::Reserved(word) => Some(word),
            Kind::Symbol(_) | Kind::End => None,
        }
    }
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn next(&mut self) -> Token {
        let kind = match self.skip_blanks() {
            Ok(()) => None,
            Err(comment) => Some(Kind::Unreadable(comment)),
        };
        let start = self.at;
        let kind = kind.unwrap_or_else(|| self.kind());
        Token { kind, start, end: self.at }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, length: usize) -> &'a str {
        let taken = &self.rest()[..length];
        self.at += length;
        taken
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        self.take(rest.find(|char| !wanted(char)).unwrap_or(rest.len()))
    }

    /// Comments count as blanks. An unterminated one is returned.
    fn skip_blanks(&mut self) -> Result<(), String> {
        loop {
            self.take_while(|char| char.is_ascii_whitespace());
            let rest = self.rest();
            if ["--", "//", "#"].iter().any(|mark| rest.starts_with(mark)) {
                self.take_while(|char| char != '\n');
            } else if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(end) => self.take(end + 2),
                    None => return Err(self.take(rest.len()).to_owned()),
                };
            } else {
                return Ok(());
            }
        }
    }

    fn kind(&mut self) -> Kind {
        let Some(first) = self.peek() else { return Kind::End };
        match first {
            quote @ ('\'' | '"') => self.quoted(quote),
            '`' => self.quoted_name(),
            char if is_name(char) => self.word(),
            '0'..='9' => self.number(),
            '.' if self.rest()[1..].starts_with(|char: char| char.is_ascii_digit()) => self.number(),
            _ => match SYMBOLS.split(' ').find(|symbol| self.rest().starts_with(symbol)) {
                Some(symbol) => {
                    self.take(symbol.len());
                    Kind::Symbol(symbol)
                }
                None => Kind::Unreadable(self.take(first.len_utf8()).to_owned()),
            },
        }
    }

    fn word(&mut self) -> Kind {
        let word = self.take_while(|char| is_name(char) || char.is_ascii_digit());
        match RESERVED.split_whitespace().find(|reserved| reserved.eq_ignore_ascii_case(word)) {
            Some(reserved) => Kind::Reserved(reserved),
            None => Kind::Name(word.to_owned()),
        }
    }

    fn number(&mut self) -> Kind {
        let start = self.at;
        if self.rest().starts_with("0x") {
            self.take(2);
            self.take_while(|char| char.is_ascii_hexdigit());
        } else {
            self.take_while(|char| char.is_ascii_digit());
            if self.peek() == Some('.') {
                self.take(1);
                self.take_while(|char| char.is_ascii_digit());
            }
            self.exponent();
        }
        let number = self.text[start..self.at].to_owned();
        if self.peek().is_some_and(is_name) { Kind::Unreadable(number) } else { Kind::Number(number) }
    }

    fn exponent(&mut self) {
        let rest = self.rest();
        let Some(power) = rest.strip_prefix(['e', 'E']) else { return };
        let unsigned = power.strip_prefix(['+', '-']).unwrap_or(power);
        if unsigned.starts_with(|char: char| char.is_ascii_digit()) {
            self.take(rest.len() - unsigned.len());
            self.take_while(|char| char.is_ascii_digit());
        }
    }

    /// A quoted text. The quote is doubled or escaped by a backslash inside.
    fn quoted(&mut self, quote: char) -> Kind {
        let mut text = String::new();
        self.take(1);
        while let Some(char) = self.peek() {
            self.take(char.len_utf8());
            match char {
                '\\' => match self.peek() {
                    Some(escaped) => {
                        self.take(escaped.len_utf8());
                        text.push(unescape(escaped));
                    }
                    None => break,
                },
                _ if char == quote && self.peek() == Some(quote) => {
                    self.take(1);
                    text.push(quote);
                }
                _ if char == quote => return Kind::Text(text),
                _ => text.push(char),
            }
        }
        Kind::Unreadable(text)
    }

    fn quoted_name(&mut self) -> Kind {
        let mut name = String::new();
        self.take(1);
        while let Some(char) = self.peek() {
            self.take(char.len_utf8());
            match char {
                // Backticks are not part of a name, not even doubled ones.
                '`' if self.peek() == Some('`') => {
                    self.take(1);
                }
                '`' => return Kind::Name(name),
                _ => name.push(char),
            }
        }
        Kind::Unreadable(name)
    }
}

fn is_name(char: char) -> bool {
    char.is_ascii_alphabetic() || char == '_' || char == '@'
}

fn unescape(char: char) -> char {
    match char {
        '0' => '\0',
        'b' => '\u{8}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'Z' => '\u{1a}',
        other => other,
    }
}
