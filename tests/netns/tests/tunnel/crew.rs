//! Peers of several workers, and whether their packets come in order.

use std::{
    net::UdpSocket,
    thread,
    time::{Duration, Instant},
};

use kedge_tunnel_proto::{directory::owner, keys::PrivateKey};

use super::key;

pub const WORKERS: u8 = 2;

/// Four hosts, of which each worker has two.
pub fn keys() -> Vec<PrivateKey> {
    let mut left = [2, 2];
    let all = (10..).map(key).filter(|key| {
        let place = &mut left[usize::from(owner(&key.public(), WORKERS))];
        let free = *place > 0;
        *place -= usize::from(free);
        free
    });
    all.take(4).collect()
}

/// Numbers that `from` sends to `to`, as they come; as many as there are in half a second.
fn stream(from: &UdpSocket, to: &UdpSocket) -> (u32, Vec<u32>) {
    let at = to.local_addr().unwrap();
    to.set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    thread::scope(|scope| {
        let sender = scope.spawn(move || {
            let (begun, mut sent) = (Instant::now(), 0_u32);
            let mut datagram = [0; 1_000];
            while begun.elapsed() < Duration::from_millis(500) {
                for _ in 0..4 {
                    datagram[..4].copy_from_slice(&sent.to_be_bytes());
                    sent += u32::from(from.send_to(&datagram, at).is_ok());
                }
                thread::sleep(Duration::from_millis(1));
            }
            sent
        });
        let (mut came, mut buffer) = (Vec::new(), [0; 1_000]);
        while let Ok((1_000, _)) = to.recv_from(&mut buffer) {
            came.push(u32::from_be_bytes(buffer[..4].try_into().unwrap()));
        }
        (sender.join().unwrap(), came)
    })
}

/// Streams in both directions of each pair at once: all that comes is in order, and most of it comes.
pub fn in_order(pairs: &[[UdpSocket; 2]]) {
    let begun = Instant::now();
    let streams: Vec<(u32, Vec<u32>)> = thread::scope(|scope| {
        let streams = pairs.iter().flat_map(|pair| {
            [(0, 1), (1, 0)].map(|(from, to)| {
                // Each socket sends on one thread and receives on another.
                scope.spawn(move || stream(&pair[from], &pair[to]))
            })
        });
        let streams: Vec<_> = streams.collect();
        streams.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let mut all = 0;
    for (number, (sent, came)) in streams.iter().enumerate() {
        let late = came.windows(2).filter(|two| two[0] >= two[1]).count();
        println!(
            "stream {number}: {sent} sent, {} came, {late} late",
            came.len()
        );
        assert_eq!(late, 0, "stream {number}");
        // A busy machine may lose some at a socket.
        assert!(came.len() * 2 > usize::try_from(*sent).unwrap());
        all += came.len();
    }
    println!("{all} packets in {:?}", begun.elapsed());
}
