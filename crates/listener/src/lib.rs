//! A TCP port's connections: accepted, counted, and closed when others need their place.
//!
//! A connection keeps its place for sure while a call is under way on it. When all places are taken, a newcomer gets the
//! place of a connection without a call: of the address that has the most of these, the one that has been without a call
//! for the longest. No address can have all places. What is spoken on a connection, and how long a peer may be silent, is
//! up to the protocol that is served.

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

/// Without it, a listener that cannot accept (out of file descriptors) would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves up to `limit` connections at a time until `shutdown`; returns when every connection is closed. Clients for
/// which there is no place wait in the listener's backlog.
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
                        () = slot.evicted() => debug!("a connection without a call made room for another"),
                    }
                });
            }
            Ok((stream, None)) => debug!(peer = ?stream.peer_addr(), "an address has all the connections it may have"),
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

/// The next connection, with its place; without one if its address has too many that are all in use.
async fn accept(listener: &TcpListener, slots: &Arc<Slots>) -> io::Result<(TcpStream, Option<Arc<Slot>>)> {
    let (stream, address) = listener.accept().await?;
    stream.set_nodelay(true)?;
    let slot = slots.acquire(Peer::at(address.ip())).await;
    Ok((stream, slot.map(Arc::new)))
}
