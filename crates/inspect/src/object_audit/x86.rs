//! Examines every instruction.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic as M, OpKind, Register};

use super::{
    CandidateFault, Code, Failure, File, Object, ObjectSection, SectionKind, refuse, unreadable,
};

/// The width of the widest vector register and whether the code prefetches, or the reason why the code is refused.
pub fn check(file: &File<'_>) -> Result<Code, Failure> {
    let mut widest = 0;
    let mut prefetches = false;
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
            prefetches |= prefetching(mnemonic);
            for operand in 0..instruction.op_count() {
                if instruction.op_kind(operand) != OpKind::Register {
                    continue;
                }
                let register = instruction.op_register(operand);
                widest = widest.max(vector_bits(register));
            }
        }
    }
    Ok(Code {
        vector_bits: widest,
        prefetches,
    })
}

/// The most bytes by which an instruction moves the end of the stack.
pub fn largest_frame(file: &File<'_>) -> u64 {
    let mut largest = 0;
    for section in file.sections().filter(|s| s.kind() == SectionKind::Text) {
        if let Ok(code) = section.data() {
            largest = largest.max(largest_frame_in(code));
        }
    }
    largest
}

fn largest_frame_in(code: &[u8]) -> u64 {
    let mut largest = 0;
    let mut instruction = Instruction::default();
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let bytes = match instruction.mnemonic() {
            M::Sub
                if instruction.op0_register() == Register::RSP
                    && instruction.op1_kind() == OpKind::Immediate32to64 =>
            {
                instruction.immediate32to64()
            }
            // Code that touches each page of a large frame computes the frame's end first.
            M::Lea
                if instruction.memory_base() == Register::RSP
                    && instruction.memory_index() == Register::None =>
            {
                (instruction.memory_displacement64() as i64).wrapping_neg()
            }
            _ => 0,
        };
        largest = largest.max(u64::try_from(bytes).unwrap_or(0));
    }
    largest
}

/// Width of a vector register in bits; 0 for other registers. The decoder numbers the registers of each kind
/// consecutively.
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

/// True for prefetch instructions. Compilers do not generate these by themselves for any processor with 256-bit
/// vectors.
fn prefetching(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Prefetch
            | M::Prefetchnta
            | M::Prefetcht0
            | M::Prefetcht1
            | M::Prefetcht2
            | M::Prefetchw
            | M::Prefetchwt1
            | M::Prefetchit0
            | M::Prefetchit1
            | M::Vgatherpf0dpd
            | M::Vgatherpf0dps
            | M::Vgatherpf0qpd
            | M::Vgatherpf0qps
            | M::Vgatherpf1dpd
            | M::Vgatherpf1dps
            | M::Vgatherpf1qpd
            | M::Vgatherpf1qps
            | M::Vscatterpf0dpd
            | M::Vscatterpf0dps
            | M::Vscatterpf0qpd
            | M::Vscatterpf0qps
            | M::Vscatterpf1dpd
            | M::Vscatterpf1dps
            | M::Vscatterpf1qpd
            | M::Vscatterpf1qps
    )
}

/// Instructions that no kernel may contain, with what they are for.
const FORBIDDEN: &[(&[M], &str)] = &[
    (
        &[
            M::Syscall,
            M::Sysenter,
            M::Int,
            M::Int1,
            M::Sysret,
            M::Sysexit,
        ],
        "system calls",
    ),
    (
        &[M::Rdtsc, M::Rdtscp, M::Rdpmc, M::Rdpid],
        "reading clocks and counters",
    ),
    (
        &[M::Rdfsbase, M::Rdgsbase, M::Wrfsbase, M::Wrgsbase],
        "accessing the thread's own data",
    ),
    (
        &[
            M::Ldmxcsr,
            M::Vldmxcsr,
            M::Fldcw,
            M::Fldenv,
            M::Popfq,
            M::Popf,
        ],
        "changing the processor's state",
    ),
    (
        &[
            M::Xrstor,
            M::Xrstor64,
            M::Fxrstor,
            M::Fxrstor64,
            M::Xsave,
            M::Xsave64,
        ],
        "saving or restoring the processor's state",
    ),
    (
        &[M::Clflush, M::Clflushopt, M::Clwb, M::Cldemote],
        "flushing caches",
    ),
    (&[M::Xbegin, M::Xend], "transactions"),
    (
        &[
            M::Hlt,
            M::In,
            M::Out,
            M::Umwait,
            M::Tpause,
            M::Monitorx,
            M::Mwaitx,
        ],
        "halting, waiting or port access",
    ),
];

fn forbidden(mnemonic: M) -> Option<&'static str> {
    let mut all = FORBIDDEN.iter();
    let found = all.find(|(mnemonics, _)| mnemonics.contains(&mnemonic))?;
    Some(found.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;

    #[test]
    fn frames_are_as_large_as_the_code_makes_them() {
        let (large, up) = (600_000_000, -600_000_000);
        for (operation, number, bytes) in [
            // sub rsp, number
            (&b"\x48\x81\xec"[..], large, 600_000_000),
            (&b"\x48\x81\xec"[..], up, 0),
            // lea r11, [rsp + number]
            (&b"\x4c\x8d\x9c\x24"[..], up, 600_000_000),
            (&b"\x4c\x8d\x9c\x24"[..], large, 0),
            // sub rax, number
            (&b"\x48\x2d"[..], large, 0),
        ] {
            let number: i32 = number;
            let code = [operation, &number.to_le_bytes()].concat();
            assert_eq!(largest_frame_in(&code), bytes, "{code:x?}");
        }
    }

    #[test]
    fn the_page_names_each_forbidden_instruction() {
        let all = FORBIDDEN.iter().flat_map(|(mnemonics, what)| {
            let names = mnemonics.iter().map(|m| format!("{m:?}").to_lowercase());
            names.map(move |name| (name, *what))
        });
        page::compare("Refused instructions", &[all.collect()]);
    }
}
