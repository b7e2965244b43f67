//! Communities: marks that routes carry, in three sizes.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A community (RFC 1997): `65014:100`, or the name of one that everybody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Community(u32);

/// An extended community (RFC 4360): `rt:65014:100`, `soo:192.0.2.1:5`, or its eight bytes as
/// `0x0002fdf600000064`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExtendedCommunity(u64);

/// A large community (RFC 8092): `4200000001:1:2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LargeCommunity([u32; 3]);

/// A text that is not a community.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {form}")]
pub struct BadCommunity {
    text: String,
    form: &'static str,
}

impl Community {
    /// "This path goes away soon" (RFC 8326).
    pub const GRACEFUL_SHUTDOWN: Self = Self(0xffff_0000);
    /// Not to leave the neighbour's autonomous system (RFC 1997).
    pub const NO_EXPORT: Self = Self(0xffff_ff01);

    /// Of its four bytes.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Its four bytes.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl ExtendedCommunity {
    /// Of its eight bytes.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its eight bytes.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The target or origin of a route: of two bytes and four, an address and two, or four and two.
    fn specific(subtype: u8, administrator: &str, assigned: &str) -> Option<Self> {
        let subtype = u64::from(subtype) << 48;
        let (kind, value) = if let Ok(address) = administrator.parse::<std::net::Ipv4Addr>() {
            let assigned = u64::from(assigned.parse::<u16>().ok()?);
            (1, u64::from(address.to_bits()) << 16 | assigned)
        } else {
            let asn: u32 = number(administrator)?;
            match u16::try_from(asn) {
                Ok(asn) => {
                    let assigned: u32 = number(assigned)?;
                    (0, u64::from(asn) << 32 | u64::from(assigned))
                }
                Err(_) => {
                    let assigned = u64::from(u16::try_from(number(assigned)?).ok()?);
                    (2, u64::from(asn) << 16 | assigned)
                }
            }
        };
        Some(Self(kind << 56 | subtype | value))
    }
}

impl LargeCommunity {
    /// Of its three numbers.
    #[must_use]
    pub const fn new(parts: [u32; 3]) -> Self {
        Self(parts)
    }

    /// Its three numbers.
    #[must_use]
    pub const fn parts(self) -> [u32; 3] {
        self.0
    }
}

impl FromStr for Community {
    type Err = BadCommunity;

    fn from_str(text: &str) -> Result<Self, BadCommunity> {
        if let Some((_, bits)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(Self(*bits));
        }
        let pair = || {
            let (high, low) = text.split_once(':')?;
            let short = |part| u16::try_from(number(part)?).ok();
            Some(u32::from(short(high)?) << 16 | u32::from(short(low)?))
        };
        pair().map(Self).ok_or_else(|| BadCommunity {
            text: shown(text),
            form: "a community: two numbers up to 65535 as in 65014:100, or graceful-shutdown, \
                   no-export, no-advertise, no-export-subconfed, no-peer, blackhole, accept-own, \
                   llgr-stale, no-llgr",
        })
    }
}

impl FromStr for ExtendedCommunity {
    type Err = BadCommunity;

    fn from_str(text: &str) -> Result<Self, BadCommunity> {
        let read = || {
            if let Some(digits) = text.strip_prefix("0x") {
                let whole = digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
                return u64::from_str_radix(digits, 16)
                    .ok()
                    .filter(|_| whole)
                    .map(Self);
            }
            let (kind, rest) = text.split_once(':')?;
            let (administrator, assigned) = rest.split_once(':')?;
            let subtype = match kind {
                "rt" => TARGET,
                "soo" => ORIGIN,
                _ => return None,
            };
            Self::specific(subtype, administrator, assigned)
        };
        read().ok_or_else(|| BadCommunity {
            text: shown(text),
            form: "an extended community: rt:65014:100, soo:192.0.2.1:5 or 0x and 16 digits",
        })
    }
}

impl FromStr for LargeCommunity {
    type Err = BadCommunity;

    fn from_str(text: &str) -> Result<Self, BadCommunity> {
        let read = || {
            let (first, rest) = text.split_once(':')?;
            let (second, third) = rest.split_once(':')?;
            Some(Self([number(first)?, number(second)?, number(third)?]))
        };
        read().ok_or_else(|| BadCommunity {
            text: shown(text),
            form: "a large community: three numbers up to 4294967295 as in 4200000001:1:2",
        })
    }
}

impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, bits)| *bits == self.0) {
            Some((name, _)) => f.pad(name),
            None => write!(f, "{}:{}", self.0 >> 16, self.0 & 0xffff),
        }
    }
}

impl fmt::Display for ExtendedCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, subtype, a, b, c, d, e, g] = self.0.to_be_bytes();
        let name = match subtype {
            TARGET => "rt",
            ORIGIN => "soo",
            _ => return write!(f, "{:#018x}", self.0),
        };
        let two = u16::from_be_bytes([a, b]);
        let four = u32::from_be_bytes([a, b, c, d]);
        let last = u16::from_be_bytes([e, g]);
        match kind {
            0 => write!(f, "{name}:{two}:{}", u32::from_be_bytes([c, d, e, g])),
            1 => write!(f, "{name}:{}:{last}", std::net::Ipv4Addr::from_bits(four)),
            // With a small number it reads as another community's text.
            2 if four > 0xffff => write!(f, "{name}:{four}:{last}"),
            _ => write!(f, "{:#018x}", self.0),
        }
    }
}

impl fmt::Display for LargeCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c] = self.0;
        write!(f, "{a}:{b}:{c}")
    }
}

/// Reads as text and writes as text.
macro_rules! as_text {
    ($type:ty, $name:literal, $pattern:literal) => {
        impl TryFrom<String> for $type {
            type Error = BadCommunity;

            fn try_from(text: String) -> Result<Self, BadCommunity> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(community: $type) -> Self {
                community.to_string()
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

as_text!(Community, "Community", "^([0-9]+:[0-9]+|[a-z-]+)$");
as_text!(
    ExtendedCommunity,
    "ExtendedCommunity",
    "^((rt|soo):[0-9.]+:[0-9]+|0x[0-9a-fA-F]{16})$"
);
as_text!(LargeCommunity, "LargeCommunity", "^[0-9]+:[0-9]+:[0-9]+$");

/// Digits alone: neither a sign nor white space.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

fn shown(text: &str) -> String {
    text.escape_debug().take(80).collect()
}

/// Those that everybody knows (IANA's registry).
const NAMES: [(&str, u32); 9] = [
    ("graceful-shutdown", 0xffff_0000),
    ("accept-own", 0xffff_0001),
    ("llgr-stale", 0xffff_0006),
    ("no-llgr", 0xffff_0007),
    ("blackhole", 0xffff_029a),
    ("no-export", 0xffff_ff01),
    ("no-advertise", 0xffff_ff02),
    ("no-export-subconfed", 0xffff_ff03),
    ("no-peer", 0xffff_ff04),
];

/// Subtypes of extended communities.
const TARGET: u8 = 2;
const ORIGIN: u8 = 3;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn they_read_as_routers_write_them() {
        let community = |text: &str| text.parse::<Community>().unwrap().bits();
        assert_eq!(community("65014:100"), 0xfdf6_0064);
        assert_eq!(community("no-export"), 0xffff_ff01);
        assert_eq!(community("65535:0"), Community::GRACEFUL_SHUTDOWN.bits());
        let extended = |text: &str| text.parse::<ExtendedCommunity>().unwrap().bits();
        assert_eq!(extended("rt:65014:100"), 0x0002_fdf6_0000_0064);
        assert_eq!(extended("soo:192.0.2.1:5"), 0x0103_c000_0201_0005);
        assert_eq!(extended("rt:4200000001:7"), 0x0202_fa56_ea01_0007);
        assert_eq!(extended("0x0002fdf600000064"), 0x0002_fdf6_0000_0064);
        let large = "4200000001:1:2".parse::<LargeCommunity>().unwrap();
        assert_eq!(large.parts(), [4_200_000_001, 1, 2]);
    }

    #[test]
    fn what_is_none_is_refused() {
        for bad in [
            "", "65536:1", "1:65536", "1", "1:2:3", "+1:2", "-1:2", " 1:2", "no-such",
        ] {
            assert!(bad.parse::<Community>().is_err(), "{bad}");
        }
        for bad in [
            "rt:1",
            "rt:65536:65536",
            "rt:1.2.3.4:65536",
            "xx:1:2",
            "0x1",
            "0x00000000000000000",
        ] {
            assert!(bad.parse::<ExtendedCommunity>().is_err(), "{bad}");
        }
        for bad in ["1:2", "1:2:3:4", "4294967296:1:1", "a:b:c"] {
            assert!(bad.parse::<LargeCommunity>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(small in any::<u32>(), eight in any::<u64>(), large in any::<[u32; 3]>()) {
            let small = Community::from_bits(small);
            prop_assert_eq!(small.to_string().parse(), Ok(small));
            // Half of them of the kinds that have a text.
            let known = eight & 0x0301_ffff_ffff_ffff | 0x0002_0000_0000_0000;
            for bits in [eight, known] {
                let extended = ExtendedCommunity::from_bits(bits);
                prop_assert_eq!(extended.to_string().parse(), Ok(extended));
            }
            let large = LargeCommunity::new(large);
            prop_assert_eq!(large.to_string().parse(), Ok(large));
        }
    }
}
