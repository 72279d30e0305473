//! The conditions of a list in SQL.

use tokio_postgres::types::ToSql;

use super::{
    access::Sql,
    columns::{Columns as _, label_tags, millis},
};
use crate::{Result, conditions::Condition, page::Cursor};

/// Conditions that all hold, and the values in them.
pub(super) struct Filter {
    conditions: Vec<String>,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Filter {
    pub(super) fn of(wanted: Vec<Condition<'_>>) -> Result<Self> {
        let mut filter = Self { conditions: vec!["true".to_owned()], values: Vec::new() };
        for condition in wanted {
            filter.add(condition)?;
        }
        Ok(filter)
    }

    fn add(&mut self, condition: Condition<'_>) -> Result<()> {
        let holds = match condition {
            Condition::Is { column, value } => format!("{column} = {}", self.value(value.to_owned())),
            Condition::IsAny { column, values } => {
                let values: Vec<_> = values.into_iter().map(str::to_owned).collect();
                format!("{column} = ANY({})", self.value(values))
            }
            Condition::IsNull { column } => format!("{column} IS NULL"),
            Condition::IsNotNull { column } => format!("{column} IS NOT NULL"),
            Condition::HasLabels(wanted) => format!("tags @> {}", self.value(label_tags(wanted)?)),
        };
        self.conditions.push(holds);
        Ok(())
    }

    pub(super) fn comes_after(&mut self, time: &str, cursor: &Cursor<'_>) {
        let (at, id) = (self.value(millis(cursor.at)), self.value(cursor.id.to_owned()));
        self.conditions.push(format!("({time}, id) < ({at}, {id})"));
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
