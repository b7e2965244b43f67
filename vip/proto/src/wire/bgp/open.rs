//! OPEN (RFC 4271 section 4.2): who a speaker is, and what it can do.

use std::{fmt, time::Duration};

use kedge_core::bgp::{Asn, RouterId};

use super::{
    Capability, ExtendedNextHop, Family,
    capability::Malformed,
    cursor::Cursor,
    frame::{self, Kind},
    notification::{Notification, Refusal, codes},
};

/// An OPEN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The speaker's autonomous system, of whatever length.
    pub asn: Asn,
    /// After how much silence it takes the other for gone.
    pub hold_time: HoldTime,
    /// Its name.
    pub router_id: RouterId,
    /// What it can do, in its order.
    pub capabilities: Vec<Capability>,
}

/// After how much silence a peer is gone: whole seconds, 3 to 65535, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldTime(u16);

impl HoldTime {
    /// Never; nobody says that he is there.
    pub const NEVER: Self = Self(0);
    /// The shortest there is.
    pub const LEAST: Self = Self(3);
    /// 9 s.
    pub const DEFAULT: Self = Self(9);

    /// That many seconds, unless it is one or two.
    #[must_use]
    pub const fn from_secs(seconds: u16) -> Option<Self> {
        match seconds {
            1 | 2 => None,
            _ => Some(Self(seconds)),
        }
    }

    /// In seconds; zero is never.
    #[must_use]
    pub const fn secs(self) -> u16 {
        self.0
    }

    /// As a duration, unless it is never.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        (self.0 > 0).then(|| Duration::from_secs(u64::from(self.0)))
    }
}

impl fmt::Display for HoldTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}

impl Open {
    /// Whether it can do that.
    #[must_use]
    pub fn can(&self, capability: &Capability) -> bool {
        self.capabilities.contains(capability)
    }

    /// Whether it exchanges routes of a kind: those it says, and of IPv4 where it says none
    /// (RFC 4760 section 8).
    #[must_use]
    pub fn speaks(&self, family: Family) -> bool {
        let mut all = self.capabilities.iter();
        let says_any = all.any(|one| matches!(one, Capability::Multiprotocol(..)));
        self.can(&Capability::of(family)) || (!says_any && family == Family::Ipv4)
    }

    /// Whether AS numbers have four bytes on its side.
    #[must_use]
    pub fn four_octet(&self) -> bool {
        let mut all = self.capabilities.iter();
        all.any(|one| one.four_octet_as().is_some())
    }

    /// Whether it takes next hops of IPv6 for routes of IPv4.
    #[must_use]
    pub fn extended_next_hop(&self) -> bool {
        self.capabilities.iter().any(|one| {
            matches!(one, Capability::ExtendedNextHop(ways) if ways.contains(&ExtendedNextHop::IPV4_OVER_IPV6))
        })
    }

    /// Whether a NOTIFICATION is a restart to it (RFC 8538).
    #[must_use]
    pub fn keeps_at_notification(&self) -> bool {
        self.capabilities.iter().any(|one| {
            matches!(
                one,
                Capability::GracefulRestart {
                    notification: true,
                    ..
                }
            )
        })
    }

    /// Whether it says that it may restart (RFC 4724).
    #[must_use]
    pub fn restarts(&self) -> bool {
        let mut all = self.capabilities.iter();
        all.any(|one| matches!(one, Capability::GracefulRestart { .. }))
    }

    /// Reads what follows the header.
    ///
    /// # Errors
    ///
    /// RFC 4271 section 6.2, as far as it needs no configuration.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let (head, parameters) = body.split_first_chunk().ok_or_else(|| refused(0))?;
        let [version, a0, a1, h0, h1, i0, i1, i2, i3, length] = *head;
        if version != VERSION {
            let ours = u16::from(VERSION).to_be_bytes().to_vec();
            return Err(Notification::new(codes::OPEN, codes::VERSION, ours).into());
        }
        let capabilities = Self::parameters(length, parameters)?;
        let short = u16::from_be_bytes([a0, a1]);
        let long = capabilities.iter().find_map(Capability::four_octet_as);
        // RFC 6793 section 4.1 lets what stands beside the capability be anything.
        let asn = long.or_else(|| Asn::new(u32::from(short)));
        let asn = asn.ok_or_else(|| refused(codes::PEER_AS))?;
        let hold_time = HoldTime::from_secs(u16::from_be_bytes([h0, h1]));
        let hold_time = hold_time.ok_or_else(|| refused(codes::HOLD_TIME))?;
        let router_id = RouterId::new(u32::from_be_bytes([i0, i1, i2, i3]));
        let router_id = router_id.ok_or_else(|| refused(codes::IDENTIFIER))?;
        Ok(Self {
            asn,
            hold_time,
            router_id,
            capabilities,
        })
    }

    /// The capabilities in the optional parameters, which have lengths of one byte, or of two where
    /// the first of them says so (RFC 9072).
    fn parameters(length: u8, bytes: &[u8]) -> Result<Vec<Capability>, Refusal> {
        let is_extended = length != 0 && bytes.first() == Some(&EXTENDED);
        let declared = if is_extended {
            let &[_, high, low, ref rest @ ..] = bytes else {
                return Err(refused(0));
            };
            let length = usize::from(u16::from_be_bytes([high, low]));
            (rest.len() == length).then_some(rest)
        } else {
            (bytes.len() == usize::from(length)).then_some(bytes)
        };
        let mut cursor = Cursor::new(declared.ok_or_else(|| refused(0))?);
        let mut capabilities = Vec::new();
        while !cursor.is_empty() {
            let kind = cursor.u8().ok_or_else(|| refused(0))?;
            let length = if is_extended {
                cursor.u16()
            } else {
                cursor.u8().map(u16::from)
            };
            let value = length.and_then(|length| cursor.take(usize::from(length)));
            let value = value.ok_or_else(|| refused(0))?;
            if kind != CAPABILITIES {
                return Err(refused(codes::PARAMETER));
            }
            Capability::read_all(value, &mut capabilities).map_err(
                |malformed| match malformed {
                    Malformed::Length => refused(0),
                    Malformed::Asn => refused(codes::PEER_AS),
                },
            )?;
        }
        Ok(capabilities)
    }

    /// Appends the message. Each capability is a parameter of its own, as the oldest readers want
    /// it; where that is more than one byte can say, lengths have two (RFC 9072).
    pub fn put(&self, out: &mut Vec<u8>) {
        let each = self.capabilities.iter().map(|capability| {
            let mut value = Vec::new();
            capability.put(&mut value);
            value
        });
        let each: Vec<Vec<u8>> = each.collect();
        let short: usize = each.iter().map(|value| value.len() + 2).sum();
        let is_extended =
            short > usize::from(u8::MAX) - 1 || each.iter().any(|value| value.len() > 255);
        let mut parameters = Vec::new();
        for value in &each {
            parameters.push(CAPABILITIES);
            let length = u16::try_from(value.len()).unwrap_or_default();
            let [high, low] = length.to_be_bytes();
            if is_extended {
                parameters.push(high);
            }
            parameters.push(low);
            parameters.extend(value);
        }
        let mut body = vec![VERSION];
        body.extend(self.asn.short().to_be_bytes());
        body.extend(self.hold_time.0.to_be_bytes());
        body.extend(self.router_id.get().to_be_bytes());
        if is_extended {
            body.extend([255, EXTENDED]);
            body.extend(
                u16::try_from(parameters.len())
                    .unwrap_or_default()
                    .to_be_bytes(),
            );
        } else {
            body.push(u8::try_from(parameters.len()).unwrap_or_default());
        }
        body.extend(parameters);
        frame::put(out, Kind::Open, &body);
    }
}

fn refused(subcode: u8) -> Refusal {
    Refusal::from(Notification::new(codes::OPEN, subcode, Vec::new()))
}

const VERSION: u8 = 4;
/// The parameter that holds capabilities (RFC 5492).
const CAPABILITIES: u8 = 2;
/// The parameter that says that lengths have two bytes (RFC 9072).
const EXTENDED: u8 = 255;
