//! Where a peer is, in few bytes for those that are nowhere yet.

use std::net::SocketAddr;

/// Where a peer is, if that is known. Boxed, since of thousands of peers most were never heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(Option<Box<SocketAddr>>);

impl Place {
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        self.0.as_deref().copied()
    }

    /// Returns where it was. Who moves needs no other box.
    pub(crate) fn replace(&mut self, to: Option<SocketAddr>) -> Option<SocketAddr> {
        let before = self.get();
        match (&mut self.0, to) {
            (Some(place), Some(to)) => **place = to,
            (place, to) => *place = to.map(Box::new),
        }
        before
    }
}

impl From<Option<SocketAddr>> for Place {
    fn from(place: Option<SocketAddr>) -> Self {
        Self(place.map(Box::new))
    }
}
