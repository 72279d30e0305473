//! The conditions of a list in SQL.

use rusqlite::{Connection, ToSql};

use super::columns::Uint;
use crate::{Result, conditions::Condition, page::Cursor};

/// Conditions that all hold, and the values in them.
pub(super) struct Filter {
    conditions: Vec<String>,
    values: Vec<Box<dyn ToSql>>,
}

impl Filter {
    pub(super) fn of(wanted: Vec<Condition<'_>>) -> Self {
        let mut filter = Self { conditions: vec!["true".to_owned()], values: Vec::new() };
        for condition in wanted {
            filter.add(condition);
        }
        filter
    }

    fn add(&mut self, condition: Condition<'_>) {
        match condition {
            Condition::Is { column, value } => {
                self.holds(format!("{column} = ?"));
                self.value(value.to_owned());
            }
            Condition::IsAny { column, values } => {
                self.holds(format!("{column} IN ({})", vec!["?"; values.len()].join(", ")));
                values.into_iter().for_each(|value| self.value(value.to_owned()));
            }
            Condition::IsNull { column } => self.holds(format!("{column} IS NULL")),
            Condition::IsNotNull { column } => self.holds(format!("{column} IS NOT NULL")),
            Condition::HasLabels(wanted) => {
                for (key, value) in wanted {
                    self.holds(
                        "EXISTS (SELECT 1 FROM json_each(metadata) AS field
                                 WHERE field.key = ? AND field.type = 'text' AND field.value = ?)",
                    );
                    self.value(key.clone());
                    self.value(value.clone());
                }
            }
        }
    }

    pub(super) fn comes_after(&mut self, time: &str, cursor: &Cursor<'_>) {
        self.holds(format!("({time}, id) < (?, ?)"));
        self.value(Uint::from(cursor.at));
        self.value(cursor.id.to_owned());
    }

    pub(super) fn count(&self, sql: &Connection, table: &str) -> Result<u64> {
        let Uint(count) = sql
            .prepare_cached(&format!("SELECT count(*) FROM {table} WHERE {}", self.conditions()))?
            .query_row(self.values().as_slice(), |row| row.get(0))?;
        Ok(count)
    }

    pub(super) fn conditions(&self) -> String {
        self.conditions.join(" AND ")
    }

    pub(super) fn values(&self) -> Vec<&dyn ToSql> {
        self.values.iter().map(AsRef::as_ref).collect()
    }

    fn holds(&mut self, condition: impl Into<String>) {
        self.conditions.push(condition.into());
    }

    fn value(&mut self, value: impl ToSql + 'static) {
        self.values.push(Box::new(value));
    }
}
