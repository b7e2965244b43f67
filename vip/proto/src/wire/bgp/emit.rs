//! Writing messages: as few as hold what there is to say, none longer than may be.

use super::{
    AttributeCode, Attributes, Family, HEADER_LEN, MAX_LEN, NextHop, Prefix,
    attribute::{EXTENDED_LENGTH, OPTIONAL},
    frame::{self, Kind},
};

/// Whole messages, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// How many they are.
    pub count: u32,
}

/// No message holds so many attributes beside a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the attributes of a route do not fit into a message")]
pub struct TooLarge;

impl Messages {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds others.
    pub fn extend(&mut self, others: Self) {
        self.bytes.extend(others.bytes);
        self.count = self.count.saturating_add(others.count);
    }

    fn push(&mut self, kind: Kind, body: &[u8]) {
        frame::put(&mut self.bytes, kind, body);
        self.count = self.count.saturating_add(1);
    }
}

/// A KEEPALIVE.
#[must_use]
pub fn keepalive() -> Messages {
    let mut messages = Messages::default();
    messages.push(Kind::Keepalive, &[]);
    messages
}

/// All routes of a family were said (RFC 4724 section 2).
#[must_use]
pub fn end_of_rib(family: Family) -> Messages {
    let mut messages = Messages::default();
    let mut attributes = Vec::new();
    if family == Family::Ipv6 {
        put(&mut attributes, AttributeCode::MP_UNREACH, &numbers(family));
    }
    messages.push(Kind::Update, &update(&[], &attributes, &[]));
    messages
}

/// Takes routes back. Each family has its messages.
#[must_use]
pub fn withdraw(prefixes: &[Prefix]) -> Messages {
    let mut messages = Messages::default();
    for family in Family::ALL {
        // With the longest header an attribute has.
        let room = ROOM - if family == Family::Ipv6 { 4 + 3 } else { 0 };
        for chunk in chunks(prefixes, family, room) {
            let body = if family == Family::Ipv4 {
                update(&chunk, &[], &[])
            } else {
                let mut value = numbers(family);
                value.extend(chunk);
                let mut attributes = Vec::new();
                put(&mut attributes, AttributeCode::MP_UNREACH, &value);
                update(&[], &attributes, &[])
            };
            messages.push(Kind::Update, &body);
        }
    }
    messages
}

/// Says that there are routes to `prefixes` over `next_hop`; those that cannot have it, of IPv6 over
/// IPv4, are left out. Destinations stand first where they are an attribute (RFC 7606 section 5.1).
///
/// # Errors
///
/// There is too much to say of them.
pub fn announce(
    attributes: &Attributes,
    next_hop: NextHop,
    prefixes: &[Prefix],
    four_octet: bool,
) -> Result<Messages, TooLarge> {
    let mut messages = Messages::default();
    for family in Family::ALL {
        let hop = match (family, next_hop) {
            (Family::Ipv4, NextHop::V4(address)) => Some(address),
            (Family::Ipv4 | Family::Ipv6, NextHop::V6(..)) => None,
            (Family::Ipv6, NextHop::V4(_)) => continue,
        };
        let mut others = Vec::new();
        attributes.put(&mut others, hop, four_octet);
        let mut head = numbers(family);
        next_hop.put(&mut head);
        head.push(0);
        let used = others.len() + if hop.is_some() { 0 } else { 4 + head.len() };
        let room = ROOM.checked_sub(used).ok_or(TooLarge)?;
        if room < usize::from(family.bits()) / 8 + 1 {
            return Err(TooLarge);
        }
        for chunk in chunks(prefixes, family, room) {
            let body = if hop.is_some() {
                update(&[], &others, &chunk)
            } else {
                let mut value = head.clone();
                value.extend(chunk);
                let mut all = Vec::new();
                put(&mut all, AttributeCode::MP_REACH, &value);
                all.extend(&others);
                update(&[], &all, &[])
            };
            messages.push(Kind::Update, &body);
        }
    }
    Ok(messages)
}

impl Attributes {
    fn put(&self, out: &mut Vec<u8>, next_hop: Option<std::net::Ipv4Addr>, four_octet: bool) {
        put(out, AttributeCode::ORIGIN, &[self.origin.code()]);
        let mut path = Vec::new();
        self.as_path.put(&mut path, if four_octet { 4 } else { 2 });
        put(out, AttributeCode::AS_PATH, &path);
        if let Some(address) = next_hop {
            put(out, AttributeCode::NEXT_HOP, &address.octets());
        }
        if let Some(med) = self.med {
            put(out, AttributeCode::MED, &med.to_be_bytes());
        }
        if let Some(preference) = self.local_pref {
            put(out, AttributeCode::LOCAL_PREF, &preference.to_be_bytes());
        }
        let some = |out: &mut Vec<u8>, code, value: Vec<u8>| {
            if !value.is_empty() {
                put(out, code, &value);
            }
        };
        let bytes = self
            .communities
            .iter()
            .flat_map(|one| one.bits().to_be_bytes());
        some(out, AttributeCode::COMMUNITIES, bytes.collect());
        let bytes = self
            .extended
            .iter()
            .flat_map(|one| one.bits().to_be_bytes());
        some(out, AttributeCode::EXTENDED_COMMUNITIES, bytes.collect());
        if !four_octet && self.as_path.is_long() {
            let mut path = Vec::new();
            self.as_path.put(&mut path, 4);
            put(out, AttributeCode::AS4_PATH, &path);
        }
        let parts = self.large.iter().flat_map(|one| one.parts());
        let bytes = parts.flat_map(u32::to_be_bytes);
        some(out, AttributeCode::LARGE_COMMUNITIES, bytes.collect());
    }
}

/// Appends an attribute. What is longer than any message is cut, and fits into none.
fn put(out: &mut Vec<u8>, code: AttributeCode, value: &[u8]) {
    let AttributeCode(number) = code;
    let flags = code.flags().unwrap_or(OPTIONAL);
    match u8::try_from(value.len()) {
        Ok(length) => out.extend([flags, number, length]),
        Err(_) => {
            let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
            out.extend([flags | EXTENDED_LENGTH, number]);
            out.extend(length.to_be_bytes());
        }
    }
    out.extend(value);
}

/// The body of an UPDATE.
fn update(withdrawn: &[u8], attributes: &[u8], announced: &[u8]) -> Vec<u8> {
    let length = |part: &[u8]| u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut body = Vec::with_capacity(4 + withdrawn.len() + attributes.len() + announced.len());
    body.extend(length(withdrawn));
    body.extend(withdrawn);
    body.extend(length(attributes));
    body.extend(attributes);
    body.extend(announced);
    body
}

fn numbers(family: Family) -> Vec<u8> {
    let mut numbers = family.afi().to_be_bytes().to_vec();
    numbers.push(Family::UNICAST);
    numbers
}

/// Destinations of a family, in pieces of at most `room` bytes.
fn chunks(prefixes: &[Prefix], family: Family, room: usize) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    let mut chunk = Vec::new();
    for prefix in prefixes.iter().filter(|prefix| prefix.family() == family) {
        if chunk.len() + prefix.len() > room {
            chunks.push(std::mem::take(&mut chunk));
        }
        prefix.put(&mut chunk);
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}

/// What the parts of an UPDATE have together, beside their two lengths.
const ROOM: usize = MAX_LEN - HEADER_LEN - 4;
