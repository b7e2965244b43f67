//! UPDATE (RFC 4271 section 4.3), read as RFC 7606 wants it.

use kedge_core::bgp::Asn;

use super::{
    Action, AttributeCode, Attributes, Context, Family, Fault, Flaw, NextHop, Prefix,
    attribute::{EXTENDED_LENGTH, OPTIONAL, TRANSITIVE},
    cursor::Cursor,
    found::{Found, action},
    notification::{Notification, Refusal, codes},
    reach::Multiprotocol,
};

/// An UPDATE that does not end the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Destinations that the peer takes back.
    pub withdrawn: Vec<Prefix>,
    /// Routes that it has.
    pub announced: Vec<Route>,
    /// What those say; there if any are.
    pub attributes: Option<Attributes>,
    /// Destinations that it announced, and that count as taken back for the message's flaws.
    pub refused: Vec<Prefix>,
    /// It was all of that kind (RFC 4724 section 2).
    pub end_of_rib: Option<Family>,
    /// It holds routes of a kind that nobody here knows.
    pub foreign: bool,
    /// What is wrong with it, in the order it was found.
    pub faults: Vec<Fault>,
}

/// A destination, and where packets to it go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// The destination.
    pub prefix: Prefix,
    /// Where packets to it go.
    pub next_hop: NextHop,
}

impl Update {
    /// What is done about its flaws: the strongest of each one's.
    #[must_use]
    pub fn action(&self) -> Option<Action> {
        self.faults.iter().map(|fault| fault.action).max()
    }

    /// Reads what follows the header.
    ///
    /// # Errors
    ///
    /// The session has to end: what the message is about cannot be known (RFC 7606 section 3 j).
    pub(super) fn parse(body: &[u8], context: &Context) -> Result<Self, Refusal> {
        let mut cursor = Cursor::new(body);
        let lengths = || reset(None, Flaw::Lengths, codes::ATTRIBUTE_LIST, Vec::new());
        let mut part = || {
            let length = cursor.u16()?;
            cursor.take(usize::from(length))
        };
        let withdrawn = part().ok_or_else(lengths)?;
        let attributes = part().ok_or_else(lengths)?;
        let announced = cursor.rest();

        let mut update = Self::default();
        let network = || reset(None, Flaw::Prefixes, codes::NETWORK, Vec::new());
        let four = Family::Ipv4;
        Prefix::read_all(four, withdrawn, &mut update.withdrawn).ok_or_else(network)?;
        let mut classic = Vec::new();
        Prefix::read_all(four, announced, &mut classic).ok_or_else(network)?;

        let is_minimal = body.len() == 4;
        let mut reading = Reading {
            context,
            found: Found::default(),
            faults: Vec::new(),
            seen: Seen::default(),
        };
        reading.attributes(attributes)?;
        reading.conclude(update, classic, is_minimal)
    }
}

/// An UPDATE while its attributes are read.
struct Reading<'a> {
    context: &'a Context,
    found: Found,
    faults: Vec<Fault>,
    seen: Seen,
}

/// The attributes that were seen.
#[derive(Default)]
struct Seen([u128; 2]);

impl Seen {
    /// Whether it is there again.
    fn again(&mut self, AttributeCode(code): AttributeCode) -> bool {
        let [low, high] = &mut self.0;
        let word = if code < 128 { low } else { high };
        let bit = 1_u128 << (code & 127);
        let before = *word;
        *word |= bit;
        before & bit != 0
    }

    fn has(&self, AttributeCode(code): AttributeCode) -> bool {
        let [low, high] = self.0;
        let word = if code < 128 { low } else { high };
        word >> (code & 127) & 1 == 1
    }

    /// Whether any is there but for destinations that are taken back.
    fn any_but_unreach(&self) -> bool {
        let [low, high] = self.0;
        let AttributeCode(unreach) = AttributeCode::MP_UNREACH;
        high != 0 || low & !(1 << unreach) != 0
    }
}

impl Reading<'_> {
    fn attributes(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            let whole = cursor.rest();
            let Some((flags, code, value)) = attribute(&mut cursor) else {
                // Where they end is known from elsewhere (RFC 7606 section 4), what is in one that
                // has destinations is not.
                let code = whole.get(1).copied().map(AttributeCode);
                if code.is_some_and(AttributeCode::is_multiprotocol) {
                    let data = whole.to_vec();
                    return Err(reset(code, Flaw::Overrun, codes::OPTIONAL, data));
                }
                self.note(code, Flaw::Overrun, Action::TreatAsWithdraw);
                return Ok(());
            };
            let length = whole.len().saturating_sub(cursor.rest().len());
            let whole = whole.get(..length).unwrap_or(whole);
            self.attribute(flags, code, value, whole)?;
        }
        Ok(())
    }

    /// Takes one; `whole` is it with its header.
    fn attribute(
        &mut self,
        flags: u8,
        code: AttributeCode,
        value: &[u8],
        whole: &[u8],
    ) -> Result<(), Refusal> {
        if self.seen.again(code) {
            if code.is_multiprotocol() {
                let subcode = codes::ATTRIBUTE_LIST;
                return Err(reset(Some(code), Flaw::Repeated, subcode, Vec::new()));
            }
            self.note(Some(code), Flaw::Repeated, Action::AttributeDiscard);
            return Ok(());
        }
        let Some(wanted) = code.flags() else {
            if flags & OPTIONAL == 0 {
                let subcode = codes::UNRECOGNIZED;
                return Err(reset(
                    Some(code),
                    Flaw::Unrecognized,
                    subcode,
                    whole.to_vec(),
                ));
            }
            return Ok(());
        };
        if (flags ^ wanted) & (OPTIONAL | TRANSITIVE) != 0 {
            self.judge(code, Flaw::Flags, whole)?;
        }
        let may_be_empty = matches!(
            code,
            AttributeCode::AS_PATH | AttributeCode::ATOMIC_AGGREGATE
        );
        let taken = if value.is_empty() && !may_be_empty && !code.is_multiprotocol() {
            // Whatever else is done about a length of it (RFC 7606 section 4).
            self.note(Some(code), Flaw::Length, Action::TreatAsWithdraw);
            return Ok(());
        } else {
            self.found.take(code, value, self.context)
        };
        match taken {
            Ok(()) => Ok(()),
            Err(flaw) => self.judge(code, flaw, whole),
        }
    }

    /// Does about a flaw of one what is to be done.
    fn judge(&mut self, code: AttributeCode, flaw: Flaw, whole: &[u8]) -> Result<(), Refusal> {
        match action(code, flaw) {
            Action::SessionReset => Err(reset(Some(code), flaw, codes::OPTIONAL, whole.to_vec())),
            weaker @ (Action::AttributeDiscard | Action::TreatAsWithdraw) => {
                self.note(Some(code), flaw, weaker);
                Ok(())
            }
        }
    }

    fn note(&mut self, attribute: Option<AttributeCode>, flaw: Flaw, action: Action) {
        self.faults.push(Fault {
            attribute,
            flaw,
            action,
        });
    }

    /// Puts together what was found. `classic` are the destinations outside of attributes.
    fn conclude(
        mut self,
        mut update: Update,
        classic: Vec<Prefix>,
        is_minimal: bool,
    ) -> Result<Update, Refusal> {
        let reach = self.found.reach.take();
        let unreach = self.found.unreach.take();
        let is_foreign =
            |part: &Option<Multiprotocol>| part.as_ref().is_some_and(|part| part.family.is_none());
        update.foreign = is_foreign(&reach) || is_foreign(&unreach);
        let announces = reach
            .as_ref()
            .is_some_and(|reach| !reach.prefixes.is_empty());
        let has_route = !classic.is_empty() || announces || is_foreign(&reach);
        if has_route {
            self.require(!classic.is_empty());
        } else {
            self.without_route()?;
        }
        let is_bare = update.withdrawn.is_empty() && !self.seen.any_but_unreach();
        update.end_of_rib = match &unreach {
            None if is_minimal => Some(Family::Ipv4),
            Some(part) if is_bare && !has_route && part.prefixes.is_empty() => part.family,
            _ => None,
        };
        update
            .withdrawn
            .extend(unreach.into_iter().flat_map(|part| part.prefixes));
        let next_hop = self.found.next_hop.map(NextHop::V4);
        let (mp_hop, mp_prefixes) = match reach {
            Some(reach) => (reach.next_hop, reach.prefixes),
            None => (None, Vec::new()),
        };
        update.faults = self.faults;
        let attributes = self.found.attributes(self.context);
        let is_bad = update.action() >= Some(Action::TreatAsWithdraw);
        match attributes {
            Some(attributes) if !is_bad => {
                let with = |prefixes: Vec<Prefix>, next_hop: Option<NextHop>| {
                    let routes = prefixes.into_iter().zip(std::iter::repeat(next_hop));
                    routes.filter_map(|(prefix, next_hop)| {
                        let next_hop = next_hop?;
                        Some(Route { prefix, next_hop })
                    })
                };
                update.announced.extend(with(classic, next_hop));
                update.announced.extend(with(mp_prefixes, mp_hop));
                update.attributes = (!update.announced.is_empty()).then_some(attributes);
            }
            _ => {
                update.refused = classic;
                update.refused.extend(mp_prefixes);
            }
        }
        Ok(update)
    }

    /// What a route must say (RFC 4271 section 5).
    fn require(&mut self, is_classic: bool) {
        use AttributeCode as Code;

        for (code, is_wanted) in [
            (Code::ORIGIN, true),
            (Code::AS_PATH, true),
            (Code::NEXT_HOP, is_classic),
            (Code::LOCAL_PREF, self.context.internal),
        ] {
            if is_wanted && !self.seen.has(code) {
                self.note(Some(code), Flaw::Missing, Action::TreatAsWithdraw);
            }
        }
    }

    /// With attributes that are wrong and no route that they could belong to, who knows whether the
    /// routes were found (RFC 7606 section 5.2).
    fn without_route(&self) -> Result<(), Refusal> {
        let strong = |fault: &&Fault| fault.action > Action::AttributeDiscard;
        let Some(fault) = self.faults.iter().find(strong) else {
            return Ok(());
        };
        let subcode = codes::ATTRIBUTE_LIST;
        Err(reset(fault.attribute, Flaw::NoRoute, subcode, Vec::new()))
    }
}

impl Found {
    /// What they say together, if the least is there.
    fn attributes(self, context: &Context) -> Option<Attributes> {
        let mut as_path = self.as_path?;
        // Whoever put routes together in two bytes alone knew nothing of the long path
        // (RFC 6793 section 4.2.3).
        let is_anew = self.aggregator.is_some_and(|asn| asn != Asn::TRANS);
        if let Some(long) = self.as4_path.filter(|_| !context.four_octet && !is_anew) {
            as_path = as_path.restored(long);
        }
        Some(Attributes {
            origin: self.origin?,
            as_path,
            med: self.med,
            local_pref: self.local_pref,
            communities: self.communities,
            extended: self.extended,
            large: self.large,
        })
    }
}

/// The next one: its flags, code and value.
fn attribute<'a>(cursor: &mut Cursor<'a>) -> Option<(u8, AttributeCode, &'a [u8])> {
    let flags = cursor.u8()?;
    let code = cursor.u8()?;
    let length = if flags & EXTENDED_LENGTH != 0 {
        usize::from(cursor.u16()?)
    } else {
        usize::from(cursor.u8()?)
    };
    Some((flags, AttributeCode(code), cursor.take(length)?))
}

fn reset(attribute: Option<AttributeCode>, flaw: Flaw, subcode: u8, data: Vec<u8>) -> Refusal {
    Refusal {
        notification: Notification::new(codes::UPDATE, subcode, data),
        fault: Some(Fault {
            attribute,
            flaw,
            action: Action::SessionReset,
        }),
    }
}
