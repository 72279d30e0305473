//! A typed filter and its SQL. Values are bound as parameters.

use rusqlite::types;

use super::value::Value;
use crate::visibility::attributes::Place;

/// A row with damaged attributes counts as one without. Otherwise SQLite would fail the whole list.
const ATTRIBUTES: &str = "IIF(json_valid(attributes), attributes, '{}')";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Filter {
    Not(Box<Filter>),
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Test(Place, Test),
    /// The keyword list of this name contains one of the values, ignoring ASCII case. A run without the list does not
    /// match.
    Contains {
        name: String,
        negated: bool,
        values: Vec<Value>,
    },
    /// The text of this name contains one of the phrases, which have the form of `index::words`. A run without the text
    /// does not match.
    Mentions {
        name: String,
        negated: bool,
        phrases: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Test {
    Compare {
        operator: &'static str,
        value: Value,
    },
    In {
        negated: bool,
        values: Vec<Value>,
    },
    Between {
        negated: bool,
        from: Value,
        to: Value,
    },
    /// Ignores ASCII case, as SQLite's `LIKE` does on the real server.
    StartsWith {
        negated: bool,
        prefix: String,
    },
    Null {
        negated: bool,
    },
}

impl Filter {
    pub(super) fn write(&self, sql: &mut String, values: &mut Vec<types::Value>) {
        match self {
            Self::Not(filter) => {
                sql.push_str("NOT (");
                filter.write(sql, values);
                sql.push(')');
            }
            Self::And(filters) => join(filters, " AND ", sql, values),
            Self::Or(filters) => join(filters, " OR ", sql, values),
            Self::Test(place, test) => test.write(place, sql, values),
            Self::Contains { name, negated, values: items } => {
                // A stored value that is not a list, from before a change of the attribute's type, has no items.
                *sql += &format!(
                    "{} EXISTS (SELECT 1 FROM json_each({ATTRIBUTES}) AS held, \
                     json_each(IIF(held.type = 'array', held.value, '[]')) AS item \
                     WHERE held.key = ? AND item.value COLLATE NOCASE IN ({}))",
                    not(*negated),
                    placeholders(items.len())
                );
                values.push(types::Value::Text(name.clone()));
                values.extend(items.iter().cloned().map(Into::into));
            }
            Self::Mentions { name, negated, phrases } => {
                *sql += &format!(
                    "{} EXISTS (SELECT 1 FROM json_each({ATTRIBUTES}) AS held, json_each(?) AS phrase \
                     WHERE held.key = ? AND instr(held.value, phrase.value) > 0)",
                    not(*negated)
                );
                values.push(types::Value::Text(serde_json::json!(phrases).to_string()));
                values.push(types::Value::Text(name.clone()));
            }
        }
    }
}

/// Joins in halves, because SQLite counts the length of a chain as depth and limits it.
fn join(filters: &[Filter], operator: &str, sql: &mut String, values: &mut Vec<types::Value>) {
    match filters {
        [] => sql.push_str("TRUE"),
        [filter] => filter.write(sql, values),
        _ => {
            let (left, right) = filters.split_at(filters.len() / 2);
            sql.push('(');
            join(left, operator, sql, values);
            sql.push_str(operator);
            join(right, operator, sql, values);
            sql.push(')');
        }
    }
}

impl Test {
    fn write(&self, place: &Place, sql: &mut String, values: &mut Vec<types::Value>) {
        match self {
            Self::Compare { operator, value } => {
                place.write(sql, values);
                *sql += &format!(" {operator} ?");
                values.push(value.clone().into());
            }
            Self::In { negated, values: items } => {
                place.write(sql, values);
                *sql += &format!("{} IN ({})", not(*negated), placeholders(items.len()));
                values.extend(items.iter().cloned().map(Into::into));
            }
            Self::Between { negated, from, to } => {
                place.write(sql, values);
                *sql += &format!("{} BETWEEN ? AND ?", not(*negated));
                values.extend([from.clone().into(), to.clone().into()]);
            }
            Self::StartsWith { negated, prefix } => {
                sql.push_str("substr(");
                place.write(sql, values);
                *sql += &format!(", 1, ?) COLLATE NOCASE {} ?", if *negated { "!=" } else { "=" });
                values.push(types::Value::Integer(prefix.chars().count() as i64));
                values.push(types::Value::Text(prefix.clone()));
            }
            Self::Null { negated } => {
                place.write(sql, values);
                *sql += &format!(" IS{} NULL", not(*negated));
            }
        }
    }
}

impl Place {
    fn write(&self, sql: &mut String, values: &mut Vec<types::Value>) {
        match self {
            Self::Column(expression) => sql.push_str(expression),
            Self::Attribute(name) => {
                *sql += &format!("(SELECT value FROM json_each({ATTRIBUTES}) WHERE key = ?)");
                values.push(types::Value::Text(name.clone()));
            }
        }
    }
}

fn not(negated: bool) -> &'static str {
    if negated { " NOT" } else { "" }
}

fn placeholders(count: usize) -> String {
    vec!["?"; count].join(", ")
}
