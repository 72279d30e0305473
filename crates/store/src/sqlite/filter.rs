//! The conditions of a list.

use rusqlite::{Connection, ToSql};
use windlass_core::envelope::Labels;

use super::columns::Uint;
use crate::{Result, page::Cursor};

/// Conditions that all hold, and the values in them.
pub(super) struct Filter {
    conditions: Vec<String>,
    values: Vec<Box<dyn ToSql>>,
}

impl Filter {
    pub(super) fn new() -> Self {
        Self { conditions: vec!["true".to_owned()], values: Vec::new() }
    }

    pub(super) fn holds(&mut self, condition: impl Into<String>) {
        self.conditions.push(condition.into());
    }

    pub(super) fn is(&mut self, column: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.holds(format!("{column} = ?"));
            self.value(value.to_owned());
        }
    }

    pub(super) fn is_any(&mut self, column: &str, values: &[&str]) {
        if !values.is_empty() {
            self.holds(format!("{column} IN ({})", vec!["?"; values.len()].join(", ")));
            values.iter().for_each(|value| self.value((*value).to_owned()));
        }
    }

    /// The JSON object in `column` has each of these as a string.
    pub(super) fn has(&mut self, column: &str, wanted: &Labels) {
        for (key, value) in wanted {
            self.holds(format!(
                "EXISTS (SELECT 1 FROM json_each({column}) AS field
                         WHERE field.key = ? AND field.type = 'text' AND field.value = ?)"
            ));
            self.value(key.clone());
            self.value(value.clone());
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

    fn value(&mut self, value: impl ToSql + 'static) {
        self.values.push(Box::new(value));
    }
}
