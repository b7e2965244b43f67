//! The attributes of one UPDATE, as they are found, and what each must look like.

use std::net::Ipv4Addr;

use kedge_core::bgp::{Asn, Community, ExtendedCommunity, LargeCommunity};

use super::{
    Action, AsPath, AttributeCode, Context, Flaw, Origin, asn,
    cursor::{exactly, pieces},
    reach::Multiprotocol,
    width,
};

/// What was found, and could be read.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub origin: Option<Origin>,
    pub as_path: Option<AsPath>,
    pub next_hop: Option<Ipv4Addr>,
    pub med: Option<u32>,
    pub local_pref: Option<u32>,
    pub communities: Vec<Community>,
    pub extended: Vec<ExtendedCommunity>,
    pub large: Vec<LargeCommunity>,
    pub aggregator: Option<Asn>,
    pub as4_path: Option<AsPath>,
    pub reach: Option<Multiprotocol>,
    pub unreach: Option<Multiprotocol>,
}

impl Found {
    /// Takes the value of an attribute that is known here.
    pub(super) fn take(
        &mut self,
        code: AttributeCode,
        value: &[u8],
        context: &Context,
    ) -> Result<(), Flaw> {
        use AttributeCode as Code;

        if is_internal(code) && !context.internal {
            return Err(Flaw::External);
        }
        if matches!(code, Code::AS4_PATH | Code::AS4_AGGREGATOR) && context.four_octet {
            return Err(Flaw::Superfluous);
        }
        match code {
            Code::ORIGIN => {
                let [value] = exactly(value).ok_or(Flaw::Length)?;
                self.origin = Some(Origin::of(value).ok_or(Flaw::Value)?);
            }
            Code::AS_PATH => {
                let path = AsPath::parse(value, width(context)).ok_or(Flaw::Value)?;
                self.as_path = Some(path);
            }
            Code::NEXT_HOP => {
                let address = Ipv4Addr::from(exactly::<4>(value).ok_or(Flaw::Length)?);
                self.next_hop = Some(host(address).ok_or(Flaw::Value)?);
            }
            Code::MED => self.med = Some(number(value)?),
            Code::LOCAL_PREF => self.local_pref = Some(number(value)?),
            Code::ATOMIC_AGGREGATE if value.is_empty() => {}
            Code::ATOMIC_AGGREGATE => return Err(Flaw::Length),
            Code::AGGREGATOR => self.aggregator = Some(aggregator(value, width(context))?),
            Code::COMMUNITIES => {
                self.communities = pieces(value, |bytes| {
                    Community::from_bits(u32::from_be_bytes(bytes))
                })
                .ok_or(Flaw::Length)?;
            }
            Code::ORIGINATOR_ID => number(value).map(drop)?,
            Code::CLUSTER_LIST => pieces(value, |_: [u8; 4]| ())
                .map(drop)
                .ok_or(Flaw::Length)?,
            Code::MP_REACH => self.reach = Some(Multiprotocol::reach(value, context)?),
            Code::MP_UNREACH => self.unreach = Some(Multiprotocol::unreach(value)?),
            Code::EXTENDED_COMMUNITIES => {
                self.extended = pieces(value, |bytes| {
                    ExtendedCommunity::from_bits(u64::from_be_bytes(bytes))
                })
                .ok_or(Flaw::Length)?;
            }
            Code::AS4_PATH => {
                self.as4_path = Some(AsPath::parse(value, 4).ok_or(Flaw::Value)?);
            }
            Code::AS4_AGGREGATOR => aggregator(value, 4).map(drop)?,
            Code::IPV6_EXTENDED_COMMUNITIES => {
                pieces(value, |_: [u8; 20]| ())
                    .map(drop)
                    .ok_or(Flaw::Length)?;
            }
            Code::LARGE_COMMUNITIES => {
                self.large = pieces(value, |[a, b, c, d, e, f, g, h, i, j, k, l]| {
                    let word = |bytes| u32::from_be_bytes(bytes);
                    LargeCommunity::new([
                        word([a, b, c, d]),
                        word([e, f, g, h]),
                        word([i, j, k, l]),
                    ])
                })
                .ok_or(Flaw::Length)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// What is done about a flaw of an attribute (RFC 7606 section 7).
pub(super) const fn action(code: AttributeCode, flaw: Flaw) -> Action {
    use AttributeCode as Code;

    match flaw {
        Flaw::Unrecognized | Flaw::Lengths | Flaw::Prefixes | Flaw::NextHop | Flaw::NoRoute => {
            Action::SessionReset
        }
        Flaw::External | Flaw::Superfluous => Action::AttributeDiscard,
        // Flags are among what makes an attribute with destinations incorrect (RFC 7606 section 5.3).
        Flaw::Flags if code.is_multiprotocol() => Action::SessionReset,
        Flaw::Flags | Flaw::Missing => Action::TreatAsWithdraw,
        Flaw::Repeated if !code.is_multiprotocol() => Action::AttributeDiscard,
        Flaw::Repeated | Flaw::Overrun | Flaw::Length | Flaw::Value => match code {
            Code::MP_REACH | Code::MP_UNREACH => Action::SessionReset,
            Code::ATOMIC_AGGREGATE | Code::AGGREGATOR | Code::AS4_PATH | Code::AS4_AGGREGATOR => {
                Action::AttributeDiscard
            }
            _ => Action::TreatAsWithdraw,
        },
    }
}

/// Whether it is nothing for peers of another autonomous system.
const fn is_internal(code: AttributeCode) -> bool {
    matches!(
        code,
        AttributeCode::LOCAL_PREF | AttributeCode::ORIGINATOR_ID | AttributeCode::CLUSTER_LIST
    )
}

fn number(value: &[u8]) -> Result<u32, Flaw> {
    exactly(value).map(u32::from_be_bytes).ok_or(Flaw::Length)
}

/// The autonomous system that put routes together (RFC 7607: not zero).
fn aggregator(value: &[u8], width: usize) -> Result<Asn, Flaw> {
    let (number, address) = value.split_at_checked(width).ok_or(Flaw::Length)?;
    exactly::<4>(address).ok_or(Flaw::Length)?;
    asn(number).ok_or(Flaw::Value)
}

/// An address that a host can have (RFC 4271 section 6.3).
fn host(address: Ipv4Addr) -> Option<Ipv4Addr> {
    let [first, ..] = address.octets();
    (first != 0 && !address.is_loopback() && first < 224).then_some(address)
}
