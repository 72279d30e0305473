//! `subscriptions/listen`: the states of tasks, as they change.
//!
//! Lists of tools do not change while a server runs, so there is nothing else to subscribe to.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    era::Era,
    follow::{Follower, Seen},
    message::{self, Failure, Request, notification},
    reply::{Context, CutOff, Reply, body, event, keep_alive},
    tasks,
};

const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
/// The number of tasks of one subscription.
const TASKS: usize = 64;

pub(super) async fn listen(context: &Context, request: &Request) -> Result<Reply, Failure> {
    let wanted = &request.params["notifications"];
    if !wanted.is_object() {
        return Err(Failure::params("notifications: is required, an object"));
    }
    let mut honoured = json!({});
    let mut changes = Vec::new();
    if let Some(ids) = wanted.get("taskIds") {
        if let Era::Modern(client) = context.era {
            client.require_tasks()?;
        }
        let ids: Vec<&str> = ids.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if ids.len() > TASKS {
            return Err(Failure::params(format!(
                "notifications.taskIds: has {} tasks; send at most {TASKS}",
                ids.len()
            )));
        }
        let mut known = Vec::new();
        for id in ids {
            // A task that does not exist is not honoured, which the client sees in the acknowledgement.
            if let Ok(row) = tasks::of_id(context, id).await {
                known.push(id);
                let follower = Follower::new(Arc::clone(context.app.ops.store()), row.id, HashSet::new());
                let watch = Watch { context: context.clone(), follower: Some(follower), last: Value::Null };
                changes.push(stream::unfold(watch, Watch::next).boxed());
            }
        }
        honoured["taskIds"] = json!(known);
    }
    let id = request.id.clone();
    let acknowledged = json!({"_meta": {SUBSCRIPTION_KEY: id}, "notifications": honoured});
    let first = event(&notification("notifications/subscriptions/acknowledged", &acknowledged));
    let rest = until_the_end(context.clone(), id, stream::select_all(changes));
    Ok(Reply::Stream(body(stream::once(async move { Ok(first) }).chain(rest))))
}

/// Notifications until the client leaves. If the server ends first, the result of the request says so.
fn until_the_end(
    context: Context,
    id: Value,
    changes: impl Stream<Item = Result<Value, CutOff>> + Send + Unpin + 'static,
) -> impl Stream<Item = Result<Bytes, CutOff>> + Send + 'static {
    // A stream of no tasks ends at once; the subscription does not.
    let changes = changes.chain(stream::pending());
    stream::unfold(Some((context, id, changes)), async |state| {
        let (context, id, mut changes) = state?;
        let draining = context.app.draining.clone();
        let next = draining.run_until_cancelled(timeout(context.app.limits.keep_alive, changes.next())).await;
        let meta = json!({SUBSCRIPTION_KEY: id});
        match next {
            None => {
                let result = context.complete(json!({"_meta": meta}));
                Some((Ok(event(&message::result(&id, &result))), None))
            }
            Some(Err(_) | Ok(None)) => Some((Ok(keep_alive()), Some((context, id, changes)))),
            Some(Ok(Some(Err(cut)))) => Some((Err(cut), None)),
            Some(Ok(Some(Ok(mut task)))) => {
                task["_meta"] = meta;
                Some((Ok(event(&notification("notifications/tasks", &task))), Some((context, id, changes))))
            }
        }
    })
}

/// The states of one task.
struct Watch {
    context: Context,
    /// `None` after the task has ended.
    follower: Option<Follower>,
    /// The state that was sent last, without its times.
    last: Value,
}

impl Watch {
    async fn next(mut self) -> Option<(Result<Value, CutOff>, Self)> {
        loop {
            let run = self.follower.as_ref()?.run.clone();
            let task = match tasks::of_id(&self.context, run.as_str()).await {
                Ok(row) => tasks::detailed(&self.context, &row).await,
                Err(_) => return None,
            };
            let Ok(task) = task else {
                self.follower = None;
                return Some((Err(CutOff), self));
            };
            let state = json!([task["status"], task["inputRequests"], task["statusMessage"]]);
            if ["completed", "cancelled"].contains(&task["status"].as_str().unwrap_or_default()) {
                self.follower = None;
            }
            if state != self.last {
                self.last = state;
                return Some((Ok(task), self));
            }
            match self.follower.as_mut()?.next().await {
                Ok(Seen::Event(_) | Seen::Waiting(_) | Seen::Ended(_)) => {}
                Err(error) => {
                    tracing::warn!(%run, %error, "subscription cut off");
                    self.follower = None;
                    return Some((Err(CutOff), self));
                }
            }
        }
    }
}
