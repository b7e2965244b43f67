//! UPDATEs put together by hand, right and wrong.

use crate::wire::bgp::{Context, Frame, Kind, Message, Refusal, Update};

/// An attribute of an UPDATE: flags, code, value.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub flags: u8,
    pub code: u8,
    pub value: Vec<u8>,
    /// How much longer than its value it says it is.
    pub excess: u8,
}

pub(super) fn raw(flags: u8, code: u8, value: &[u8]) -> Raw {
    Raw {
        flags,
        code,
        value: value.to_vec(),
        excess: 0,
    }
}

impl Raw {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let length = u8::try_from(self.value.len()).unwrap() + self.excess;
        let mut bytes = vec![self.flags, self.code, length];
        bytes.extend(&self.value);
        bytes
    }
}

/// The body of an UPDATE.
pub(super) fn body(withdrawn: &[u8], attributes: &[Raw], announced: &[u8]) -> Vec<u8> {
    let attributes: Vec<u8> = attributes.iter().flat_map(Raw::bytes).collect();
    let length = |part: &[u8]| u16::try_from(part.len()).unwrap().to_be_bytes();
    let mut body = length(withdrawn).to_vec();
    body.extend(withdrawn);
    body.extend(length(&attributes));
    body.extend(attributes);
    body.extend(announced);
    body
}

pub(super) fn read(body: &[u8], context: &Context) -> Result<Update, Refusal> {
    let kind = Kind::Update;
    match Message::parse(&Frame { kind, body }, context)? {
        Message::Update(update) => Ok(update),
        other => panic!("{other:?}"),
    }
}

pub(super) const EXTERNAL: Context = Context {
    internal: false,
    four_octet: true,
    extended_next_hop: false,
};

pub(super) const INTERNAL: Context = Context {
    internal: true,
    ..EXTERNAL
};

/// 192.0.2.1/32.
pub(super) const HOST: [u8; 5] = [32, 192, 0, 2, 1];

/// What a route over IPv4 has to have within an autonomous system, for a path of one.
pub(super) fn mandatory(context: &Context) -> Vec<Raw> {
    let path: &[u8] = if context.four_octet {
        &[2, 1, 0, 0, 0xfd, 0xf6]
    } else {
        &[2, 1, 0xfd, 0xf6]
    };
    let mut all = vec![
        raw(0x40, 1, &[0]),
        raw(0x40, 2, path),
        raw(0x40, 3, &[10, 0, 0, 1]),
    ];
    if context.internal {
        all.push(raw(0x40, 5, &[0, 0, 0, 100]));
    }
    all
}
