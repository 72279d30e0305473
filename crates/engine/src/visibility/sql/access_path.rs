//! Which index a query is read by, from the conditions that every run of its result fulfils.

use rusqlite::types::Value;

use super::{CLOSING, held};
use crate::visibility::query::Condition;

/// The best index of a query's conditions, best first.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AccessPath {
    /// By run id.
    Run(String),
    Workflow,
    /// By the value of a search attribute. Open runs are read one by one.
    Attribute {
        name: String,
        value: Value,
    },
    Type,
    Status,
    /// In the order of lists, from the earliest position that the conditions allow.
    Order,
}

impl AccessPath {
    pub(super) fn of(conditions: &[Condition]) -> Self {
        let mut best = Self::Order;
        for condition in conditions {
            let path = match condition {
                Condition::Column { column: "run_id", operator: "=", value: Value::Text(id) } => Self::Run(id.clone()),
                Condition::Column { column: "workflow_id", operator: "=", .. } => Self::Workflow,
                Condition::Column { column: "workflow_type", operator: "=", .. } => Self::Type,
                Condition::Column { column: "status", operator: "=", .. } => Self::Status,
                Condition::Attribute { name, value } if held::is_indexed(value) => {
                    Self::Attribute { name: name.clone(), value: value.clone() }
                }
                _ => continue,
            };
            if path.rank() < best.rank() {
                best = path;
            }
        }
        best
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Run(_) => 0,
            Self::Workflow => 1,
            Self::Attribute { .. } => 2,
            Self::Type => 3,
            Self::Status => 4,
            Self::Order => 5,
        }
    }

    /// The parts of a result, in the order of lists.
    pub(super) fn parts(&self) -> Vec<Part> {
        let indexed = |index: &str| Part { from: format!("engine_visibility INDEXED BY {index}"), ..Part::default() };
        match self {
            Self::Run(id) => vec![Part {
                from: "engine_runs CROSS JOIN engine_visibility ON engine_visibility.run = engine_runs.number"
                    .to_owned(),
                condition: " AND engine_runs.run_id = ?".to_owned(),
                values: vec![Value::Text(id.clone())],
                closed: false,
            }],
            Self::Workflow => vec![indexed("engine_visibility_workflow")],
            Self::Type => vec![indexed("engine_visibility_type")],
            Self::Status => vec![indexed("engine_visibility_status")],
            Self::Order => vec![indexed("engine_visibility_order")],
            Self::Attribute { name, value } => vec![
                Part {
                    condition: format!(" AND {CLOSING} >= 9223372036854775807"),
                    ..indexed("engine_visibility_order")
                },
                Part {
                    from: "engine_closed_attributes CROSS JOIN engine_visibility \
                           ON engine_visibility.run = engine_closed_attributes.closed_run"
                        .to_owned(),
                    condition: " AND attribute = (SELECT id FROM engine_attribute_names \
                                WHERE engine_attribute_names.namespace = engine_visibility.namespace \
                                AND engine_attribute_names.name = ?) AND held = ?"
                        .to_owned(),
                    values: vec![Value::Text(name.clone()), value.clone()],
                    closed: true,
                },
            ],
        }
    }
}

/// A part of a result: what follows FROM, and conditions to add to the filter.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Part {
    pub(super) from: String,
    pub(super) condition: String,
    pub(super) values: Vec<Value>,
    /// The rows are read by `engine_closed_attributes`.
    pub(super) closed: bool,
}

/// Bounds of the position in the order of lists, which conditions on the closing time imply.
pub(super) fn bounds(conditions: &[Condition]) -> (String, Vec<Value>) {
    let (mut sql, mut values) = (String::new(), Vec::new());
    for condition in conditions {
        let Condition::Column { column: "close_time", operator, value } = condition else { continue };
        if ["=", "<", "<=", ">", ">="].contains(operator) {
            sql += &format!(" AND {CLOSING} {operator} ?");
            values.push(value.clone());
            if operator.starts_with('>') {
                sql += &format!(" AND {CLOSING} < 9223372036854775807");
            }
        }
    }
    (sql, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(column: &'static str, operator: &'static str, value: &str) -> Condition {
        Condition::Column { column, operator, value: Value::Text(value.into()) }
    }

    #[test]
    fn the_index_with_the_fewest_expected_runs_is_taken() {
        let attribute = Condition::Attribute { name: "Kw".into(), value: Value::Text("a".into()) };
        let by_attribute = AccessPath::Attribute { name: "Kw".into(), value: Value::Text("a".into()) };
        let conditions = [
            column("status", "=", "1"),
            column("workflow_type", "=", "t"),
            attribute,
            column("workflow_id", "=", "w"),
            column("run_id", "=", "r"),
        ];
        for (count, path) in [
            AccessPath::Order,
            AccessPath::Status,
            AccessPath::Type,
            by_attribute,
            AccessPath::Workflow,
            AccessPath::Run("r".into()),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(AccessPath::of(&conditions[..count]), path);
        }
        assert_eq!(
            AccessPath::of(&[column("workflow_id", ">", "w"), column("start_time", "=", "w")]),
            AccessPath::Order
        );
        let text = Condition::Attribute { name: "Tx".into(), value: Value::Text(" a ".into()) };
        assert_eq!(AccessPath::of(&[text]), AccessPath::Order);
    }

    #[test]
    fn closing_times_bound_the_position() {
        let (sql, values) =
            bounds(&[column("close_time", ">=", "5"), column("status", "=", "1"), column("close_time", "!=", "9")]);
        assert_eq!(sql, format!(" AND {CLOSING} >= ? AND {CLOSING} < 9223372036854775807"));
        assert_eq!(values, [Value::Text("5".into())]);
    }
}
