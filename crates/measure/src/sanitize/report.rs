//! The output of the sanitizers' runtimes, and the part of it that is reported.
//!
//! Pure: text in, a report out. The text comes out of the jail, so nothing in it is believed beyond the finding itself.
//! A program that makes up a finding harms only itself.

/// Most frames of a stack that are looked up.
const FRAMES: usize = 6;

/// A finding of a sanitizer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Report {
    /// The kind: `heap-buffer-overflow`, `undefined`, `data race` and so on.
    pub kind: String,
    /// Details of the finding, in words.
    pub details: Vec<String>,
    /// The line of the program, where the runtime itself knows it.
    pub line: Option<u32>,
    /// Addresses in the program, innermost first: the stack of the access, and in a race also that of the other access.
    pub stacks: Vec<Vec<u64>>,
}

/// Reports that the runtime did not get memory. They are no finding.
const NO_FINDING: [&str; 5] = [
    "out-of-memory",
    "allocation-size-too-big",
    "requested allocation size",
    "rss-limit-exceeded",
    "failed to",
];

/// True if the runtime refused the program memory and let it go on. The program then behaves differently than without
/// checks.
pub(super) fn was_denied_memory(said: &str) -> bool {
    let warning = |line: &&str| line.contains("WARNING: ") && line.contains("Sanitizer");
    let denied = |line: &str| NO_FINDING.iter().any(|words| line.contains(words));
    said.lines().filter(warning).any(denied)
}

/// The first report on the standard error of a sanitized program; `file` is the program's own source.
pub(super) fn find(said: &str, file: &str) -> Option<Report> {
    undefined(said, file)
        .or_else(|| address(said))
        .or_else(|| race(said))
}

/// Finds a line like `kernel.c:10:30: runtime error: shift exponent 33 is too large for 32-bit type 'int'`.
fn undefined(said: &str, file: &str) -> Option<Report> {
    let mut lines = said.lines();
    let (place, what) = lines.find_map(|line| line.split_once(": runtime error: "))?;
    let numbers = place
        .strip_prefix(file)
        .and_then(|rest| rest.strip_prefix(':'));
    let line = numbers.and_then(|rest| rest.split(':').next()?.parse().ok());
    Some(Report {
        kind: "undefined".to_owned(),
        details: vec![without_addresses(what)],
        line,
        stacks: vec![frames(lines.skip_while(|line| !is_frame(line)))],
    })
}

/// Finds a line like `==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x62d000008400 at pc …`.
fn address(said: &str) -> Option<Report> {
    let mut lines = said.lines();
    let rest = lines.find_map(|line| Some(line.split_once("ERROR: AddressSanitizer: ")?.1))?;
    let kind = [" on ", ":", " (", " 0x"]
        .iter()
        .fold(rest, |kind, end| kind.split(*end).next().unwrap_or(kind))
        .trim();
    if NO_FINDING.iter().any(|other| kind.starts_with(other)) {
        return None;
    }
    let rest: Vec<&str> = lines.collect();
    let mut details = Vec::new();
    details.extend(rest.iter().find_map(|line| access(line)));
    details.extend(rest.iter().find_map(|line| {
        let (_, place) = line.split_once(" is located ")?;
        let place = place.split(" [").next()?;
        // For a stack the next detail says more.
        (!place.starts_with("in stack")).then(|| without_addresses(place))
    }));
    let variable = rest.iter().find(|line| line.contains("<== Memory access"));
    details.extend(variable.map(|line| line.trim().to_owned()));
    let stack = rest.iter().copied().skip_while(|line| !is_frame(line));
    Some(Report {
        kind: kind.to_owned(),
        details,
        line: None,
        stacks: vec![frames(stack)],
    })
}

/// Finds a line like `WARNING: ThreadSanitizer: data race (pid=1)`.
fn race(said: &str) -> Option<Report> {
    let mut lines = said.lines();
    let kind = lines.find_map(|line| {
        let (_, rest) = line.split_once("WARNING: ThreadSanitizer: ")?;
        let kind = rest.split(" (").next()?;
        (kind.starts_with("data race") || kind.starts_with("heap-use-after-free")).then_some(kind)
    })?;
    let rest: Vec<&str> = lines.collect();
    let mut report = Report {
        kind: kind.to_owned(),
        ..Report::default()
    };
    for (at, line) in rest.iter().enumerate() {
        if let Some(access) = access(line) {
            report.details.push(access);
            report.stacks.push(frames(rest[at + 1..].iter().copied()));
        }
        if report.stacks.len() == 2 {
            break;
        }
    }
    Some(report)
}

/// Takes `READ of size 8` from `READ of size 8 at 0x62d000008400 thread T0`.
fn access(line: &str) -> Option<String> {
    let (what, _) = line.split_once(" at 0x")?;
    what.contains(" of size ").then(|| what.trim().to_owned())
}

fn is_frame(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// The program's own addresses in the frames that `lines` begin with.
fn frames<'s>(lines: impl Iterator<Item = &'s str>) -> Vec<u64> {
    lines
        .take_while(|line| is_frame(line))
        .filter_map(offset)
        .take(FRAMES)
        .collect()
}

/// The offset of a frame in the program. The runtimes cannot read the program's name in the jail and call it
/// `/proc/self/exe`.
fn offset(frame: &str) -> Option<u64> {
    let (_, rest) = frame.rsplit_once("exe+0x")?;
    let digits: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(&digits, 16).ok()
}

/// The text without addresses, which say nothing to a reader and would make two reports of one mistake differ.
fn without_addresses(text: &str) -> String {
    let words = text
        .split_whitespace()
        .filter(|word| !word.trim_start_matches(['(', '[']).starts_with("0x"));
    words.collect::<Vec<_>>().join(" ")
}

impl Report {
    /// The report in words; `lines` are the known source lines of its stacks.
    pub fn words(&self, lines: &[u32]) -> String {
        let mut words = self.kind.clone();
        if !self.details.is_empty() {
            words.push_str(": ");
            words.push_str(&self.details.join(", "));
        }
        let mut lines: Vec<String> = match self.line {
            Some(line) => vec![line.to_string()],
            None => lines.iter().map(u32::to_string).collect(),
        };
        lines.dedup();
        match lines.as_slice() {
            [] => {}
            [one] => words.push_str(&format!(", in line {one}")),
            more => words.push_str(&format!(", in lines {}", more.join(" and "))),
        }
        words
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const HEAP: &str = "\
==1==WARNING: reading executable name failed with errno 2, some stack frames may not be symbolized
=================================================================
==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x62d000008400 at pc 0x55add4fe481a bp 0x7fff89364df0 sp 0x7fff89364de8
READ of size 8 at 0x62d000008400 thread T0
    #0 0x55add4fe4819  (/proc/self/exe+0xe6819)
    #1 0x55add4fe3f21  (/proc/self/exe+0xe5f21)
    #2 0x7fcd084df249  (/lib/x86_64-linux-gnu/libc.so.6+0x27249)

0x62d000008400 is located 0 bytes to the right of 32768-byte region [0x62d000000400,0x62d000008400)
allocated by thread T0 here:
    #0 0x55add4f9b6d8  (/proc/self/exe+0x9d6d8)
";

    const STACK: &str = "\
==1==ERROR: AddressSanitizer: stack-buffer-overflow on address 0x7fb7132ff060 at pc 0x55 bp 0x7f sp 0x7f
WRITE of size 8 at 0x7fb7132ff060 thread T1
    #0 0x55e659bfc1a8  (/proc/self/exe+0xe51a8)

Address 0x7fb7132ff060 is located in stack of thread T1 at offset 96 in frame
    #0 0x55e659bfc00f  (/proc/self/exe+0xe500f)

  This frame has 1 object(s):
    [32, 96) 'b' (line 4) <== Memory access at offset 96 overflows this variable
";

    const DEEP: &str = "\
AddressSanitizer:DEADLYSIGNAL
==1==ERROR: AddressSanitizer: stack-overflow on address 0x7fff2e310c18 (pc 0x5628df567fa1 bp 0x7fff2e3114f0 sp 0x7fff2e310c10 T0)
    #0 0x5628df567fa1  (/proc/self/exe+0xe4fa1)
";

    const RACE: &str = "\
WARNING: ThreadSanitizer: data race (pid=1)
  Write of size 8 at 0x563e9fae2b40 by thread T1:
    #0 <null> <null> (exe+0xc11ec)
    #1 <null> <null> (exe+0xc07fb)

  Previous read of size 8 at 0x563e9fae2b40 by main thread:
    #0 <null> <null> (exe+0xbf55d)
    #1 <null> <null> (libgomp.so.1+0x1cd8d)

SUMMARY: ThreadSanitizer: data race (/proc/self/exe+0xc11ec)
";

    const SHIFT: &str = "\
kernel.c:10:30: runtime error: shift exponent 33 is too large for 32-bit type 'int'
    #0 0x55e659bfc1a8  (/proc/self/exe+0xe51a8)
";

    fn found(said: &str) -> Report {
        find(said, "kernel.c").unwrap()
    }

    #[test]
    fn memory_that_was_refused_is_seen_although_it_is_no_finding() {
        for said in [
            "==1==WARNING: AddressSanitizer failed to allocate 0x80000000 bytes\n",
            "==1==WARNING: AddressSanitizer: requested allocation size 0x80000000 exceeds maximum supported size\n",
        ] {
            assert!(was_denied_memory(said), "{said}");
            assert_eq!(find(said, "kernel.c"), None);
        }
        for said in [
            "",
            "==1==WARNING: reading executable name failed with errno 2\n",
            "failed to allocate",
        ] {
            assert!(!was_denied_memory(said), "{said}");
        }
    }

    #[test]
    fn reports_are_read_with_their_kind_and_their_addresses() {
        let heap = found(HEAP);
        assert_eq!(heap.stacks, [[0xe6819, 0xe5f21]]);
        assert_eq!(
            heap.words(&[7]),
            "heap-buffer-overflow: READ of size 8, 0 bytes to the right of 32768-byte region, in line 7"
        );
        assert_eq!(
            found(STACK).words(&[]),
            "stack-buffer-overflow: WRITE of size 8, [32, 96) 'b' (line 4) <== Memory access at offset 96 overflows this variable"
        );
        assert_eq!(found(DEEP).words(&[3]), "stack-overflow, in line 3");
        let race = found(RACE);
        assert_eq!(race.stacks, [vec![0xc11ec, 0xc07fb], vec![0xbf55d]]);
        assert_eq!(
            race.words(&[9, 12]),
            "data race: Write of size 8, Previous read of size 8, in lines 9 and 12"
        );
    }

    #[test]
    fn undefined_behaviour_names_its_line_itself() {
        let shift = found(SHIFT);
        assert_eq!((shift.line, shift.stacks.len()), (Some(10), 1));
        assert_eq!(
            shift.words(&[99]),
            "undefined: shift exponent 33 is too large for 32-bit type 'int', in line 10"
        );
        let inside = "/usr/lib/gcc/avxintrin.h:899:10: runtime error: load of misaligned address 0x61d000000084 for type 'const double', which requires 8 byte alignment";
        let inside = found(inside);
        assert_eq!(inside.line, None);
        assert_eq!(
            inside.words(&[4]),
            "undefined: load of misaligned address for type 'const double', which requires 8 byte alignment, in line 4"
        );
    }

    #[test]
    fn warnings_and_failures_of_the_sanitizers_are_no_findings() {
        for said in [
            "",
            "==1==WARNING: reading executable name failed with errno 2",
            "==1==ERROR: AddressSanitizer: out-of-memory: cannot allocate 0x100 bytes",
            "==1==ERROR: AddressSanitizer failed to allocate 0xdfff0001000 bytes",
            "FATAL: ThreadSanitizer: unexpected memory mapping 0x55e000000000-0x55e000001000",
            "WARNING: ThreadSanitizer: thread leak (pid=1)",
            "AddressSanitizer: CHECK failed: asan_poisoning.cpp:40",
        ] {
            assert_eq!(find(said, "kernel.c"), None, "{said}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(said in "(ERROR: AddressSanitizer: |: runtime error: |WARNING: ThreadSanitizer: data race|#0 \\(exe\\+0x| of size | at 0x| is located | \\[|[ -~\\n]){0,20}") {
            if let Some(report) = find(&said, "kernel.c") {
                let _words = report.words(&[1, 2, 3]);
            }
        }
    }
}
