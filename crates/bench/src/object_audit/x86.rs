//! Looks at every instruction.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic as M, OpKind, Register};

use super::{
    CandidateFault, Failure, File, Object, ObjectSection, SectionKind, refuse, unreadable,
};

/// The widest vector register, or why the code is refused.
pub fn check(file: &File<'_>) -> Result<u32, Failure> {
    let mut widest = 0;
    let mut instruction = Instruction::default();
    for section in file.sections().filter(|s| s.kind() == SectionKind::Text) {
        let code = section.data().map_err(|e| unreadable(&e))?;
        let mut decoder = Decoder::with_ip(64, code, section.address(), DecoderOptions::NONE);
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let mnemonic = instruction.mnemonic();
            if let Some(what) = forbidden(mnemonic) {
                return refuse(
                    CandidateFault::ForbiddenConstruct,
                    format!("the compiled code uses an instruction for {what} ({mnemonic:?})"),
                );
            }
            for operand in 0..instruction.op_count() {
                if instruction.op_kind(operand) != OpKind::Register {
                    continue;
                }
                let register = instruction.op_register(operand);
                widest = widest.max(vector_bits(register));
            }
        }
    }
    Ok(widest)
}

/// Width of a vector register; 0 for others. The decoder numbers each kind in one run.
fn vector_bits(register: Register) -> u32 {
    let within =
        |first: Register, last: Register| (first as u32..=last as u32).contains(&(register as u32));
    if within(Register::ZMM0, Register::ZMM31) {
        512
    } else if within(Register::YMM0, Register::YMM31) {
        256
    } else if within(Register::XMM0, Register::XMM31) {
        128
    } else {
        0
    }
}

fn forbidden(mnemonic: M) -> Option<&'static str> {
    Some(match mnemonic {
        M::Syscall | M::Sysenter | M::Int | M::Int1 | M::Sysret | M::Sysexit => "system calls",
        M::Rdtsc | M::Rdtscp | M::Rdpmc | M::Rdpid => "reading clocks and counters",
        M::Rdfsbase | M::Rdgsbase | M::Wrfsbase | M::Wrgsbase => "the thread's own data",
        M::Ldmxcsr | M::Vldmxcsr | M::Fldcw | M::Fldenv | M::Popfq | M::Popf => {
            "changing the processor's state"
        }
        M::Xrstor | M::Xrstor64 | M::Fxrstor | M::Fxrstor64 | M::Xsave | M::Xsave64 => {
            "the processor's state"
        }
        M::Clflush | M::Clflushopt | M::Clwb => "flushing caches",
        M::Xbegin | M::Xend => "transactions",
        M::Hlt | M::In | M::Out | M::Umwait | M::Tpause | M::Monitorx | M::Mwaitx => "the system",
        _ => return None,
    })
}
