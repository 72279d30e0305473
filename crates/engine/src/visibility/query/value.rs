//! Converts the right side of a comparison into a value of the field's type.

use std::fmt;

use rusqlite::types;
use temporalio_protos::temporal::api::enums::v1::{IndexedValueType, WorkflowExecutionStatus};

use super::{invalid, syntax::Expression, unsupported};
use crate::{
    ServiceError,
    visibility::{
        attributes::{Field, kind_name},
        time,
    },
};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Integer(i64),
    Real(f64),
    Text(String),
    Bool(bool),
    Status(WorkflowExecutionStatus),
}

/// One value, or a list of them in parentheses.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    One(Value),
    Many(Vec<Value>),
}

pub(super) fn values(expression: &Expression, field: &Field) -> Result<Values, ServiceError> {
    match expression {
        Expression::Tuple(items) => {
            Ok(Values::Many(items.iter().map(|item| value(item, field)).collect::<Result<_, _>>()?))
        }
        _ => Ok(Values::One(value(expression, field)?)),
    }
}

pub(super) fn value(expression: &Expression, field: &Field) -> Result<Value, ServiceError> {
    let written = match expression {
        Expression::Text(text) => Value::Text(text.clone()),
        Expression::Number(digits) => number(digits)?,
        // Booleans are never converted to a status or a duration.
        Expression::Bool(value) => return typed(Value::Bool(*value), field),
        Expression::Unary { operator: operator @ ("-" | "+"), operand, text } => match &**operand {
            Expression::Number(digits) => number(&format!("{}{digits}", if *operator == "-" { "-" } else { "" }))?,
            _ => return Err(invalid(format_args!("unary operator not supported in {text:?}"))),
        },
        Expression::Unary { operator, .. } => return Err(unsupported(format_args!("unary operator {operator:?}"))),
        Expression::Function => return Err(unsupported("nested func")),
        Expression::Name(name) => {
            return Err(unsupported(format_args!(
                "column name on the right side of comparison expression (did you forget to quote {name:?}?)"
            )));
        }
        other => return Err(invalid(format_args!("unexpected value type {}", other.sort()))),
    };
    match field.name.as_str() {
        "ExecutionStatus" => status(written),
        "ExecutionDuration" => duration(written),
        _ => typed(written, field),
    }
}

fn number(digits: &str) -> Result<Value, ServiceError> {
    if let Ok(integer) = digits.parse() {
        return Ok(Value::Integer(integer));
    }
    match digits.parse::<f64>() {
        Ok(real) if real.is_finite() => Ok(Value::Real(real)),
        _ => Err(invalid(format_args!("unable to parse value {digits:?}"))),
    }
}

fn status(written: Value) -> Result<Value, ServiceError> {
    let found = match &written {
        Value::Integer(number) => i32::try_from(*number).ok().and_then(|n| WorkflowExecutionStatus::try_from(n).ok()),
        Value::Text(name) => (0..)
            .map_while(|number| WorkflowExecutionStatus::try_from(number).ok())
            .find(|status| status.as_str_name() == name || status_name(*status) == *name),
        other => {
            let kind = other.go_type();
            return Err(invalid(format_args!("unexpected value type {kind} for search attribute ExecutionStatus")));
        }
    };
    found.map(Value::Status).ok_or_else(|| match &written {
        Value::Text(name) => invalid(format_args!("invalid ExecutionStatus value '{name}'")),
        other => invalid(format_args!("invalid ExecutionStatus value {other}")),
    })
}

/// The short name of a status: `TimedOut` for `WORKFLOW_EXECUTION_STATUS_TIMED_OUT`.
pub(in crate::visibility) fn status_name(status: WorkflowExecutionStatus) -> String {
    let words = status.as_str_name().trim_start_matches("WORKFLOW_EXECUTION_STATUS_").split('_');
    words.map(|word| format!("{}{}", &word[..1], word[1..].to_lowercase())).collect()
}

fn duration(written: Value) -> Result<Value, ServiceError> {
    match written {
        Value::Integer(_) => Ok(written),
        Value::Text(text) => time::duration(&text).map(Value::Integer).ok_or_else(|| {
            invalid(format_args!("invalid duration value for search attribute ExecutionDuration: {text}"))
        }),
        other => {
            let kind = other.go_type();
            Err(invalid(format_args!("unexpected value type {kind} for search attribute ExecutionDuration")))
        }
    }
}

fn typed(written: Value, field: &Field) -> Result<Value, ServiceError> {
    use IndexedValueType::{Bool, Datetime, Double, Int, Keyword, KeywordList, Text};
    match (field.kind, written) {
        (Int | Double, value @ (Value::Integer(_) | Value::Real(_)))
        | (Bool, value @ Value::Bool(_))
        | (Keyword | KeywordList | Text, value @ Value::Text(_))
        | (Datetime, value @ Value::Integer(_)) => Ok(value),
        (Datetime, Value::Text(text)) => time::rfc3339(&text)
            .map(Value::Integer)
            .ok_or_else(|| invalid(format_args!("unable to parse datetime '{text}'"))),
        (kind, value) => Err(invalid(format_args!(
            "invalid value type for search attribute {} of type {}: {} (type: {})",
            field.alias,
            kind_name(kind),
            value.go_syntax(),
            value.go_type(),
        ))),
    }
}

impl Value {
    fn go_type(&self) -> &'static str {
        match self {
            Self::Integer(_) => "int64",
            Self::Real(_) => "float64",
            Self::Text(_) | Self::Status(_) => "string",
            Self::Bool(_) => "bool",
        }
    }

    fn go_syntax(&self) -> String {
        match self {
            Self::Text(text) => format!("{text:?}"),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => integer.fmt(f),
            Self::Real(real) => f.write_str(&go_float(*real)),
            Self::Text(text) => f.write_str(text),
            Self::Bool(value) => value.fmt(f),
            Self::Status(status) => f.write_str(&status_name(*status)),
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(value) => value.fmt(f),
            Self::Many(values) => {
                let values: Vec<_> = values.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", values.join(" "))
            }
        }
    }
}

/// A number as the real server prints it: with an exponent from a million on, and below a ten-thousandth.
pub(in crate::visibility) fn go_float(real: f64) -> String {
    let scientific = format!("{real:e}");
    let Some((digits, power)) = scientific.split_once('e') else { return scientific };
    match power.parse::<i32>() {
        Ok(power) if power < -4 => format!("{digits}e-{:02}", -power),
        Ok(power) if power >= 6 => format!("{digits}e+{power:02}"),
        _ => format!("{real}"),
    }
}

impl From<Value> for types::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Integer(integer) => Self::Integer(integer),
            Value::Real(real) => Self::Real(real),
            Value::Text(text) => Self::Text(text),
            Value::Bool(value) => Self::Integer(value.into()),
            Value::Status(status) => Self::Integer((status as i32).into()),
        }
    }
}
