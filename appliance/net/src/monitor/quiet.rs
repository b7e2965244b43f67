//! What nobody wants to be woken for: addresses of ours are renewed more than once a second, and each renewal is
//! told as any change is.

use std::os::fd::AsFd as _;

use super::{Monitor, MonitorError};
use crate::{
    PROTOCOL, bpf,
    sys::packet::{Instruction, set_filter},
};

impl Monitor {
    /// Leaves out what becomes of addresses that carry our number, but that they go.
    ///
    /// # Errors
    ///
    /// The kernel refused the filter.
    pub fn leave_out_own(&self) -> Result<(), MonitorError> {
        self.put(of_ours([bpf::REFUSE]))
    }

    /// Leaves out that addresses which carry our number go on. That they come and go is told.
    ///
    /// # Errors
    ///
    /// The kernel refused the filter.
    pub fn leave_out_renewals(&self) -> Result<(), MonitorError> {
        self.put(of_ours([
            bpf::load_number(ATTRIBUTES),
            bpf::set_index(IFA_CACHEINFO),
            bpf::FIND_ATTRIBUTE,
            bpf::INDEX_LOADED,
            // One that came is as old as its latest renewal: `ifa_cacheinfo.cstamp` and `tstamp`,
            // behind the attribute's own four bytes.
            bpf::load_word_indexed(4 + 12),
            bpf::KEEP,
            bpf::load_word_indexed(4 + 8),
            bpf::INDEX_LOADED,
            bpf::LOAD_KEPT,
            bpf::jump_equal_index(1, 0),
            bpf::REFUSE,
        ]))
    }

    fn put(&self, program: Vec<Instruction>) -> Result<(), MonitorError> {
        set_filter(self.events.as_fd(), &program).map_err(MonitorError::Open)
    }
}

/// Takes every message, but has `then` decide about an address that carries our number and is there:
/// what it does not refuse it passes by.
fn of_ours<const N: usize>(then: [Instruction; N]) -> Vec<Instruction> {
    let [low, high] = libc::RTM_NEWADDR.to_ne_bytes();
    let then_some = u8::try_from(N).unwrap_or(u8::MAX);
    let mut program = vec![
        // The type of the message, in the order of this machine's bytes.
        bpf::load_byte(4),
        bpf::jump_equal(low.into(), 0, 8 + then_some),
        bpf::load_byte(5),
        bpf::jump_equal(high.into(), 0, 6 + then_some),
        bpf::load_number(ATTRIBUTES),
        bpf::set_index(IFA_PROTO),
        bpf::FIND_ATTRIBUTE,
        bpf::INDEX_LOADED,
        // Without one this is the type again, which is no number of ours.
        bpf::load_byte_indexed(4),
        bpf::jump_equal(PROTOCOL.into(), 0, then_some),
    ];
    program.extend(then);
    program.push(bpf::take(u32::MAX));
    program
}

/// `IFA_PROTO`: who put the address there.
const IFA_PROTO: u32 = 11;
/// `IFA_CACHEINFO`: how long it stands, and since when.
const IFA_CACHEINFO: u32 = 6;
/// Behind `nlmsghdr` and `ifaddrmsg`.
const ATTRIBUTES: u32 = 16 + 8;
