//! A typed filter and its SQL. Values are bound as parameters.

use std::collections::BTreeSet;

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

/// A condition that an index can use.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::visibility) enum Condition {
    Column {
        column: &'static str,
        operator: &'static str,
        value: types::Value,
    },
    /// The attribute has this value, or a list with it, ignoring ASCII case.
    Attribute {
        name: String,
        value: types::Value,
    },
}

impl Filter {
    /// The conditions that are fulfilled wherever this filter holds.
    pub(super) fn conditions(&self, found: &mut Vec<Condition>) {
        match self {
            Self::And(filters) => filters.iter().for_each(|filter| filter.conditions(found)),
            Self::Test(place, test) => {
                for (operator, value) in test.comparisons() {
                    match place {
                        Place::Attribute(name) if operator == "=" => {
                            found.push(Condition::Attribute { name: name.clone(), value: value.clone().into() });
                        }
                        Place::Attribute(_) => {}
                        Place::Column(_) => found.extend(place.column().map(|column| Condition::Column {
                            column,
                            operator,
                            value: value.clone().into(),
                        })),
                    }
                }
            }
            Self::Contains { name, negated: false, values } => {
                if let [value] = &values[..] {
                    found.push(Condition::Attribute { name: name.clone(), value: value.clone().into() });
                }
            }
            Self::Not(_) | Self::Or(_) | Self::Contains { .. } | Self::Mentions { .. } => {}
        }
    }

    pub(super) fn columns(&self, found: &mut BTreeSet<&'static str>) {
        match self {
            Self::Not(filter) => filter.columns(found),
            Self::And(filters) | Self::Or(filters) => filters.iter().for_each(|filter| filter.columns(found)),
            Self::Test(place, _) => {
                found.insert(place.column().unwrap_or("attributes"));
            }
            Self::Contains { .. } | Self::Mentions { .. } => {
                found.insert("attributes");
            }
        }
    }

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
    /// The comparisons that the test implies.
    fn comparisons(&self) -> Vec<(&'static str, &Value)> {
        match self {
            Self::Compare { operator, value } => vec![(operator, value)],
            Self::In { negated: false, values } if values.len() == 1 => vec![("=", &values[0])],
            Self::Between { negated: false, from, to } => vec![(">=", from), ("<=", to)],
            Self::In { .. } | Self::Between { .. } | Self::StartsWith { .. } | Self::Null { .. } => Vec::new(),
        }
    }

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
            // A run id is also in the table of runs, which a list may be read by.
            Self::Column("run_id") => sql.push_str("engine_visibility.run_id"),
            Self::Column("workflow_id") => sql.push_str("engine_visibility.workflow_id"),
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
