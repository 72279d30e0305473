//! Checks a statement: fields must exist, values and operators must fit their types.

use std::cell::Cell;

use temporalio_protos::temporal::api::enums::v1::IndexedValueType;

use super::{
    GroupBy, Query,
    filter::{Filter, Test},
    invalid, refuse,
    syntax::{Expression, Is, Statement},
    unsupported,
    value::{Value, Values, value, values},
};
use crate::{
    ServiceError,
    visibility::{
        attributes::{Attributes, DIVISION, Field, kind_name},
        index,
    },
};

pub(super) fn query(statement: Statement, attributes: &Attributes) -> Result<Query, ServiceError> {
    if statement.limited {
        return Err(unsupported("'LIMIT' clause"));
    }
    let check = Check { attributes, names_division: Cell::new(false) };
    let filter = statement.filter.as_ref().map(|expression| check.filter(expression)).transpose()?;
    let group_by = check.group_by(&statement.group_by)?;
    check.order_by(&statement.order_by)?;
    Ok(Query { filter, group_by, names_division: check.names_division.get() })
}

struct Check<'a> {
    attributes: &'a Attributes,
    names_division: Cell<bool>,
}

impl Check<'_> {
    fn group_by(&self, expressions: &[Expression]) -> Result<Option<GroupBy>, ServiceError> {
        let expression = match expressions {
            [] => return Ok(None),
            [expression] => expression,
            _ => return Err(unsupported("'GROUP BY' clause supports only a single field")),
        };
        let field = self.field(expression)?;
        match field.name.as_str() {
            "ExecutionStatus" => Ok(Some(GroupBy::ExecutionStatus)),
            "TemporalNamespaceDivision" => Ok(Some(GroupBy::NamespaceDivision)),
            _ => Err(unsupported(format_args!(
                "'GROUP BY' clause is not supported for search attribute {}",
                field.alias
            ))),
        }
    }

    /// Ordering is never accepted, but an unknown field is reported first.
    fn order_by(&self, expressions: &[Expression]) -> Result<(), ServiceError> {
        for expression in expressions {
            let kind = self.field(expression)?.kind;
            if kind == IndexedValueType::Text {
                let kind = kind_name(kind);
                return Err(unsupported(format_args!("unable to sort by search attribute type {kind}")));
            }
        }
        if expressions.is_empty() { Ok(()) } else { Err(unsupported("'ORDER BY' clause")) }
    }

    fn filter(&self, expression: &Expression) -> Result<Filter, ServiceError> {
        match expression {
            Expression::Parenthesised(inner) => self.filter(inner),
            Expression::Not(inner) => Ok(Filter::Not(Box::new(self.filter(inner)?))),
            Expression::And(parts) => Ok(Filter::And(self.filters(parts)?)),
            Expression::Or(parts) => Ok(Filter::Or(self.filters(parts)?)),
            Expression::Comparison { operator, left, right } => self.comparison(operator, left, right),
            Expression::Range { negated, left, from, to } => self.range(*negated, left, from, to),
            Expression::Is { test, operand } => {
                let place = self.field(operand)?.place;
                match test {
                    Is::Null => Ok(Filter::Test(place, Test::Null { negated: false })),
                    Is::NotNull => Ok(Filter::Test(place, Test::Null { negated: true })),
                    Is::Truth => Err(invalid("'IS' operator can only be used as 'IS NULL' or 'IS NOT NULL'")),
                }
            }
            Expression::Function => Err(unsupported("function expression")),
            Expression::Name(_) => Err(invalid("incomplete expression")),
            other => Err(unsupported(format_args!("expression of type {}", other.sort()))),
        }
    }

    fn filters(&self, parts: &[Expression]) -> Result<Vec<Filter>, ServiceError> {
        parts.iter().map(|part| self.filter(part)).collect()
    }

    fn field(&self, expression: &Expression) -> Result<Field, ServiceError> {
        let Expression::Name(name) = expression else {
            return Err(invalid(format_args!("must be a column name but was {}", expression.sort())));
        };
        let field = self.attributes.resolve(name);
        let field = field.ok_or_else(|| refuse(format_args!("invalid search attribute: {name}")))?;
        if field.name == DIVISION {
            self.names_division.set(true);
        }
        Ok(field)
    }

    fn comparison(
        &self,
        operator: &'static str,
        left: &Expression,
        right: &Expression,
    ) -> Result<Filter, ServiceError> {
        let field = self.field(left)?;
        let values = values(right, &field)?;
        let filter = match field.kind {
            IndexedValueType::KeywordList => keyword_list(operator, values, &field),
            IndexedValueType::Text => text(operator, values, &field),
            _ => scalar(operator, values, &field),
        };
        let unsuitable = || {
            unsupported(format_args!(
                "operator '{}' not supported for {} type search attribute '{}'",
                operator.to_uppercase(),
                kind_name(field.kind),
                field.alias
            ))
        };
        filter?.ok_or_else(unsuitable)
    }

    fn range(
        &self,
        negated: bool,
        left: &Expression,
        from: &Expression,
        to: &Expression,
    ) -> Result<Filter, ServiceError> {
        use IndexedValueType::{Datetime, Double, Int, Keyword};
        let field = self.field(left)?;
        if !matches!(field.kind, Datetime | Double | Int | Keyword) {
            return Err(invalid(format_args!(
                "cannot do range condition on search attribute '{}' of type {}",
                field.alias,
                kind_name(field.kind)
            )));
        }
        let test = Test::Between { negated, from: value(from, &field)?, to: value(to, &field)? };
        Ok(Filter::Test(field.place, test))
    }
}

/// A filter, or `None` if the operator does not fit the type.
type Suitable = Result<Option<Filter>, ServiceError>;

fn scalar(operator: &'static str, values: Values, field: &Field) -> Suitable {
    let test = match operator {
        "=" | "!=" | "<" | ">" | "<=" | ">=" => Test::Compare { operator, value: single(values)? },
        "in" => Test::In { negated: false, values: many(values) },
        "not in" => Test::In { negated: true, values: many(values) },
        "starts_with" | "not starts_with" if field.kind == IndexedValueType::Keyword => {
            let prefix = match values {
                Values::One(Value::Text(prefix)) => prefix,
                other => {
                    return Err(invalid(format_args!(
                        "right-hand side of {operator:?} operator must be a literal string (got: {other})"
                    )));
                }
            };
            Test::StartsWith { negated: operator == "not starts_with", prefix }
        }
        _ => return Ok(None),
    };
    Ok(Some(Filter::Test(field.place.clone(), test)))
}

fn keyword_list(operator: &str, values: Values, field: &Field) -> Suitable {
    let (negated, values) = match operator {
        "=" => (false, vec![single(values)?]),
        "!=" => (true, vec![single(values)?]),
        "in" => (false, many(values)),
        "not in" => (true, many(values)),
        _ => return Ok(None),
    };
    Ok(Some(Filter::Contains { name: field.name.clone(), negated, values }))
}

fn text(operator: &str, values: Values, field: &Field) -> Suitable {
    // Also for an operator that does not fit, as on the real server.
    if let Values::One(value) = &values
        && value.to_string().split(' ').all(str::is_empty)
    {
        let name = &field.alias;
        return Err(invalid(format_args!("no tokens found filtering on Text type search attribute {name}")));
    }
    let negated = match operator {
        "=" => false,
        "!=" => true,
        _ => return Ok(None),
    };
    let written = single(values)?.to_string();
    // A word without a letter or digit matches nothing.
    let words = written.split(' ').filter(|word| !word.is_empty());
    let phrases = words.map(index::words).filter(|phrase| !phrase.trim().is_empty()).collect();
    Ok(Some(Filter::Mentions { name: field.name.clone(), negated, phrases }))
}

fn single(values: Values) -> Result<Value, ServiceError> {
    match values {
        Values::One(value) => Ok(value),
        Values::Many(values) => {
            let written: Vec<_> = values.iter().map(|value| format!("'{value}'")).collect();
            let written = written.join(", ");
            Err(invalid(format_args!("unexpected value type (expected string, got ({written}))")))
        }
    }
}

fn many(values: Values) -> Vec<Value> {
    match values {
        Values::One(value) => vec![value],
        Values::Many(values) => values,
    }
}
