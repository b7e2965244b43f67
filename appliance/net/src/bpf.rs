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

/// Loads the four bytes at `at` behind the index.
pub const fn load_word_indexed(at: u32) -> Instruction {
    instruction(0x40, 0, 0, at)
}

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
