//! System calls. The only place with `unsafe`; every block says why it is sound.
#![expect(
    unsafe_code,
    reason = "the one room for system calls without a safe wrapper"
)]

pub mod clock;
pub mod datagrams;
pub mod descriptor;
pub mod epoll;
pub mod group;
pub mod memory;
pub mod monitor;
pub mod netns;
pub mod packet;
pub mod page;
pub mod sched;
pub mod signals;
pub mod tun;
pub mod udp;
