//! A stream of datagrams from a stranger: nothing panics, no more is kept than came, it does not matter how
//! it was cut, and what was read is written again as the same stream.

use kedge_tunnel_proto::fallback::{
    Question,
    record::{BadLength, LONGEST, Records, emit},
};

/// A byte that says how the stream is cut, then the stream.
pub fn records(bytes: &[u8]) {
    let Some((cut, stream)) = bytes.split_first() else {
        return;
    };
    let (whole, ended) = read(stream, usize::MAX);
    let (pieces, ended_too) = read(stream, usize::from(*cut).max(1));
    assert_eq!((&whole, &ended), (&pieces, &ended_too));
    let mut again = Vec::new();
    for datagram in &whole {
        assert!((1..=LONGEST).contains(&datagram.len()));
        emit(datagram, &mut again).unwrap();
        if let Some(question) = Question::parse(datagram) {
            assert_eq!(question.emit()[..], datagram[..]);
            assert!(question.answer().is_none_or(|it| it.answer().is_none()));
        }
    }
    assert!(again.len() <= stream.len());
    assert_eq!(read(&again, usize::MAX), (whole, Ok(true)));
}

/// The datagrams, and whether the stream may end where it does.
fn read(stream: &[u8], size: usize) -> (Vec<Vec<u8>>, Result<bool, BadLength>) {
    let (mut records, mut datagrams) = (Records::default(), Vec::new());
    for piece in stream.chunks(size.min(stream.len().max(1))) {
        let room = records.room();
        room.extend_from_slice(piece);
        assert!(room.len() <= LONGEST + 2 + size.min(stream.len()));
        loop {
            match records.take() {
                Ok(Some(datagram)) => datagrams.push(datagram.to_vec()),
                Ok(None) => break,
                Err(error) => return (datagrams, Err(error)),
            }
        }
    }
    (datagrams, Ok(records.is_between()))
}
