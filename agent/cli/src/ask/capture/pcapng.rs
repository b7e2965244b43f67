//! Writes pcapng (draft-ietf-opsawg-pcapng): four kinds of blocks, of one interface.

use std::{
    io::{self, Write},
    time::Duration,
};

/// A file that is written as packets come.
pub(super) struct Pcapng<W> {
    to: W,
    block: Vec<u8>,
}

/// A packet, as far as it was taken.
pub(super) struct Packet<'a> {
    pub(super) at: Duration,
    pub(super) bytes: &'a [u8],
    /// How long it was.
    pub(super) length: usize,
    pub(super) outgoing: bool,
    /// What a person sees beside it; nothing when empty.
    pub(super) comment: &'a str,
}

impl<W: Write> Pcapng<W> {
    /// Begins a file of raw IP packets of one interface.
    pub(super) fn begin(to: W, ifname: &str, snaplen: u32) -> io::Result<Self> {
        let mut file = Self {
            to,
            block: Vec::new(),
        };
        file.number(BYTE_ORDER);
        // Version 1.0.
        file.number(1);
        // The section's length: unknown.
        file.bytes(&u64::MAX.to_le_bytes());
        let program = format!("kedge {}", env!("CARGO_PKG_VERSION"));
        file.option(SHB_USERAPPL, program.as_bytes());
        file.option(END, &[]);
        file.write(SECTION_HEADER)?;
        file.number(LINKTYPE_RAW);
        file.number(snaplen);
        file.option(IF_NAME, ifname.as_bytes());
        file.option(IF_TSRESOL, &[NANOSECONDS]);
        file.option(END, &[]);
        file.write(INTERFACE_DESCRIPTION)?;
        file.flush()?;
        Ok(file)
    }

    pub(super) fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        self.number(FIRST_INTERFACE);
        self.time(packet.at);
        self.number(number(packet.bytes.len()));
        self.number(number(packet.length));
        self.bytes(packet.bytes);
        let direction: u32 = if packet.outgoing { 2 } else { 1 };
        self.option(EPB_FLAGS, &direction.to_le_bytes());
        if !packet.comment.is_empty() {
            self.option(COMMENT, packet.comment.as_bytes());
        }
        self.option(END, &[]);
        self.write(ENHANCED_PACKET)
    }

    /// Says at the end how many packets went by, and for how many there was no room.
    pub(super) fn end(&mut self, at: Duration, received: u64, dropped: u64) -> io::Result<()> {
        self.number(FIRST_INTERFACE);
        self.time(at);
        self.option(ISB_IFRECV, &received.to_le_bytes());
        self.option(ISB_IFDROP, &dropped.to_le_bytes());
        self.option(END, &[]);
        self.write(INTERFACE_STATISTICS)?;
        self.flush()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    fn time(&mut self, at: Duration) {
        let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let [a, b, c, d, e, f, g, h] = nanos.to_le_bytes();
        self.bytes(&[e, f, g, h]);
        self.bytes(&[a, b, c, d]);
    }

    fn number(&mut self, number: u32) {
        self.block.extend(number.to_le_bytes());
    }

    /// Bytes, and zeros up to a multiple of four.
    fn bytes(&mut self, bytes: &[u8]) {
        self.block.extend(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = value.get(..LONGEST_OPTION).unwrap_or(value);
        let length = u16::try_from(value.len()).unwrap_or_default();
        self.block.extend(code.to_le_bytes());
        self.block.extend(length.to_le_bytes());
        self.bytes(value);
    }

    /// Writes what was put together as one block.
    fn write(&mut self, kind: u32) -> io::Result<()> {
        let length = number(self.block.len() + 12).to_le_bytes();
        let outcome = [&kind.to_le_bytes(), &length, &*self.block, &length]
            .into_iter()
            .try_for_each(|part| self.to.write_all(part));
        self.block.clear();
        outcome
    }
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// `LINKTYPE_RAW`: each packet begins with its IP header.
const LINKTYPE_RAW: u32 = 101;
const FIRST_INTERFACE: u32 = 0;

const END: u16 = 0;
const COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const ISB_IFRECV: u16 = 4;
const ISB_IFDROP: u16 = 5;

/// Stamps count 10⁻⁹ s.
const NANOSECONDS: u8 = 9;
const LONGEST_OPTION: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds and lengths of the blocks, which must fill the file.
    fn blocks(mut file: &[u8]) -> Vec<(u32, usize)> {
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
            let length = word(4) as usize;
            assert_eq!(word(length - 4) as usize, length, "the length stands twice");
            blocks.push((word(0), length));
            file = &file[length..];
        }
        blocks
    }

    #[test]
    fn blocks_have_their_lengths_at_both_ends_whatever_is_in_them() {
        let mut bytes = Vec::new();
        let mut file = Pcapng::begin(&mut bytes, "kedge0", 64).unwrap();
        for length in 0..9 {
            let packet = Packet {
                at: Duration::new(1, 5),
                bytes: &[0x45; 16][..length],
                length: 1_500,
                outgoing: length % 2 == 0,
                comment: &"peer gw-0"[..length],
            };
            file.packet(&packet).unwrap();
        }
        file.end(Duration::from_secs(2), 9, 1).unwrap();
        let kinds: Vec<u32> = blocks(&bytes).into_iter().map(|(kind, _)| kind).collect();
        let expected = [
            &[SECTION_HEADER, INTERFACE_DESCRIPTION][..],
            &[ENHANCED_PACKET; 9],
        ];
        assert_eq!(kinds[..11], expected.concat());
        assert_eq!(kinds[11..], [INTERFACE_STATISTICS]);
        // 1.000000005 s, the high half first.
        let packet = bytes
            .windows(8)
            .position(|it| it == [0, 0, 0, 0, 5, 0xca, 0x9a, 0x3b]);
        assert!(packet.is_some());
    }
}
