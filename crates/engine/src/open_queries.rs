//! Queries that were dispatched as query tasks, by id.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::run::queries::PendingQuery;

#[derive(Default)]
pub(crate) struct OpenQueries {
    queries: Mutex<HashMap<String, Arc<PendingQuery>>>,
}

/// A registered query. Dropping it removes the query.
pub(crate) struct Open<'a> {
    queries: &'a OpenQueries,
    id: String,
}

impl OpenQueries {
    pub(crate) fn enter(&self, query: Arc<PendingQuery>) -> Open<'_> {
        let id = query.id.clone();
        self.queries.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), query);
        Open { queries: self, id }
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<PendingQuery>> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.queries.queries.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
