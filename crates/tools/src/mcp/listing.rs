//! The list of a server's tools: all pages, and how long it is fresh.

use std::{sync::Arc, time::Duration};

use rmcp::{
    model::{PaginatedRequestParams, ServerNotification, SubscriptionFilter, Tool},
    service::ServiceError,
};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::{connection::Connection, failure};
use crate::ToolFailure;

const MAX_PAGES: usize = 100;
const MAX_TOOLS: usize = 1024;
/// A cursor is sent back with the next request, so a longer one ends the list.
const MAX_CURSOR: usize = 4096;
/// How long a list is fresh whose server does not say.
const DEFAULT_FRESH: Duration = Duration::from_secs(30);
const MAX_FRESH: Duration = Duration::from_secs(60 * 60);

/// The tools of a server as they were listed.
pub(super) struct Listed {
    tools: Arc<Vec<Tool>>,
    fresh_until: Instant,
    /// How many changes of the list were known before it was read.
    changes: u64,
}

impl Connection {
    /// The server's tools, ordered by name.
    pub(super) async fn tools(&self) -> Result<Arc<Vec<Tool>>, ToolFailure> {
        let mut listed = self.listed.lock().await;
        match &*listed {
            Some(fresh) if fresh.changes == self.in_flight.list_changes() && Instant::now() < fresh.fresh_until => {
                return Ok(Arc::clone(&fresh.tools));
            }
            _ => {}
        }
        let changes = self.in_flight.list_changes();
        let (tools, fresh_for) = self.list_tools().await?;
        let tools = Arc::new(tools);
        let fresh_until = Instant::now() + fresh_for;
        *listed = Some(Listed { tools: Arc::clone(&tools), fresh_until, changes });
        Ok(tools)
    }

    /// Reads the list from the server.
    pub(super) async fn list_tools(&self) -> Result<(Vec<Tool>, Duration), ToolFailure> {
        let mut tools: Vec<Tool> = Vec::new();
        let mut fresh_for = MAX_FRESH;
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.peer.list_tools(Some(params)).await.map_err(|error| failure::of_request(&error))?;
            fresh_for = fresh_for.min(page.ttl_ms.map_or(DEFAULT_FRESH, Duration::from_millis));
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.as_ref().is_none_or(|cursor| cursor.len() > MAX_CURSOR) || tools.len() > MAX_TOOLS {
                break;
            }
        }
        if cursor.is_some() || tools.len() > MAX_TOOLS {
            let server = self.resolved().server;
            tracing::warn!(server, "an MCP server has more tools than are read; the rest is left out");
            tools.truncate(MAX_TOOLS);
        }
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools.dedup_by(|later, first| later.name == first.name);
        Ok((tools, fresh_for))
    }

    /// By 2026-07-28 a server tells of changes only on a subscription. One that ends is not renewed: lists go stale by time
    /// as well.
    pub(super) fn hear_of_changes(&self, tasks: &TaskTracker) {
        let announces = self.info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true));
        if !self.is_stateless() || !announces {
            return;
        }
        let (peer, in_flight, closed) = (self.peer.clone(), Arc::clone(&self.in_flight), self.closed());
        let listen = async move {
            let mut filter = SubscriptionFilter::new();
            filter.tools_list_changed = Some(true);
            let mut changes = peer.listen(filter).await?;
            while let Some(change) = changes.next().await? {
                if matches!(change, ServerNotification::ToolListChangedNotification(_)) {
                    in_flight.list_changed();
                }
            }
            Ok::<(), ServiceError>(())
        };
        tasks.spawn(async move {
            if let Some(Err(error)) = closed.run_until_cancelled(listen).await {
                tracing::debug!(%error, "an MCP server does not tell of changes of its list of tools");
            }
        });
    }
}
