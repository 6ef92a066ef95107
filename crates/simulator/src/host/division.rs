//! Division as BPF defines it ("Arithmetic instructions" in Linux's
//! Documentation/bpf/standardization/instruction-set.rst): division by zero has the quotient 0 and the dividend as
//! remainder; division of the smallest integer by -1 has the dividend as quotient and the remainder 0. x86 raises
//! SIGFPE for both; AArch64 follows BPF.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use libc::{REG_RAX, REG_RDX, REG_RIP, ucontext_t};

/// The length of the longest instruction.
const MOST_BYTES: usize = 15;

/// Decodes an instruction in advance: the first decoding allocates the decoder's tables, which a signal handler cannot
/// do.
pub fn prepare() {
    let _ = decode(&[0xf7, 0xf1], 0);
}

/// Executes the division at which `context` stopped, with BPF's result, and continues after it.
/// Returns false, without effect, for another instruction, or a division that BPF does not have.
///
/// # Safety
/// The memory at which `context` stopped is readable, and execution may continue there.
pub unsafe fn divide(context: &mut ucontext_t) -> bool {
    let at = context.uc_mcontext.gregs[REG_RIP as usize] as usize;
    // SAFETY: an instruction is there, because it was executed, and the pages after a library's code belong to the
    // library, too.
    let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, MOST_BYTES) };
    let instruction = decode(bytes, at as u64);
    let signed = match instruction.mnemonic() {
        Mnemonic::Div => false,
        Mnemonic::Idiv => true,
        _ => return false,
    };
    let bits = 8 * match instruction.op0_kind() {
        OpKind::Register => instruction.op0_register().size(),
        _ => instruction.memory_size().size(),
    };
    // C and BPF promote narrower numbers.
    if bits < 32 {
        return false;
    }
    let mask = u64::MAX >> (64 - bits);
    let registers = &mut context.uc_mcontext.gregs;
    let dividend = registers[REG_RAX as usize] as u64 & mask;
    let Some(divisor) = divisor(&instruction, registers) else {
        return false;
    };
    let (quotient, remainder) = match divisor & mask {
        0 => (0, dividend),
        minus_one if signed && minus_one == mask => (dividend, 0),
        _ => return false,
    };
    registers[REG_RAX as usize] = quotient as i64;
    registers[REG_RDX as usize] = remainder as i64;
    registers[REG_RIP as usize] = instruction.next_ip() as i64;
    true
}

fn decode(bytes: &[u8], at: u64) -> Instruction {
    Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode()
}

/// The divisor, with arbitrary bits above it.
fn divisor(instruction: &Instruction, registers: &[i64]) -> Option<u64> {
    if instruction.op0_kind() == OpKind::Register {
        return register(instruction.op0_register(), registers);
    }
    let address =
        instruction.virtual_address(0, 0, |name, _, _| match name.is_segment_register() {
            true => Some(0),
            false => register(name, registers),
        })?;
    let divisor = address as *const u8;
    // SAFETY: the instruction has read this memory.
    Some(unsafe {
        match instruction.memory_size().size() {
            4 => divisor.cast::<u32>().read_unaligned().into(),
            _ => divisor.cast::<u64>().read_unaligned(),
        }
    })
}

fn register(name: Register, registers: &[i64]) -> Option<u64> {
    use libc::*;
    let index = match name.full_register() {
        Register::RAX => REG_RAX,
        Register::RBX => REG_RBX,
        Register::RCX => REG_RCX,
        Register::RDX => REG_RDX,
        Register::RSI => REG_RSI,
        Register::RDI => REG_RDI,
        Register::RBP => REG_RBP,
        Register::RSP => REG_RSP,
        Register::R8 => REG_R8,
        Register::R9 => REG_R9,
        Register::R10 => REG_R10,
        Register::R11 => REG_R11,
        Register::R12 => REG_R12,
        Register::R13 => REG_R13,
        Register::R14 => REG_R14,
        Register::R15 => REG_R15,
        _ => return None,
    };
    Some(registers[index as usize] as u64)
}
