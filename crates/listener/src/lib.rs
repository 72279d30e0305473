//! Connections of a TCP port: the accept loop and the connection limit.
//!
//! A connection with a call in progress keeps its slot. When all slots are taken, a new connection evicts an idle one:
//! the longest idle connection of the address that has the most idle connections. No address can hold all slots. The
//! protocol and its idle timeouts are up to the caller.

mod slots;

use std::{future::Future, io, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    time,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

pub use self::slots::{Call, Slot};
use self::slots::{Peer, Slots};

/// Prevents a busy loop while `accept` fails, for example without file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves up to `limit` connections at a time until `shutdown`, and returns when every connection is closed. Clients
/// without a slot wait in the listener's backlog.
pub async fn serve<C: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    limit: usize,
    shutdown: &CancellationToken,
    connection: impl Fn(TcpStream, Arc<Slot>) -> C,
) {
    let connections = TaskTracker::new();
    let slots = Slots::new(limit);
    while let Some(accepted) = shutdown.run_until_cancelled(accept(&listener, &slots)).await {
        match accepted {
            Ok((stream, Some(slot))) => {
                let served = connection(stream, Arc::clone(&slot));
                connections.spawn(async move {
                    tokio::select! {
                        () = served => {}
                        () = slot.evicted() => debug!("an idle connection was closed for a new one"),
                    }
                });
            }
            Ok((stream, None)) => {
                debug!(peer = ?stream.peer_addr(), "a client address has reached its connection limit; rejecting a connection")
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// The next connection with its slot, or without one if its address has reached its limit and all its connections are
/// in use.
async fn accept(listener: &TcpListener, slots: &Arc<Slots>) -> io::Result<(TcpStream, Option<Arc<Slot>>)> {
    let (stream, address) = listener.accept().await?;
    stream.set_nodelay(true)?;
    let slot = slots.acquire(Peer::at(address.ip())).await;
    Ok((stream, slot.map(Arc::new)))
}
