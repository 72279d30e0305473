//! Who may stay connected.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The part of all places that is kept from the address that has all others.
const KEPT_FOR_OTHERS: usize = 8;

/// Who connects: an IPv4 address, or an IPv6 network, of which one host may use any address.
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

pub(crate) struct Places {
    table: Mutex<Table>,
    /// A place became free, or could be taken away.
    eased: Notify,
}

/// A connection's place. It is free again when this is dropped.
pub struct Place {
    places: Arc<Places>,
    id: u64,
    taken_away: CancellationToken,
}

/// A call under way, for which its connection is needed.
#[must_use]
pub struct Call(Arc<Place>);

impl Places {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { table: Mutex::new(Table::new(limit)), eased: Notify::new() })
    }

    /// Waits until there is a place. `None` if the peer has as many as it may have, all with a call.
    pub(crate) async fn take(self: &Arc<Self>, peer: Peer) -> Option<Place> {
        loop {
            let eased = self.eased.notified();
            let entered = self.lock().enter(peer);
            match entered {
                Entered::At(id, taken_away) => return Some(Place { places: Arc::clone(self), id, taken_away }),
                Entered::TooManyOfOne => return None,
                Entered::AllInUse => eased.await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Keeps the place until the call is dropped.
    pub fn call(self: &Arc<Self>) -> Call {
        self.places.lock().begin_call(self.id);
        Call(Arc::clone(self))
    }

    /// Completes when another connection has got the place.
    pub(crate) async fn taken_away(&self) {
        self.taken_away.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().leave(self.id);
        self.places.eased.notify_one();
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.0.places.lock().end_call(self.0.id) {
            self.0.places.eased.notify_one();
        }
    }
}

/// Which connections there are, and which of them have no call.
struct Table {
    limit: usize,
    connections: HashMap<u64, Connection>,
    peers: HashMap<Peer, Holdings>,
    next_id: u64,
    /// Counts what happens, so that it is known what has been without a call for the longest.
    moment: u64,
}

struct Connection {
    peer: Peer,
    calls: usize,
    /// Since when it has no call; means nothing while it has one.
    idle_since: u64,
    taken_away: CancellationToken,
}

#[derive(Default)]
struct Holdings {
    places: usize,
    /// Connections without a call, by the moment from which on they had none.
    idle: BTreeMap<u64, u64>,
}

enum Entered {
    At(u64, CancellationToken),
    TooManyOfOne,
    AllInUse,
}

impl Table {
    fn new(limit: usize) -> Self {
        Self { limit, connections: HashMap::new(), peers: HashMap::new(), next_id: 0, moment: 0 }
    }

    fn enter(&mut self, peer: Peer) -> Entered {
        let most_of_one = self.limit - self.limit / KEPT_FOR_OTHERS;
        let held = self.peers.get(&peer).map_or(0, |holdings| holdings.places);
        if held >= most_of_one && !self.take_away_from(peer) {
            return Entered::TooManyOfOne;
        }
        if self.connections.len() >= self.limit && !self.idlest_peer().is_some_and(|peer| self.take_away_from(peer)) {
            return Entered::AllInUse;
        }
        self.next_id += 1;
        self.moment += 1;
        let (id, idle_since, taken_away) = (self.next_id, self.moment, CancellationToken::new());
        let connection = Connection { peer, calls: 0, idle_since, taken_away: taken_away.clone() };
        self.connections.insert(id, connection);
        let holdings = self.peers.entry(peer).or_default();
        holdings.places += 1;
        holdings.idle.insert(idle_since, id);
        Entered::At(id, taken_away)
    }

    fn idlest_peer(&self) -> Option<Peer> {
        self.peers.iter().max_by_key(|(_, holdings)| holdings.idle.len()).map(|(peer, _)| *peer)
    }

    /// Closes the peer's connection that has been without a call for the longest. Says whether there is one.
    fn take_away_from(&mut self, peer: Peer) -> bool {
        let oldest = self.peers.get(&peer).and_then(|holdings| holdings.idle.first_key_value()).map(|(_, id)| *id);
        let Some(connection) = oldest.and_then(|id| self.leave(id)) else { return false };
        connection.taken_away.cancel();
        true
    }

    /// Does nothing for a connection whose place was taken away.
    fn leave(&mut self, id: u64) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        if let Some(holdings) = self.peers.get_mut(&connection.peer) {
            holdings.places -= 1;
            if connection.calls == 0 {
                holdings.idle.remove(&connection.idle_since);
            }
            if holdings.places == 0 {
                self.peers.remove(&connection.peer);
            }
        }
        Some(connection)
    }

    fn begin_call(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.calls += 1;
        if connection.calls == 1
            && let Some(holdings) = self.peers.get_mut(&connection.peer)
        {
            holdings.idle.remove(&connection.idle_since);
        }
    }

    /// Says whether the connection has no call now.
    fn end_call(&mut self, id: u64) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        connection.calls -= 1;
        if connection.calls > 0 {
            return false;
        }
        self.moment += 1;
        connection.idle_since = self.moment;
        if let Some(holdings) = self.peers.get_mut(&connection.peer) {
            holdings.idle.insert(connection.idle_since, id);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LIMIT: usize = 8;
    /// All but the eighth that is kept for others.
    const MOST_OF_ONE: usize = 7;

    fn peer(last: u8) -> Peer {
        Peer::at(Ipv4Addr::new(10, 0, 0, last).into())
    }

    fn enter(table: &mut Table, from: Peer) -> Option<(u64, CancellationToken)> {
        match table.enter(from) {
            Entered::At(id, taken_away) => Some((id, taken_away)),
            Entered::TooManyOfOne | Entered::AllInUse => None,
        }
    }

    /// The connections that are still there.
    fn ids(table: &Table) -> Vec<u64> {
        let mut ids: Vec<u64> = table.connections.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    fn full_of(table: &mut Table, from: Peer, count: usize) -> Vec<(u64, CancellationToken)> {
        (0..count).map(|_| enter(table, from).unwrap()).collect()
    }

    #[test]
    fn a_newcomer_gets_the_place_that_was_longest_without_a_call() {
        let mut table = Table::new(LIMIT);
        let connections = full_of(&mut table, peer(1), MOST_OF_ONE);
        table.begin_call(1);
        table.begin_call(2);
        table.end_call(2);
        enter(&mut table, peer(1)).unwrap();
        enter(&mut table, peer(1)).unwrap();
        let closed: Vec<u64> =
            connections.iter().filter(|(_, taken_away)| taken_away.is_cancelled()).map(|(id, _)| *id).collect();
        assert_eq!((closed, ids(&table)), (vec![3, 4], vec![1, 2, 5, 6, 7, 8, 9]));
    }

    #[test]
    fn an_address_that_has_most_gives_way_to_others_and_never_has_all() {
        let mut table = Table::new(LIMIT);
        full_of(&mut table, peer(1), 3 * LIMIT);
        assert_eq!(table.connections.len(), MOST_OF_ONE);
        for last in 2..=4 {
            enter(&mut table, peer(last)).unwrap();
        }
        let held = |last: u8| table.peers.get(&peer(last)).map_or(0, |holdings| holdings.places);
        assert_eq!([held(1), held(2), held(3), held(4)], [5, 1, 1, 1]);
    }

    #[test]
    fn a_connection_with_a_call_stays() {
        let mut table = Table::new(LIMIT);
        for (id, _) in full_of(&mut table, peer(1), MOST_OF_ONE) {
            table.begin_call(id);
        }
        assert!(matches!(table.enter(peer(1)), Entered::TooManyOfOne));
        let (other, _) = enter(&mut table, peer(2)).unwrap();
        table.begin_call(other);
        assert!(matches!(table.enter(peer(3)), Entered::AllInUse));
        assert_eq!(ids(&table), (1..=8).collect::<Vec<_>>());
        assert!(table.end_call(other));
        enter(&mut table, peer(3)).unwrap();
        assert_eq!(ids(&table), [1, 2, 3, 4, 5, 6, 7, 9]);
    }

    #[test]
    fn the_table_is_empty_when_all_have_left() {
        let mut table = Table::new(LIMIT);
        for (id, _) in full_of(&mut table, peer(1), 4) {
            table.begin_call(id);
            table.leave(id);
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
    async fn a_client_waits_for_a_place_while_all_are_in_use() {
        let places = Places::new(1);
        let first = Arc::new(places.take(peer(1)).await.unwrap());
        let call = first.call();
        let waits = places.take(peer(2));
        tokio::pin!(waits);
        assert!(
            std::future::poll_fn(|context| std::task::Poll::Ready(waits.as_mut().poll(context).is_pending())).await
        );
        drop(call);
        waits.await.unwrap();
        first.taken_away().await;
    }
}
