//! Lists of archived runs, with the filters of other lists.

use std::{collections::HashMap, path::Path};

use rusqlite::Connection;

use super::{
    files::{days, lines},
    line::{day, read},
};
use crate::{
    persist::MIGRATIONS,
    service_error::ServiceError,
    visibility::{
        Attributes, Query,
        sql::{self, Error, Page, VisibilityRow},
    },
};

fn unreadable(error: std::io::Error) -> ServiceError {
    ServiceError::Internal(format!("the archive cannot be read: {error}"))
}

/// One page of the runs of a directory, the latest first. The files of a day are read into a table in memory, and days
/// only as far as the page needs them.
pub(crate) fn list(
    directory: &Path,
    namespace: &str,
    query: &Query,
    attributes: &Attributes,
    page_size: usize,
    token: &[u8],
) -> Result<Page, Error> {
    let from = sql::closing(token)?.map(day);
    let mut rows: Vec<VisibilityRow> = Vec::new();
    for day in days(directory).map_err(unreadable)? {
        if from.as_ref().is_some_and(|from| day > *from) {
            continue;
        }
        // Of several lines of a run, the last one counts.
        let mut found: HashMap<String, VisibilityRow> = HashMap::new();
        for line in lines(directory, &day).map_err(unreadable)? {
            if let Some(archived) = read(&line.map_err(unreadable)?, attributes, false) {
                let row = VisibilityRow { namespace: namespace.to_owned(), ..archived.row };
                found.insert(row.run_id.clone(), row);
            }
        }
        rows.extend(page_of_day(found, namespace, query, page_size, token)?);
        if rows.len() > page_size {
            break;
        }
    }
    Ok(Page::of(rows, page_size))
}

fn page_of_day(
    found: HashMap<String, VisibilityRow>,
    namespace: &str,
    query: &Query,
    page_size: usize,
    token: &[u8],
) -> Result<Vec<VisibilityRow>, Error> {
    let table = Connection::open_in_memory()?;
    for migration in MIGRATIONS {
        table.execute_batch(migration)?;
    }
    let filling = table.unchecked_transaction()?;
    for (number, row) in (1..).zip(found.into_values()) {
        // Queries for a run id are read by the table of runs.
        table
            .prepare_cached(
                "INSERT INTO engine_runs (number, namespace, workflow_id, run_id, state, ready) VALUES (?, ?, ?, ?, x'', 0)",
            )?
            .execute(rusqlite::params![number, namespace, row.workflow_id, row.run_id])?;
        sql::put(&table, &VisibilityRow { run: number, ..row })?;
    }
    filling.commit()?;
    // One more than requested shows whether there is another page.
    Ok(sql::list(&table, namespace, query, page_size + 1, token)?.rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        archive::{
            files::{Archiving, append},
            line::{
                tests::{attributes, row},
                written,
            },
        },
        visibility::parse,
    };

    #[test]
    fn pages_go_through_the_days_and_a_repeated_line_is_one_run() {
        let directory = tempfile::tempdir().unwrap();
        let line = |run_id: &str, closed| written(&row(run_id, closed), "id", None).unwrap();
        let lines = vec![line("a", 5), line("b", 6), line("c", 90_000), line("b", 6), line("d", 200_000)];
        append(&Archiving { directory: directory.path().to_owned(), lines }).unwrap();
        let page = |query: &str, size, token: &[u8]| {
            let parsed = parse(query, &attributes()).unwrap();
            let page = list(directory.path(), "other name", &parsed, &attributes(), size, token).unwrap();
            (page.rows.into_iter().map(|row| row.run_id).collect::<Vec<_>>(), page.next)
        };
        let (first, next) = page("", 3, &[]);
        assert_eq!(first, ["d", "c", "b"]);
        assert_eq!(page("", 3, &next), (vec!["a".to_owned()], Vec::new()));
        for (query, found) in [
            ("RunId = 'c'", vec!["c"]),
            ("CloseTime < '1970-01-02T00:00:00Z' AND ExecutionStatus = 'ContinuedAsNew'", vec!["b", "a"]),
            ("Kw = 'x'", vec![]),
            ("WorkflowType = 't' AND HistoryLength > 3", vec!["d", "c", "b", "a"]),
        ] {
            assert_eq!(page(query, 10, &[]).0, found, "{query}");
        }
    }
}
