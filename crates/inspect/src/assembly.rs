//! The loops of an assembly text, as compilers of C, C++ and Fortran write it.
//!
//! A loop is the code from a label to a jump back to it. Nothing here knows an instruction set completely: the choice of the hot
//! loop is a guess for readers, and nothing is decided by it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// A loop that contains no other one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnermostLoop {
    /// Its labels and instructions, one a line.
    pub text: String,
    /// Number of lines.
    pub lines: usize,
    /// Number of loops around it.
    pub depth: usize,
}

/// The innermost loop with the most arithmetic on floating-point numbers, by the widths of its registers. Of equal ones the
/// longest one. None without a loop.
pub fn hot_loop(assembly: &str) -> Option<InnermostLoop> {
    let lines: Vec<&str> = assembly.lines().filter(|line| is_code(line)).collect();
    let labels: HashMap<&str, usize> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((label(line)?, at)))
        .collect();
    // The jumps back, each with the line of its label.
    let jumps: Vec<(usize, usize)> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((at, *labels.get(target(line)?)?)))
        .filter(|(at, begin)| begin < at)
        .collect();
    // The arithmetic before each line: many loops may share lines.
    let mut before = Vec::with_capacity(lines.len() + 1);
    before.push(0);
    for line in &lines {
        before.push(before[before.len() - 1] + arithmetic(line));
    }
    let mut begins: Vec<usize> = jumps.iter().map(|(_, begin)| *begin).collect();
    begins.sort_unstable();
    begins.dedup();
    // A loop is innermost up to the last of its jumps before any other jump back: that one ends a loop within, or comes from
    // code that the compiler moved behind the loop.
    let innermost = begins.into_iter().filter_map(|begin| {
        let after = &jumps[jumps.partition_point(|(at, _)| *at < begin)..];
        let own = after.iter().take_while(|(_, to)| *to == begin);
        Some((begin, own.last()?.0))
    });
    let (begin, end) = innermost.max_by_key(|(begin, end)| {
        let work = before[end + 1] - before[*begin];
        (work, end - begin, Reverse(*begin))
    })?;
    let around = jumps.iter().filter(|(at, to)| *to < begin && *at > end);
    let around: BTreeSet<usize> = around.map(|(_, to)| *to).collect();
    let body = &lines[begin..=end];
    Some(InnermostLoop {
        text: body.join("\n"),
        lines: body.len(),
        depth: around.len(),
    })
}

/// True for labels and instructions; directives and comments do not run.
fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    let is_other = line.is_empty() || line.starts_with(['#', '.', '/']);
    !is_other || label(line).is_some()
}

/// The name of a label.
fn label(line: &str) -> Option<&str> {
    line.split_whitespace().next()?.strip_suffix(':')
}

/// The last operand of a jump.
fn target(line: &str) -> Option<&str> {
    let words = line.split(|c: char| c.is_whitespace() || c == ',');
    let mut words = words.filter(|word| !word.is_empty());
    let mnemonic = words.next()?;
    let jumps = ["j", "b", "cb", "tb", "loop"];
    let jumps = jumps.iter().any(|begin| mnemonic.starts_with(begin));
    words.next_back().filter(|_| jumps && mnemonic != "bl")
}

/// Number of floating-point numbers on which an instruction computes, roughly.
fn arithmetic(line: &str) -> usize {
    let mnemonic = line.split_whitespace().next().unwrap_or_default();
    let moves = [
        "mov",
        "broadcast",
        "shuf",
        "perm",
        "unpck",
        "xor",
        "ld",
        "st",
    ];
    if moves.iter().any(|word| mnemonic.contains(word)) {
        return 0;
    }
    let is_scalar = mnemonic.ends_with("sd") || mnemonic.ends_with("ss");
    match line {
        _ if is_scalar && line.contains("%xmm") => 1,
        _ if line.contains("%zmm") => 8,
        _ if line.contains("%ymm") => 4,
        _ if line.contains("%xmm") => 2,
        // Of ARM: vectors name the form of their elements.
        _ if mnemonic.starts_with('f') && line.contains(".2d") => 2,
        _ if mnemonic.starts_with('f') => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCT: &str = "\t.file\t\"kernel.c\"
# a comment
f:
.L3:
\txorl\t%eax, %eax
.L4:
\tvmovupd\t(%rdx,%rax), %ymm1
\tvfmadd213pd\t(%rcx), %ymm0, %ymm1
\t.p2align 4
\tcmpq\t%rax, %r12
\tjne\t.L4
\tjle\t.L9
.L5:
\tvfmadd213sd\t(%rcx), %xmm0, %xmm1
\tvaddsd\t(%rcx), %xmm0, %xmm1
\tjne\t.L5
.L9:
\tdecl\t%edi
\tjne\t.L3
\tcall\tf
\tret
\t.string\t\"jne .L3\"
";

    #[test]
    fn the_loop_with_the_most_arithmetic_is_hot() {
        let hot = hot_loop(PRODUCT);
        let text = ".L4:\n\tvmovupd\t(%rdx,%rax), %ymm1\n\tvfmadd213pd\t(%rcx), %ymm0, %ymm1\n\tcmpq\t%rax, %r12\n\tjne\t.L4";
        let wanted = InnermostLoop {
            text: text.to_owned(),
            lines: 5,
            depth: 1,
        };
        assert_eq!(hot, Some(wanted));
        let scalar = PRODUCT.replace("%ymm", "%rdi");
        let hot = hot_loop(&scalar).map(|hot| hot.text);
        assert!(hot.is_some_and(|text| text.starts_with(".L5:")));
    }

    /// A second jump to the inner loop comes from a remainder that the compiler moved behind the outer one.
    #[test]
    fn a_loop_that_is_also_entered_from_behind_is_innermost() {
        let text = "f:\n.L11:\n\tvmovsd\t(%rsi), %xmm3\n.L5:\n\tvmulpd\t(%rdx), %zmm0, %zmm1\n\tvdivpd\t%zmm1, %zmm2, %zmm2\n\tjne\t.L5\n\
                    \tvaddsd\t%xmm3, %xmm2, %xmm2\n\tvdivsd\t%xmm3, %xmm2, %xmm2\n\tjne\t.L11\n\tret\n.L9:\n\txorl\t%eax, %eax\n\tjmp\t.L5\n";
        let hot = hot_loop(text).expect("a loop");
        assert!(
            hot.text.starts_with(".L5:") && hot.text.ends_with(".L5"),
            "{}",
            hot.text
        );
        assert_eq!((hot.lines, hot.depth), (4, 1));
    }

    #[test]
    fn code_without_a_jump_back_has_no_loop() {
        for text in [
            "",
            "f:\n\tjmp\t.L2\n.L2:\n\tret\n",
            "f:\n\tcall\tf\n",
            "\tjne\n:\n",
        ] {
            assert_eq!(hot_loop(text), None, "{text}");
        }
    }

    #[test]
    fn loops_of_another_instruction_set_are_found() {
        let text = "f:\n.L3:\n\tldr\tq1, [x2, x0]\n\tfmla\tv0.2d, v1.2d, v2.2d\n\tcmp\tx0, x3\n\tbne\t.L3\n\tret\n";
        let hot = hot_loop(text);
        assert!(hot.is_some_and(|hot| hot.lines == 5 && hot.depth == 0));
    }

    #[test]
    fn ten_thousand_nested_and_crossing_loops_take_no_time() {
        let labels: String = (0..10_000).map(|n| format!(".L{n}:\n")).collect();
        let jumps = |order: &mut dyn Iterator<Item = u32>| -> String {
            order.map(|n| format!("\tjne\t.L{n}\n")).collect()
        };
        for jumps in [jumps(&mut (0..10_000u32).rev()), jumps(&mut (0..10_000u32))] {
            assert!(hot_loop(&format!("{labels}{jumps}")).is_some());
        }
    }
}
