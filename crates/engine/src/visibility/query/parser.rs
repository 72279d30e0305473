//! Parses tokens into a statement. Positions in errors count from the start of the SQL statement that the real server
//! builds from a query, as its clients expect.

use super::{
    lexer::{Kind, Lexer, Token},
    refuse,
    syntax::{Expression, Is, Statement},
};
use crate::ServiceError;

/// What the real server puts before a query, and before one that starts with a condition.
const STATEMENT: &str = "select * from table1 ";
const CONDITION: &str = "where ";

/// The maximum depth of parentheses. The real server's limit is 200; the parser is recursive, and the stacks of this
/// process are smaller.
const DEEPEST: usize = 50;

const COMPARISONS: [&str; 8] = ["=", "<", ">", "<=", ">=", "!=", "<>", "<=>"];
const ARITHMETIC: [&str; 10] = ["|", "&", "<<", ">>", "+", "-", "*", "/", "%", "^"];

type Parsed<T = Expression> = Result<T, ServiceError>;

pub(super) fn parse(query: &str) -> Parsed<Statement> {
    let query = query.trim();
    let starts_with = |clause: &str| query.get(..clause.len()).is_some_and(|start| start.eq_ignore_ascii_case(clause));
    let conditional = !(query.is_empty() || starts_with("order by") || starts_with("group by"));
    let offset = STATEMENT.len() + if conditional { CONDITION.len() } else { 0 };
    let mut lexer = Lexer::new(query);
    let token = lexer.next();
    Parser { query, lexer, token, offset, depth: 0 }.statement(conditional)
}

struct Parser<'a> {
    query: &'a str,
    lexer: Lexer<'a>,
    token: Token,
    offset: usize,
    depth: usize,
}

impl Parser<'_> {
    fn statement(mut self, conditional: bool) -> Parsed<Statement> {
        let filter = if conditional { Some(self.expression()?) } else { None };
        let group_by = if self.eat_clause("group")? { self.list(Self::expression)? } else { Vec::new() };
        let order_by = if self.eat_clause("order")? { self.list(Self::ordering)? } else { Vec::new() };
        let limited = self.eat("limit");
        if limited {
            self.list(Self::expression)?;
        }
        self.eat(";");
        match self.token.kind {
            Kind::End => Ok(Statement { filter, group_by, order_by, limited }),
            _ => Err(self.unexpected()),
        }
    }

    fn ordering(&mut self) -> Parsed {
        let expression = self.expression()?;
        let _ = self.eat("asc") || self.eat("desc");
        Ok(expression)
    }

    fn expression(&mut self) -> Parsed {
        self.chain(&["or", "||"], Self::conjunction, Expression::Or)
    }

    fn conjunction(&mut self) -> Parsed {
        self.chain(&["and", "&&"], Self::negation, Expression::And)
    }

    fn chain(
        &mut self,
        words: &[&str],
        part: fn(&mut Self) -> Parsed,
        join: fn(Vec<Expression>) -> Expression,
    ) -> Parsed {
        let first = part(self)?;
        let mut parts = vec![first];
        while words.iter().any(|word| self.eat(word)) {
            parts.push(part(self)?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => join(parts),
        })
    }

    /// Pairs of `NOT` cancel out, also for unknown results.
    fn negation(&mut self) -> Parsed {
        let mut negated = false;
        while self.eat("not") {
            negated = !negated;
        }
        let condition = self.condition()?;
        Ok(if negated { Expression::Not(Box::new(condition)) } else { condition })
    }

    fn condition(&mut self) -> Parsed {
        let left = self.operand()?;
        let mut condition = self.comparison(left)?;
        while self.eat("is") {
            let negated = self.eat("not");
            let test = match (self.eat("null"), negated) {
                (true, false) => Is::Null,
                (true, true) => Is::NotNull,
                _ if self.eat("true") || self.eat("false") => Is::Truth,
                _ => return Err(self.unexpected()),
            };
            condition = Expression::Is { test, operand: Box::new(condition) };
        }
        Ok(condition)
    }

    fn comparison(&mut self, left: Expression) -> Parsed {
        let left = Box::new(left);
        for operator in COMPARISONS {
            if self.eat(operator) {
                let operator = if operator == "<>" { "!=" } else { operator };
                return Ok(Expression::Comparison { operator, left, right: Box::new(self.operand()?) });
            }
        }
        let negated = self.eat("not");
        let pick = |plain, negative| if negated { negative } else { plain };
        if self.eat("between") {
            let from = Box::new(self.operand()?);
            self.expect("and")?;
            let to = Box::new(self.operand()?);
            return Ok(Expression::Range { negated, left, from, to });
        }
        let (operator, right) = if self.eat("in") {
            self.open()?;
            let values = self.list(Self::expression)?;
            self.close()?;
            (pick("in", "not in"), Expression::Tuple(values))
        } else if self.eat("like") {
            let pattern = self.operand()?;
            if self.eat("escape") {
                self.operand()?;
            }
            (pick("like", "not like"), pattern)
        } else if self.eat("regexp") || self.eat("rlike") {
            (pick("regexp", "not regexp"), self.operand()?)
        } else if self.eat("starts_with") {
            (pick("starts_with", "not starts_with"), self.operand()?)
        } else if negated {
            return Err(self.unexpected());
        } else {
            return Ok(*left);
        };
        Ok(Expression::Comparison { operator, left, right: Box::new(right) })
    }

    fn operand(&mut self) -> Parsed {
        let mut operand = self.signed()?;
        while ARITHMETIC.iter().chain(&["div", "mod"]).any(|operator| self.eat(operator)) {
            self.signed()?;
            operand = Expression::Arithmetic;
        }
        Ok(operand)
    }

    fn signed(&mut self) -> Parsed {
        let mut signs = Vec::new();
        while let Some(sign) = ["-", "+", "~", "!"].into_iter().find(|sign| self.is(sign)) {
            signs.push((sign, self.token.start));
            self.advance();
        }
        let mut operand = self.primary()?;
        // The operand's text ends before the next token, without the blanks between.
        let end = self.token.start;
        for (operator, start) in signs.into_iter().rev() {
            operand = match (operator, operand) {
                ("-", Expression::Number(digits)) if is_integer(&digits) => {
                    Expression::Number(match digits.strip_prefix('-') {
                        Some(positive) => positive.to_owned(),
                        None => format!("-{digits}"),
                    })
                }
                ("+", Expression::Number(digits)) if is_integer(&digits) => Expression::Number(digits),
                (_, operand) => {
                    let text = self.query[start..end].trim_end().to_owned();
                    Expression::Unary { operator, operand: Box::new(operand), text }
                }
            };
        }
        Ok(operand)
    }

    fn primary(&mut self) -> Parsed {
        if self.is("(") {
            self.open()?;
            let mut values = self.list(Self::expression)?;
            self.close()?;
            return Ok(match values.len() {
                1 => Expression::Parenthesised(Box::new(values.remove(0))),
                _ => Expression::Tuple(values),
            });
        }
        let expression = match &self.token.kind {
            Kind::Text(text) => Expression::Text(text.clone()),
            Kind::Number(digits) => Expression::Number(digits.clone()),
            Kind::Reserved("true") => Expression::Bool(true),
            Kind::Reserved("false") => Expression::Bool(false),
            Kind::Reserved("null") => Expression::Null,
            Kind::Name(name) if !name.is_empty() => {
                let name = name.clone();
                self.advance();
                return self.named(name);
            }
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(expression)
    }

    /// A field name, which may contain dots, or a function.
    fn named(&mut self, mut name: String) -> Parsed {
        while self.eat(".") {
            let Kind::Name(part) = &self.token.kind else { return Err(self.unexpected()) };
            name = format!("{name}.{part}");
            self.advance();
        }
        if !self.is("(") {
            return Ok(Expression::Name(name));
        }
        self.open()?;
        if !self.eat("*") && !self.is(")") {
            self.list(Self::expression)?;
        }
        self.close()?;
        Ok(Expression::Function)
    }

    fn list(&mut self, item: fn(&mut Self) -> Parsed) -> Parsed<Vec<Expression>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn open(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth == DEEPEST {
            return Err(self.error("max nesting level reached"));
        }
        self.expect("(")
    }

    fn close(&mut self) -> Parsed<()> {
        self.depth -= 1;
        self.expect(")")
    }

    fn eat_clause(&mut self, word: &str) -> Parsed<bool> {
        if !self.eat(word) {
            return Ok(false);
        }
        self.expect("by").map(|()| true)
    }

    fn is(&self, wanted: &str) -> bool {
        matches!(self.token.kind, Kind::Reserved(token) | Kind::Symbol(token) if token == wanted)
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let found = self.is(wanted);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, wanted: &str) -> Parsed<()> {
        if self.eat(wanted) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn advance(&mut self) {
        self.token = self.lexer.next();
    }

    fn unexpected(&self) -> ServiceError {
        self.error("syntax error")
    }

    fn error(&self, what: &str) -> ServiceError {
        // The real server's lexer has already read the character after the token.
        let position = self.offset + self.token.end + 1;
        match self.token.near() {
            Some(near) if !near.is_empty() => {
                refuse(format_args!("malformed SQL query: {what} at position {position} near '{near}'"))
            }
            _ => refuse(format_args!("malformed SQL query: {what} at position {position}")),
        }
    }
}

fn is_integer(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}
