//! The conditions of a list in SQL.

use rusqlite::{Connection, Row, ToSql};

use super::columns::{RawText, Uint};
use crate::{
    Result, StoreError,
    conditions::Condition,
    page::{Cursor, Page},
};

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
            Condition::Since { column, at } => {
                self.holds(format!("{column} >= ?"));
                self.value(i64::try_from(at.0).unwrap_or(i64::MAX));
            }
            Condition::HasLabels(wanted) => {
                for (key, value) in wanted {
                    self.holds(
                        "EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(metadata) THEN metadata ELSE '{}' END) AS field
                                 WHERE field.key = ? AND field.type = 'text' AND field.value = ?)",
                    );
                    self.value(key.clone());
                    self.value(value.clone());
                }
            }
        }
    }

    pub(super) fn comes_after(&mut self, time: &str, cursor: &Cursor<'_>) {
        let at = i64::try_from(cursor.at.0).unwrap_or(i64::MAX);
        self.comes_after_row(time, at, RawText(cursor.id.as_bytes().to_vec()));
    }

    /// The same for a row as it stands, readable or not.
    fn comes_after_row(&mut self, time: &str, at: i64, id: RawText) {
        self.holds(format!("({time}, id) < (?, ?)"));
        self.value(at);
        self.value(id);
    }

    /// Reads a page of rows in the order of a time and an id, both descending.
    pub(super) fn page<T>(
        mut self,
        sql: &Connection,
        (table, columns, time): (&'static str, &str, &str),
        (wanted, mut offset): (u32, u32),
        from_row: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Page<T>> {
        let mut page = Page::of(wanted);
        loop {
            let limit = page.missing();
            let mut rows = sql.prepare_cached(&format!(
                "SELECT {columns} FROM {table} WHERE {} ORDER BY {time} DESC, id DESC LIMIT {limit} OFFSET {offset}",
                self.conditions()
            ))?;
            let mut rows = rows.query(self.values().as_slice())?;
            let (mut count, mut last) = (0, None);
            while let Some(row) = rows.next()? {
                count += 1;
                let (at, id) = (row.get_ref(time)?.as_i64().unwrap_or_default(), RawText::of(row, "id")?);
                page.take(from_row(row).map_err(StoreError::from), table, &id)?;
                last = Some((at, id));
            }
            let Some((at, id)) = last.filter(|_| count == limit && page.missing() > 0) else { return Ok(page) };
            // Some rows were left out: others take their places.
            offset = 0;
            self.comes_after_row(time, at, id);
        }
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
