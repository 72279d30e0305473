//! The conditions of a list in SQL.

use tokio_postgres::{Row, types::ToSql};

use super::{
    access::Sql,
    columns::{Columns as _, get, label_tags, millis},
};
use crate::{
    Result,
    conditions::Condition,
    page::{Cursor, Page},
};

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
            Condition::Since { column, at } => format!("{column} >= {}", self.value(millis(at))),
            Condition::HasLabels(wanted) => format!("tags @> {}", self.value(label_tags(wanted)?)),
        };
        self.conditions.push(holds);
        Ok(())
    }

    pub(super) fn comes_after(&mut self, time: &str, cursor: &Cursor<'_>) {
        self.comes_after_row(time, millis(cursor.at), cursor.id.to_owned());
    }

    /// The same for a row as it stands, readable or not.
    fn comes_after_row(&mut self, time: &str, at: i64, id: String) {
        let (at, id) = (self.value(at), self.value(id));
        self.conditions.push(format!("({time}, id) < ({at}, {id})"));
    }

    /// Reads a page of rows in the order of a time and an id, both descending.
    pub(super) async fn page<T>(
        mut self,
        sql: &mut Sql,
        (table, columns, time): (&'static str, &str, &str),
        (wanted, mut offset): (u32, u32),
        from_row: impl Fn(&Row) -> Result<T>,
    ) -> Result<Page<T>> {
        let mut page = Page::of(wanted);
        loop {
            let limit = page.missing();
            let statement = format!(
                "SELECT {columns} FROM {table} WHERE {} ORDER BY {time} DESC, id DESC LIMIT {limit} OFFSET {offset}",
                self.conditions()
            );
            let rows = sql.query(&statement, &self.values()).await?;
            for row in &rows {
                page.take(from_row(row), table, row.text("id")?)?;
            }
            let last = rows.last().filter(|_| rows.len() == limit && page.missing() > 0);
            let Some(last) = last else { return Ok(page) };
            // Some rows were left out: others take their places.
            offset = 0;
            self.comes_after_row(time, get(last, time)?, last.text("id")?);
        }
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
