//! Limits the unfinished connections of a port. Each of them has a *seat*. If a port has no free seat for a new
//! connection, this module decides which connection loses its seat and is closed.
//!
//! A new connection always gets a seat. If no seat is free, the unknown address with the most seats loses its oldest
//! seat. If several addresses have equally many, the one of them that has the oldest seat loses it. So a connection
//! that finishes soon is served, no matter how many unknown addresses connect, and an address with few seats does not
//! lose a seat to addresses with many.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// Longest time for which a connection may be unfinished while the port has more than half of the allowed number of
/// unfinished connections.
pub(super) const PRESSED: Duration = Duration::from_secs(3);

/// Whether an address is known, and the address. Known addresses are counted separately from unknown addresses.
type Of = (bool, Option<IpAddr>);

struct Taken<T> {
    of: Of,
    since: Duration,
    value: T,
}

/// The seats of a port.
pub(super) struct Seats<T> {
    most: usize,
    /// Limit on the seats that unknown addresses may take.
    most_of_strangers: usize,
    known: BTreeSet<IpAddr>,
    learned: BTreeSet<IpAddr>,
    /// The taken seats, in the order in which they were taken.
    taken: BTreeMap<u64, Taken<T>>,
    /// Number of taken seats by address. Entries that would be 0 are removed.
    counts: BTreeMap<Of, usize>,
    strangers: usize,
    next: u64,
}

impl<T> Seats<T> {
    /// Creates `most` free seats. `reserved` of them are not available to unknown addresses.
    pub(super) fn new(most: usize, reserved: usize, known: BTreeSet<IpAddr>) -> Seats<T> {
        let (learned, taken, counts) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        Seats { most, most_of_strangers: most - reserved, known, learned, taken, counts, strangers: 0, next: 0 }
    }

    /// Returns whether unfinished connections from an address may use the places that are reserved for known addresses.
    /// This is so if it is this host's own address, an address in the set file, or an address from which a node or an
    /// operator has connected. Loopback addresses other than the host's own prove nothing.
    fn is_known(&self, address: Option<IpAddr>) -> bool {
        let is_own = |address: IpAddr| match address {
            IpAddr::V4(address) => address == std::net::Ipv4Addr::LOCALHOST,
            // The network of ::1.
            IpAddr::V6(address) => u128::from(address) >> 64 == 0,
        };
        address
            .is_none_or(|address| is_own(address) || self.known.contains(&address) || self.learned.contains(&address))
    }

    /// Takes a seat for a connection from `address`, and returns the seat's id. Passes the values of the seats that are
    /// lost because of this to `drop`.
    pub(super) fn take(&mut self, address: Option<IpAddr>, value: T, now: Duration, mut drop: impl FnMut(T)) -> u64 {
        let is_known = self.is_known(address);
        while self.is_pressed() && self.taken.first_key_value().is_some_and(|(_, taken)| taken.since + PRESSED <= now) {
            let oldest = self.taken.first_key_value().map(|(id, _)| *id);
            oldest.and_then(|id| self.leave(id)).into_iter().for_each(&mut drop);
        }
        let full = self.taken.len() >= self.most;
        let loser = match is_known {
            false if full || self.strangers >= self.most_of_strangers => self.loser(self.strangers == 0),
            true if full => self.loser(self.strangers == 0),
            _ => None,
        };
        loser.and_then(|id| self.leave(id)).into_iter().for_each(drop);
        let (id, of) = (self.next, (is_known, address));
        self.next += 1;
        self.taken.insert(id, Taken { of, since: now, value });
        *self.counts.entry(of).or_default() += 1;
        self.strangers += usize::from(!is_known);
        id
    }

    fn is_pressed(&self) -> bool {
        self.taken.len() * 2 > self.most
    }

    /// Returns the oldest seat of the address with the most seats. Considers only known addresses if `known` is true,
    /// and only unknown addresses otherwise.
    fn loser(&self, known: bool) -> Option<u64> {
        let of_kind = || self.counts.iter().filter(|((is_known, _), _)| *is_known == known);
        let most = of_kind().map(|(_, count)| *count).max()?;
        self.taken.iter().find(|(_, taken)| taken.of.0 == known && self.counts[&taken.of] == most).map(|(id, _)| *id)
    }

    /// Frees a seat, and returns its value; `None` if the seat was already lost.
    pub(super) fn leave(&mut self, id: u64) -> Option<T> {
        let Taken { of, value, .. } = self.taken.remove(&id)?;
        let count = self.counts.get_mut(&of).expect("counted when it was taken");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&of);
        }
        self.strangers -= usize::from(!of.0);
        Some(value)
    }

    /// Adds the address of a seat to the known addresses, unless `most` addresses have already been added.
    pub(super) fn learn(&mut self, id: u64, most: usize) {
        if let Some(address) = self.taken.get(&id).and_then(|taken| taken.of.1)
            && self.learned.len() < most
        {
            self.learned.insert(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    /// Takes a seat at the second `second` for a connection whose address ends with `last`. Returns the numbers of the
    /// seats that were lost because of this.
    fn take(seats: &mut Seats<u64>, last: u8, second: u64) -> Vec<u64> {
        let (mut lost, value) = (Vec::new(), seats.next);
        seats.take(address(last), value, Duration::from_secs(second), |loser| lost.push(loser));
        lost
    }

    #[test]
    fn the_oldest_of_the_address_with_most_is_dropped() {
        let mut seats = Seats::new(4, 0, BTreeSet::new());
        for last in [1, 2, 2, 2] {
            assert_eq!(take(&mut seats, last, 0), [0; 0]);
        }
        assert_eq!(take(&mut seats, 3, 0), [1], "address 2 has three");
        assert_eq!(take(&mut seats, 4, 0), [2]);
        assert_eq!(take(&mut seats, 5, 0), [0], "each has one: the oldest");
        assert_eq!(take(&mut seats, 5, 0), [3]);
        assert_eq!(take(&mut seats, 5, 0), [6], "its own");
    }

    #[test]
    fn strangers_leave_the_reserve_to_known_addresses() {
        let mut seats = Seats::new(4, 2, address(9).into_iter().collect());
        assert_eq!(take(&mut seats, 1, 0), [0; 0]);
        assert_eq!(take(&mut seats, 2, 0), [0; 0]);
        assert_eq!(take(&mut seats, 3, 0), [0], "strangers have two");
        assert_eq!((take(&mut seats, 9, 0), take(&mut seats, 9, 0)), (vec![], vec![]));
        assert_eq!(take(&mut seats, 9, 0), [1], "a stranger leaves before a known address");
        assert_eq!(take(&mut seats, 9, 0), [2]);
        assert_eq!(take(&mut seats, 9, 0), [3], "there is no stranger left");
        assert_eq!(take(&mut seats, 1, 0), [4], "a newcomer is served even then");
        // An address from which a node came is known from then on.
        seats.learn(8, 1);
        assert!(seats.is_known(address(1)) && !seats.is_known(address(2)));
        for own in ["127.0.0.1", "::1"] {
            assert!(seats.is_known(Some(own.parse().unwrap())), "{own}");
        }
        assert!(!seats.is_known(Some("127.0.0.2".parse().unwrap())));
    }

    #[test]
    fn under_pressure_unfinished_connections_have_less_time() {
        let mut seats = Seats::new(4, 0, BTreeSet::new());
        assert_eq!((take(&mut seats, 1, 0), take(&mut seats, 2, 1)), (vec![], vec![]));
        assert_eq!(take(&mut seats, 3, 9), [0; 0], "half of them: no pressure");
        assert_eq!(take(&mut seats, 4, 9), [0], "one is enough: half of them are left");
    }

    proptest! {
        /// Checks for any sequence of connections that the limits hold and that a new connection gets a seat. If no
        /// other connection has the address of the new connection, it keeps its seat at least while fewer connections
        /// follow than there are seats for unknown addresses.
        #[test]
        fn a_flood_shuts_no_newcomer_out(
            flood in prop::collection::vec(2..8_u8, 0..200), more in prop::collection::vec(2..8_u8, 0..11),
        ) {
            let mut seats = Seats::new(16, 4, BTreeSet::new());
            for last in flood {
                take(&mut seats, last, 0);
                prop_assert!(seats.strangers <= 12 && seats.taken.len() == seats.strangers);
                prop_assert_eq!(seats.counts.values().sum::<usize>(), seats.taken.len());
            }
            let mine = seats.next;
            take(&mut seats, 1, 0);
            for last in more {
                take(&mut seats, last, 0);
                prop_assert!(seats.taken.contains_key(&mine));
            }
            prop_assert_eq!(seats.leave(mine), Some(mine));
            prop_assert_eq!(seats.leave(mine), None);
        }
    }
}
