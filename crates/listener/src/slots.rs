//! The slots of connections, and which connection is evicted.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// One part in this many of all slots is reserved for other addresses.
const RESERVED_SHARE: usize = 8;

/// A client: an IPv4 address, or an IPv6 /64 network, of which one host may use any address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer(IpAddr);

impl Peer {
    pub(crate) fn at(address: IpAddr) -> Self {
        const NETWORK: u128 = u128::MAX << 64;
        Self(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK)),
            address => address,
        })
    }
}

pub(crate) struct Slots {
    table: Mutex<Table>,
    /// A slot became free, or its connection became idle.
    slot_available: Notify,
}

/// The slot of a connection. Dropping it frees the slot.
pub struct Slot {
    slots: Arc<Slots>,
    id: u64,
    evicted: CancellationToken,
}

/// A call in progress, which keeps its connection from being evicted.
#[must_use]
pub struct Call(Arc<Slot>);

impl Slots {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { table: Mutex::new(Table::new(limit)), slot_available: Notify::new() })
    }

    /// Waits for a slot. `None` if the peer has reached its limit and all its connections have calls.
    pub(crate) async fn acquire(self: &Arc<Self>, peer: Peer) -> Option<Slot> {
        loop {
            let slot_available = self.slot_available.notified();
            let admission = self.lock().admit(peer);
            match admission {
                Admission::Admitted(id, evicted) => return Some(Slot { slots: Arc::clone(self), id, evicted }),
                Admission::PeerLimit => return None,
                Admission::Full => slot_available.await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Keeps the connection from being evicted until the call is dropped.
    pub fn call(self: &Arc<Self>) -> Call {
        self.slots.lock().begin_call(self.id);
        Call(Arc::clone(self))
    }

    /// Completes when the slot was given to another connection.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().remove(self.id);
        self.slots.slot_available.notify_one();
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.0.slots.lock().end_call(self.0.id) {
            self.0.slots.slot_available.notify_one();
        }
    }
}

/// All connections, and which of them are idle.
struct Table {
    limit: usize,
    connections: HashMap<u64, Connection>,
    peers: HashMap<Peer, PeerSlots>,
    next_id: u64,
    /// A logical clock that orders idle connections.
    tick: u64,
}

struct Connection {
    peer: Peer,
    calls: usize,
    /// When its last call ended; unused while it has a call.
    idle_since: u64,
    evicted: CancellationToken,
}

#[derive(Default)]
struct PeerSlots {
    slots: usize,
    /// Idle connections by the tick at which they became idle.
    idle: BTreeMap<u64, u64>,
}

enum Admission {
    Admitted(u64, CancellationToken),
    PeerLimit,
    Full,
}

impl Table {
    fn new(limit: usize) -> Self {
        Self { limit, connections: HashMap::new(), peers: HashMap::new(), next_id: 0, tick: 0 }
    }

    fn admit(&mut self, peer: Peer) -> Admission {
        let peer_limit = self.limit - self.limit / RESERVED_SHARE;
        let held = self.peers.get(&peer).map_or(0, |held| held.slots);
        if held >= peer_limit && !self.evict_idle_of(peer) {
            return Admission::PeerLimit;
        }
        if self.connections.len() >= self.limit
            && !self.peer_with_most_idle().is_some_and(|peer| self.evict_idle_of(peer))
        {
            return Admission::Full;
        }
        self.next_id += 1;
        self.tick += 1;
        let (id, idle_since, evicted) = (self.next_id, self.tick, CancellationToken::new());
        let connection = Connection { peer, calls: 0, idle_since, evicted: evicted.clone() };
        self.connections.insert(id, connection);
        let held = self.peers.entry(peer).or_default();
        held.slots += 1;
        held.idle.insert(idle_since, id);
        Admission::Admitted(id, evicted)
    }

    fn peer_with_most_idle(&self) -> Option<Peer> {
        self.peers.iter().max_by_key(|(_, held)| held.idle.len()).map(|(peer, _)| *peer)
    }

    /// Closes the peer's longest idle connection. Returns false if there is none.
    fn evict_idle_of(&mut self, peer: Peer) -> bool {
        let oldest = self.peers.get(&peer).and_then(|held| held.idle.first_key_value()).map(|(_, id)| *id);
        let Some(connection) = oldest.and_then(|id| self.remove(id)) else { return false };
        connection.evicted.cancel();
        true
    }

    /// Does nothing for an evicted connection.
    fn remove(&mut self, id: u64) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        if let Some(held) = self.peers.get_mut(&connection.peer) {
            held.slots -= 1;
            if connection.calls == 0 {
                held.idle.remove(&connection.idle_since);
            }
            if held.slots == 0 {
                self.peers.remove(&connection.peer);
            }
        }
        Some(connection)
    }

    fn begin_call(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.calls += 1;
        if connection.calls == 1
            && let Some(held) = self.peers.get_mut(&connection.peer)
        {
            held.idle.remove(&connection.idle_since);
        }
    }

    /// Returns whether the connection is idle now.
    fn end_call(&mut self, id: u64) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        connection.calls -= 1;
        if connection.calls > 0 {
            return false;
        }
        self.tick += 1;
        connection.idle_since = self.tick;
        if let Some(held) = self.peers.get_mut(&connection.peer) {
            held.idle.insert(connection.idle_since, id);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LIMIT: usize = 8;
    /// All but the reserved eighth.
    const PEER_LIMIT: usize = 7;

    fn peer(last: u8) -> Peer {
        Peer::at(Ipv4Addr::new(10, 0, 0, last).into())
    }

    fn admit(table: &mut Table, from: Peer) -> Option<(u64, CancellationToken)> {
        match table.admit(from) {
            Admission::Admitted(id, evicted) => Some((id, evicted)),
            Admission::PeerLimit | Admission::Full => None,
        }
    }

    /// The open connections.
    fn ids(table: &Table) -> Vec<u64> {
        let mut ids: Vec<u64> = table.connections.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    fn admit_many(table: &mut Table, from: Peer, count: usize) -> Vec<(u64, CancellationToken)> {
        (0..count).map(|_| admit(table, from).unwrap()).collect()
    }

    #[test]
    fn a_new_connection_evicts_the_longest_idle_one() {
        let mut table = Table::new(LIMIT);
        let connections = admit_many(&mut table, peer(1), PEER_LIMIT);
        table.begin_call(1);
        table.begin_call(2);
        table.end_call(2);
        admit(&mut table, peer(1)).unwrap();
        admit(&mut table, peer(1)).unwrap();
        let closed: Vec<u64> =
            connections.iter().filter(|(_, evicted)| evicted.is_cancelled()).map(|(id, _)| *id).collect();
        assert_eq!((closed, ids(&table)), (vec![3, 4], vec![1, 2, 5, 6, 7, 8, 9]));
    }

    #[test]
    fn one_address_never_holds_all_slots_and_its_idle_connections_are_evicted() {
        let mut table = Table::new(LIMIT);
        admit_many(&mut table, peer(1), 3 * LIMIT);
        assert_eq!(table.connections.len(), PEER_LIMIT);
        for last in 2..=4 {
            admit(&mut table, peer(last)).unwrap();
        }
        let held = |last: u8| table.peers.get(&peer(last)).map_or(0, |held| held.slots);
        assert_eq!([held(1), held(2), held(3), held(4)], [5, 1, 1, 1]);
    }

    #[test]
    fn a_connection_with_a_call_is_not_evicted() {
        let mut table = Table::new(LIMIT);
        for (id, _) in admit_many(&mut table, peer(1), PEER_LIMIT) {
            table.begin_call(id);
        }
        assert!(matches!(table.admit(peer(1)), Admission::PeerLimit));
        let (other, _) = admit(&mut table, peer(2)).unwrap();
        table.begin_call(other);
        assert!(matches!(table.admit(peer(3)), Admission::Full));
        assert_eq!(ids(&table), (1..=8).collect::<Vec<_>>());
        assert!(table.end_call(other));
        admit(&mut table, peer(3)).unwrap();
        assert_eq!(ids(&table), [1, 2, 3, 4, 5, 6, 7, 9]);
    }

    #[test]
    fn the_table_is_empty_when_all_connections_are_closed() {
        let mut table = Table::new(LIMIT);
        for (id, _) in admit_many(&mut table, peer(1), 4) {
            table.begin_call(id);
            table.remove(id);
            table.end_call(id);
        }
        assert_eq!((table.connections.len(), table.peers.len()), (0, 0));
    }

    #[test]
    fn one_ipv6_network_is_one_peer_and_a_mapped_address_is_the_ipv4_one() {
        let at = |address: &str| Peer::at(address.parse().unwrap());
        assert_eq!(at("2001:db8:1:2::1"), at("2001:db8:1:2:ffff::9"));
        assert_ne!(at("2001:db8:1:2::1"), at("2001:db8:1:3::1"));
        assert_eq!(at("::ffff:10.0.0.1"), peer(1));
    }

    #[tokio::test]
    async fn a_client_waits_for_a_slot_while_all_are_in_use() {
        let slots = Slots::new(1);
        let first = Arc::new(slots.acquire(peer(1)).await.unwrap());
        let call = first.call();
        let waits = slots.acquire(peer(2));
        tokio::pin!(waits);
        assert!(
            std::future::poll_fn(|context| std::task::Poll::Ready(waits.as_mut().poll(context).is_pending())).await
        );
        drop(call);
        waits.await.unwrap();
        first.evicted().await;
    }
}
