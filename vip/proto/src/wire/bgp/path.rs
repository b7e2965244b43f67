//! The autonomous systems a route went through (RFC 4271 section 4.3, RFC 6793).

use std::fmt;

use kedge_core::bgp::Asn;

use super::{asn, cursor::Cursor};

/// AS_PATH.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AsPath(Vec<Segment>);

/// A part of a path: 1 to 255 numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    kind: SegmentKind,
    asns: Vec<Asn>,
}

/// Whether the order of a part's numbers is that of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SegmentKind {
    /// It is not.
    Set,
    /// It is; the nearest comes first.
    Sequence,
}

impl Segment {
    /// A part, if it has 1 to 255 numbers.
    #[must_use]
    pub fn new(kind: SegmentKind, asns: Vec<Asn>) -> Option<Self> {
        (1..=usize::from(u8::MAX))
            .contains(&asns.len())
            .then_some(Self { kind, asns })
    }

    /// Its numbers.
    #[must_use]
    pub fn asns(&self) -> &[Asn] {
        &self.asns
    }

    /// Whether they have an order.
    #[must_use]
    pub const fn kind(&self) -> SegmentKind {
        self.kind
    }

    /// What it counts for in the length of a path.
    fn hops(&self) -> usize {
        match self.kind {
            SegmentKind::Set => 1,
            SegmentKind::Sequence => self.asns.len(),
        }
    }
}

impl AsPath {
    /// Of parts.
    #[must_use]
    pub const fn new(segments: Vec<Segment>) -> Self {
        Self(segments)
    }

    /// Through these, the nearest first.
    #[must_use]
    pub fn sequence(asns: &[Asn]) -> Self {
        let segments = asns.chunks(usize::from(u8::MAX)).map(|asns| Segment {
            kind: SegmentKind::Sequence,
            asns: asns.to_vec(),
        });
        Self(segments.collect())
    }

    /// Its parts.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// How many autonomous systems the way crosses; a set is one.
    #[must_use]
    pub fn hops(&self) -> usize {
        self.0.iter().map(Segment::hops).sum()
    }

    /// Whether one of its numbers needs four bytes.
    pub(super) fn is_long(&self) -> bool {
        let mut all = self.0.iter().flat_map(Segment::asns);
        all.any(|asn| u16::try_from(asn.get()).is_err())
    }

    /// Reads a path of numbers of `width` bytes.
    ///
    /// A part of an unknown kind is an error (RFC 7606 section 7.2), and so are those of
    /// confederations, as we are in none (RFC 5065 section 5), and the number zero (RFC 7607).
    pub(super) fn parse(bytes: &[u8], width: usize) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let mut segments = Vec::new();
        while !cursor.is_empty() {
            let kind = match cursor.u8()? {
                1 => SegmentKind::Set,
                2 => SegmentKind::Sequence,
                _ => return None,
            };
            let count = usize::from(cursor.u8()?);
            let asns = cursor.take(count.checked_mul(width)?)?;
            let asns: Option<Vec<Asn>> = asns.chunks_exact(width).map(asn).collect();
            segments.push(Segment::new(kind, asns?)?);
        }
        Some(Self(segments))
    }

    pub(super) fn put(&self, out: &mut Vec<u8>, width: usize) {
        for segment in &self.0 {
            out.push(match segment.kind {
                SegmentKind::Set => 1,
                SegmentKind::Sequence => 2,
            });
            out.push(u8::try_from(segment.asns.len()).unwrap_or(u8::MAX));
            for asn in &segment.asns {
                if width == 2 {
                    out.extend(asn.short().to_be_bytes());
                } else {
                    out.extend(asn.get().to_be_bytes());
                }
            }
        }
    }

    /// The path of which `self` is what a speaker of two bytes made, and `long` what it was before
    /// it came to such (RFC 6793 section 4.2.3).
    pub(super) fn restored(self, long: Self) -> Self {
        let Some(mut newer) = self.hops().checked_sub(long.hops()) else {
            return self;
        };
        let mut segments = Vec::new();
        for mut segment in self.0 {
            if newer == 0 {
                break;
            }
            let hops = segment.hops();
            if hops > newer {
                segment.asns.truncate(newer);
            }
            newer = newer.saturating_sub(hops);
            segments.push(segment);
        }
        let mut long = long.0.into_iter().peekable();
        // Two sequences in a row are one, as far as one can hold them.
        if let (Some(last), Some(first)) = (segments.last_mut(), long.peek()) {
            let both = SegmentKind::Sequence;
            let fits = last.asns.len() + first.asns.len() <= usize::from(u8::MAX);
            if last.kind == both && first.kind == both && fits {
                last.asns.extend(&first.asns);
                long.next();
            }
        }
        segments.extend(long);
        Self(segments)
    }
}

impl fmt::Display for AsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for segment in &self.0 {
            let (open, comma, close) = match segment.kind {
                SegmentKind::Set => ("{", ",", "}"),
                SegmentKind::Sequence => ("", " ", ""),
            };
            write!(f, "{between}{open}")?;
            for (index, asn) in segment.asns.iter().enumerate() {
                write!(f, "{}{asn}", if index == 0 { "" } else { comma })?;
            }
            write!(f, "{close}")?;
            between = " ";
        }
        Ok(())
    }
}
