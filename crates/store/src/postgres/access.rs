//! One connection of the pool, with a transaction or without.

use std::{mem, sync::Arc};

use deadpool_postgres::Object;
use futures_util::future::join;
use tokio_postgres::{Row, types::ToSql};
use windlass_core::{ids::RunId, time::Timestamp};

use super::Parts;
use crate::{Result, StoreError};

pub(super) type Params<'p> = &'p [&'p (dyn ToSql + Sync)];

/// What every module works with.
pub(super) struct Sql {
    parts: Arc<Parts>,
    /// Absent only while it is dropped.
    connection: Option<Object>,
    transaction: Transaction,
    pub(super) now: Timestamp,
    reached: Vec<(RunId, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transaction {
    /// Every statement is its own.
    None,
    /// It begins with the first statement, in the same round trip.
    Due,
    Open,
}

impl Parts {
    /// A connection on which every statement is a transaction of its own: for reads, and writes of one statement.
    pub(super) async fn autocommit(self: &Arc<Self>) -> Result<Sql> {
        self.sql(Transaction::None).await
    }

    /// A connection on which a transaction begins. Hand the outcome of the work to [`Sql::end`].
    pub(super) async fn begin(self: &Arc<Self>) -> Result<Sql> {
        self.sql(Transaction::Due).await
    }

    async fn sql(self: &Arc<Self>, transaction: Transaction) -> Result<Sql> {
        let connection = Some(self.pool.get().await?);
        Ok(Sql { parts: Arc::clone(self), connection, transaction, now: (self.clock)(), reached: Vec::new() })
    }
}

impl Sql {
    pub(super) async fn query(&mut self, statement: &str, params: Params<'_>) -> Result<Vec<Row>> {
        let Self { connection: Some(connection), transaction, .. } = self else { return Err(connection_dropped()) };
        let statement = connection.prepare_cached(statement).await?;
        let query = connection.query(&statement, params);
        if *transaction != Transaction::Due {
            return Ok(query.await?);
        }
        *transaction = Transaction::Open;
        // Both are on their way before either is answered.
        let (begun, rows) = join(connection.batch_execute("BEGIN"), query).await;
        begun?;
        Ok(rows?)
    }

    pub(super) async fn query_opt(&mut self, statement: &str, params: Params<'_>) -> Result<Option<Row>> {
        Ok(self.query(statement, params).await?.into_iter().next())
    }

    /// A query that always has a row.
    pub(super) async fn query_one(&mut self, statement: &str, params: Params<'_>) -> Result<Row> {
        self.query_opt(statement, params)
            .await?
            .ok_or_else(|| StoreError::Refused { detail: format!("no row came back from {statement:?}") })
    }

    /// Returns how many rows it wrote.
    pub(super) async fn execute(&mut self, statement: &str, params: Params<'_>) -> Result<u64> {
        let Self { connection: Some(connection), transaction, .. } = self else { return Err(connection_dropped()) };
        let statement = connection.prepare_cached(statement).await?;
        let execute = connection.execute(&statement, params);
        if *transaction != Transaction::Due {
            return Ok(execute.await?);
        }
        *transaction = Transaction::Open;
        let (begun, count) = join(connection.batch_execute("BEGIN"), execute).await;
        begun?;
        Ok(count?)
    }

    /// Runs a script inside a transaction that is already open.
    pub(super) async fn script(&mut self, script: &str) -> Result<()> {
        let connection = self.connection.as_ref().ok_or_else(connection_dropped)?;
        Ok(connection.batch_execute(script).await?)
    }

    /// The run's log grows to `seq` if this transaction is committed.
    pub(super) fn log_reaches(&mut self, run: &RunId, seq: u64) {
        self.reached.push((run.clone(), seq));
    }

    /// Commits if the outcome is a success, and notifies watchers; rolls back otherwise.
    pub(super) async fn end<T>(mut self, outcome: Result<T>) -> Result<T> {
        if self.transaction != Transaction::Open {
            return outcome;
        }
        let connection = self.connection.as_ref().ok_or_else(connection_dropped)?;
        match &outcome {
            Ok(_) => connection.batch_execute("COMMIT").await?,
            // If even that fails, dropping the connection has the same effect.
            Err(_) if connection.batch_execute("ROLLBACK").await.is_err() => return outcome,
            Err(_) => {}
        }
        self.transaction = Transaction::None;
        if outcome.is_ok() {
            for (run, seq) in mem::take(&mut self.reached) {
                self.parts.watchers.reached(&run, seq);
                self.parts.notifier.send(run, seq);
            }
        }
        outcome
    }
}

impl Drop for Sql {
    /// A caller that went away in the middle leaves a transaction open; its connection must not be used again.
    fn drop(&mut self) {
        if self.transaction == Transaction::Open
            && let Some(connection) = self.connection.take()
        {
            drop(Object::take(connection));
        }
    }
}

fn connection_dropped() -> StoreError {
    StoreError::Unavailable { action: "use its connection", detail: "the connection was dropped".to_owned() }
}
