//! The conditions of a list.

use tokio_postgres::types::ToSql;
use windlass_core::envelope::Labels;

use super::{
    access::Sql,
    columns::{Columns as _, label_tags, millis},
};
use crate::{Result, page::Cursor};

/// Conditions that all hold, and the values in them.
pub(super) struct Filter {
    conditions: Vec<String>,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
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
            let place = self.value(value.to_owned());
            self.holds(format!("{column} = {place}"));
        }
    }

    pub(super) fn is_any(&mut self, column: &str, values: &[&str]) {
        if !values.is_empty() {
            let place = self.value(values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>());
            self.holds(format!("{column} = ANY({place})"));
        }
    }

    /// The metadata has each of these as a string.
    pub(super) fn has(&mut self, wanted: &Labels) -> Result<()> {
        if !wanted.is_empty() {
            let place = self.value(label_tags(wanted)?);
            self.holds(format!("tags @> {place}"));
        }
        Ok(())
    }

    pub(super) fn comes_after(&mut self, time: &str, cursor: &Cursor<'_>) {
        let (at, id) = (self.value(millis(cursor.at)), self.value(cursor.id.to_owned()));
        self.holds(format!("({time}, id) < ({at}, {id})"));
    }

    pub(super) async fn count(&self, sql: &mut Sql, table: &str) -> Result<u64> {
        let count = format!("SELECT count(*) FROM {table} WHERE {}", self.conditions());
        sql.query_one(&count, &self.values()).await?.uint("count")
    }

    pub(super) fn conditions(&self) -> String {
        self.conditions.join(" AND ")
    }

    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| value.as_ref() as &(dyn ToSql + Sync)).collect()
    }

    /// Returns where the value stands in the statement.
    fn value(&mut self, value: impl ToSql + Sync + Send + 'static) -> String {
        self.values.push(Box::new(value));
        format!("${}", self.values.len())
    }
}
