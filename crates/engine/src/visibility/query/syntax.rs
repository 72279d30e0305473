//! The syntax tree of a query, before its checks.

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Statement {
    pub(super) filter: Option<Expression>,
    pub(super) group_by: Vec<Expression>,
    pub(super) order_by: Vec<Expression>,
    pub(super) limited: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Parenthesised(Box<Expression>),
    Not(Box<Expression>),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Comparison {
        operator: &'static str,
        left: Box<Expression>,
        right: Box<Expression>,
    },
    Range {
        negated: bool,
        left: Box<Expression>,
        from: Box<Expression>,
        to: Box<Expression>,
    },
    Is {
        test: Is,
        operand: Box<Expression>,
    },
    Name(String),
    Text(String),
    Number(String),
    Bool(bool),
    Null,
    Tuple(Vec<Expression>),
    Function,
    Arithmetic,
    /// A sign that is not part of an integer; `text` is the whole expression as written.
    Unary {
        operator: &'static str,
        operand: Box<Expression>,
        text: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Is {
    Null,
    NotNull,
    /// `IS [NOT] TRUE` or `FALSE`.
    Truth,
}

impl Expression {
    /// The names that the expression has.
    pub(super) fn names(&self, names: &mut Vec<String>) {
        match self {
            Self::Name(name) => names.push(name.clone()),
            Self::Parenthesised(inner) | Self::Not(inner) | Self::Is { operand: inner, .. } => inner.names(names),
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.names(names)),
            // Values are on the right.
            Self::Comparison { left, .. } | Self::Range { left, .. } => left.names(names),
            _ => {}
        }
    }

    /// The name of this kind of expression in error texts.
    pub(super) fn sort(&self) -> &'static str {
        match self {
            Self::Parenthesised(_) => "*sqlparser.ParenExpr",
            Self::Not(_) => "*sqlparser.NotExpr",
            Self::And(_) => "*sqlparser.AndExpr",
            Self::Or(_) => "*sqlparser.OrExpr",
            Self::Comparison { .. } => "*sqlparser.ComparisonExpr",
            Self::Range { .. } => "*sqlparser.RangeCond",
            Self::Is { .. } => "*sqlparser.IsExpr",
            Self::Name(_) => "*sqlparser.ColName",
            Self::Text(_) | Self::Number(_) => "*sqlparser.SQLVal",
            Self::Bool(_) => "sqlparser.BoolVal",
            Self::Null => "*sqlparser.NullVal",
            Self::Tuple(_) => "sqlparser.ValTuple",
            Self::Function => "*sqlparser.FuncExpr",
            Self::Arithmetic => "*sqlparser.BinaryExpr",
            Self::Unary { .. } => "*sqlparser.UnaryExpr",
        }
    }
}
