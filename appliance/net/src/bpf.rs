//! Classic BPF: which packets a packet socket takes at all.

use crate::sys::packet::Instruction;

/// Loads the byte at `at`.
pub const fn load_byte(at: u32) -> Instruction {
    instruction(0x30, 0, 0, at)
}

/// Loads the four bytes at `at`.
pub const fn load_word(at: u32) -> Instruction {
    instruction(0x20, 0, 0, at)
}

/// Loads the two bytes at `at`.
pub const fn load_half(at: u32) -> Instruction {
    instruction(0x28, 0, 0, at)
}

/// Loads the four bytes at `at` behind the index.
pub const fn load_word_indexed(at: u32) -> Instruction {
    instruction(0x40, 0, 0, at)
}

/// Loads the byte at `at` behind the index.
pub const fn load_byte_indexed(at: u32) -> Instruction {
    instruction(0x50, 0, 0, at)
}

/// Loads a number.
pub const fn load_number(number: u32) -> Instruction {
    instruction(0x00, 0, 0, number)
}

/// Sets the index to what was loaded.
pub const INDEX_LOADED: Instruction = instruction(0x07, 0, 0, 0);

/// Keeps what was loaded, of which there is one.
pub const KEEP: Instruction = instruction(0x02, 0, 0, 0);
/// Loads what was [kept](KEEP).
pub const LOAD_KEPT: Instruction = instruction(0x60, 0, 0, 0);

/// Loads where the netlink attribute is whose number is in the index, searching from where what was
/// loaded says; 0 without one (`SKF_AD_NLATTR`).
pub const FIND_ATTRIBUTE: Instruction = instruction(0x20, 0, 0, 0xffff_f000 + 12);

/// Sets the index.
pub const fn set_index(to: u32) -> Instruction {
    instruction(0x01, 0, 0, to)
}

/// Skips `yes` or `no` instructions, as what was loaded equals `value` or not.
pub const fn jump_equal(value: u32, yes: u8, no: u8) -> Instruction {
    instruction(0x15, yes, no, value)
}

/// Skips `yes` or `no` instructions, as what was loaded is greater than `value` or not.
pub const fn jump_greater(value: u32, yes: u8, no: u8) -> Instruction {
    instruction(0x25, yes, no, value)
}

/// Skips `yes` or `no` instructions, as what was loaded equals the index or not.
pub const fn jump_equal_index(yes: u8, no: u8) -> Instruction {
    instruction(0x1d, yes, no, 0)
}

/// Skips `over` instructions.
pub const fn jump(over: u32) -> Instruction {
    instruction(0x05, 0, 0, over)
}

/// Takes the first `length` bytes of the packet.
pub const fn take(length: u32) -> Instruction {
    instruction(0x06, 0, 0, length)
}

/// Takes the packet whole.
pub const ACCEPT: Instruction = take(0xffff);
/// Leaves the packet.
pub const REFUSE: Instruction = take(0);

const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}
