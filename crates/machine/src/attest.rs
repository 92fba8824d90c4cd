//! The attestation: the state of a machine during a timing.
//!
//! All values come from files of the kernel; a value that no file holds stays unknown and is reported as unknown. An
//! attestation holds no time stamps and no load, so the same machine in the same state gives the same digest. The
//! values that change (load, steal time) are stored in [`Conditions`](crate::environment::Conditions).

use std::collections::BTreeMap;
use std::path::Path;

use flopsmith_protocol::Digest;
use serde::{Deserialize, Serialize};

use crate::memory;
use crate::peak::Peak;
use crate::roofline::Roofs;

/// Largest number of lines of advice at the start of a run.
const WARNINGS: usize = 2;

/// The properties of a machine that influence the time of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attestation {
    /// Processor model, as it names itself.
    pub cpu_model: String,
    /// Vendor, family, model and stepping.
    pub cpu_id: String,
    /// Microcode revision.
    pub microcode: Option<String>,
    /// Instruction sets that matter for numerical kernels.
    pub isa: Vec<String>,
    /// Number of processors that the kernel sees.
    pub processors: u32,
    /// Cores this process may use.
    pub allowed_cores: Vec<usize>,
    /// Core of the supervisor; none if it shares the kernel's.
    pub supervisor_core: Option<usize>,
    /// Cores of the kernel.
    pub kernel_cores: Vec<usize>,
    /// Number of threads that a kernel may use.
    pub threads: u32,
    /// Cores that share a physical core with a kernel core.
    pub smt_siblings: Vec<usize>,
    /// Number of NUMA nodes.
    pub numa_nodes: u32,
    /// Data caches of the kernel's first core: level → bytes.
    pub caches: BTreeMap<String, u64>,
    /// Frequency governor.
    pub governor: Option<String>,
    /// True if turbo or boost is on.
    pub boost: Option<bool>,
    /// True if address space randomisation is on.
    pub aslr: Option<bool>,
    /// Setting of transparent huge pages for anonymous memory.
    pub huge_pages: Option<String>,
    /// True if the shared buffers got huge pages.
    pub buffers_in_huge_pages: bool,
    /// Bytes of swap.
    pub swap_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Hypervisor or container, if the machine shows one.
    pub hypervisor: Option<String>,
    /// The clock of the kernel.
    pub clock_source: Option<String>,
    /// Compiler and its version.
    pub compiler: String,
    /// Its flags.
    pub flags: Vec<String>,
    /// The linker's version.
    pub linker: String,
    /// Language, version and flags of the other compilers.
    pub other_compilers: Vec<String>,
    /// Version of the harness and its hand-shake.
    pub harness: String,
    /// Way in which supervisor and harness wait for each other: `spin` or `sleep`.
    pub hand_shake: String,
    /// The measured roof.
    pub peak: Peak,
    /// Further roofs: other vector widths, caches, one thread.
    pub roofs: Roofs,
}

/// The name of a processor that does not name itself.
const UNKNOWN: &str = "unknown";

/// The hardware that the speed of a program depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hardware {
    /// Name of the processor.
    pub cpu_model: String,
    /// Vendor, family, model, stepping.
    pub cpu_id: String,
    /// Instruction set extensions of numerical programs.
    pub isa: Vec<String>,
    /// Data caches of a core, bytes, by level.
    pub caches: BTreeMap<String, u64>,
}

impl Hardware {
    /// The hardware of this machine, with the caches of a core.
    pub fn of(core: usize) -> Self {
        let cpuinfo = read(Path::new("/"), "proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| cpuinfo_field(&cpuinfo, name);
        Self {
            cpu_model: field("model name").unwrap_or_else(|| UNKNOWN.into()),
            cpu_id: ["vendor_id", "cpu family", "model", "stepping"]
                .map(|f| field(f).unwrap_or_else(|| "?".into()))
                .join(" "),
            isa: numerical_isa(&field("flags").unwrap_or_default()),
            caches: data_caches(core),
        }
    }

    /// Bits of the widest vectors of its instruction sets; none if they name no vectors.
    pub fn vector_bits(&self) -> Option<u32> {
        let has = |name: &str| self.isa.iter().any(|known| known.starts_with(name));
        let widths = [("avx512", 512), ("avx", 256), ("sse2", 128), ("asimd", 128)];
        let widest = widths.into_iter().find(|(name, _)| has(name));
        widest.map(|(_, bits)| bits)
    }

    /// Its processor and its vectors in words, such as `EPYC 9654, vectors of 512 bits`; none if the processor does not name itself.
    pub fn words(&self) -> Option<String> {
        let name = Some(&self.cpu_model).filter(|name| *name != UNKNOWN)?;
        Some(match self.vector_bits() {
            Some(bits) => format!("{name}, vectors of {bits} bits"),
            None => name.clone(),
        })
    }

    /// A key that machines with equal hardware share.
    pub fn key(&self) -> String {
        let text = format!(
            "{}|{}|{:?}|{:?}",
            self.cpu_model, self.cpu_id, self.isa, self.caches
        );
        Digest::of(text.as_bytes()).short().to_owned()
    }
}

/// The facts that the caller of [`Attestation::collect`] supplies.
pub struct Circumstances<'a> {
    /// Core of the supervisor.
    pub supervisor_core: Option<usize>,
    /// Cores of the kernel.
    pub kernel_cores: &'a [usize],
    /// Number of threads that a kernel may use.
    pub threads: u32,
    /// True if the shared buffers got huge pages.
    pub buffers_in_huge_pages: bool,
    /// Compiler and its version.
    pub compiler: &'a str,
    /// The compiler's flags.
    pub flags: &'a [String],
    /// The linker's version.
    pub linker: &'a str,
    /// Language, version and flags of the other compilers.
    pub other_compilers: &'a [String],
    /// `spin` or `sleep`.
    pub hand_shake: &'a str,
    /// The measured roof.
    pub peak: Peak,
    /// Further roofs: other vector widths, caches, one thread.
    pub roofs: &'a Roofs,
}

impl Attestation {
    /// Reads the machine's properties from the kernel's files and adds the `circumstances`.
    pub fn collect(circumstances: &Circumstances) -> Self {
        let root = Path::new("/");
        let cpuinfo = read(root, "proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| cpuinfo_field(&cpuinfo, name);
        let first = circumstances.kernel_cores.first().copied().unwrap_or(0);
        let hardware = Hardware::of(first);
        let cpu = format!("sys/devices/system/cpu/cpu{first}");
        Self {
            cpu_model: hardware.cpu_model,
            cpu_id: hardware.cpu_id,
            microcode: field("microcode"),
            isa: hardware.isa,
            processors: cpuinfo
                .lines()
                .filter(|l| l.starts_with("processor"))
                .count() as u32,
            allowed_cores: crate::pinning::allowed_cores(),
            supervisor_core: circumstances.supervisor_core,
            kernel_cores: circumstances.kernel_cores.to_vec(),
            threads: circumstances.threads,
            smt_siblings: siblings(root, circumstances.kernel_cores),
            numa_nodes: numa_nodes(root),
            caches: hardware.caches,
            governor: read(root, &format!("{cpu}/cpufreq/scaling_governor")),
            boost: boost(root),
            aslr: read(root, "proc/sys/kernel/randomize_va_space").map(|v| v != "0"),
            huge_pages: read(root, "sys/kernel/mm/transparent_hugepage/enabled")
                .map(|v| chosen(&v)),
            buffers_in_huge_pages: circumstances.buffers_in_huge_pages,
            swap_bytes: memory::stated(root, "SwapTotal").unwrap_or(0),
            memory_bytes: memory::stated(root, "MemTotal").unwrap_or(0),
            kernel: read(root, "proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            hypervisor: hypervisor(root, &cpuinfo),
            clock_source: read(
                root,
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            compiler: circumstances.compiler.to_owned(),
            flags: circumstances.flags.to_vec(),
            linker: circumstances.linker.to_owned(),
            other_compilers: circumstances.other_compilers.to_vec(),
            harness: flopsmith_harness::VERSION.to_owned(),
            hand_shake: circumstances.hand_shake.to_owned(),
            peak: circumstances.peak,
            roofs: circumstances.roofs.clone(),
        }
    }

    /// The attestation as JSON; its digest is computed from this text.
    pub fn to_json(&self) -> String {
        // A struct of strings, numbers and string-keyed maps always has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Digest of the whole attestation.
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_json().as_bytes())
    }

    /// A key of the hardware and the toolchain that leaves out the state of this boot: timings from machines with equal
    /// keys may be compared.
    pub fn class_key(&self) -> String {
        let text = format!(
            "{}|{}|{:?}|{:?}|{}|{:?}",
            self.cpu_model, self.cpu_id, self.isa, self.caches, self.compiler, self.flags
        );
        Digest::of(text.as_bytes()).short().to_owned()
    }

    /// Changes that would make timings on this machine more reliable, one sentence each, the most important first.
    pub fn advice(&self) -> Vec<String> {
        let mut lines = self.pressing();
        lines.extend(self.minor());
        lines
    }

    /// Warnings to print before every run: the two most important causes that change clock rates or let other processes
    /// use the kernel's physical cores, and that the user can remove.
    pub fn warnings(&self) -> Vec<String> {
        let mut lines = self.pressing();
        lines.truncate(WARNINGS);
        lines
    }

    fn pressing(&self) -> Vec<String> {
        of([
            (
                self.supervisor_core.is_none(),
                "No core is left for the supervisor: the operating system's scheduler takes part in each timing, and intervals are wider. Give the timer one core more than the timed program has threads.",
            ),
            (
                self.governor.as_deref().is_some_and(|g| g != "performance"),
                "The frequency governor is not `performance`: clock rates follow the load. Set it with `cpupower frequency-set -g performance`.",
            ),
            (
                !self.smt_siblings.is_empty(),
                "A core of the timed program shares its physical core with another logical processor: keep that processor idle, or switch SMT off (`echo off > /sys/devices/system/cpu/smt/control`).",
            ),
            (
                self.boost == Some(true),
                "Turbo is on: the clock rate depends on the temperature and on the load of other cores. Switch turbo off for certified numbers.",
            ),
        ])
    }

    fn minor(&self) -> Vec<String> {
        of([
            (
                self.swap_bytes > 0,
                "Swap is on: reading a page back during a call spoils the time of this call. Switch swap off on timing nodes.",
            ),
            (
                !self.buffers_in_huge_pages,
                "The buffers lie in small pages: their physical placement varies from run to run, and changes the times of some programs by some per cent. Huge pages need root or user namespaces, Linux 5.2 or newer with transparent huge pages, and no `deny` in /sys/kernel/mm/transparent_hugepage/shmem_enabled.",
            ),
            (
                self.hypervisor.is_some(),
                "This is a virtual machine: other work on the host disturbs timings. Flopsmith times many short bursts of calls and rests its numbers on the fast ones, which other work disturbed least.",
            ),
        ])
    }
}

/// The lines whose condition holds.
fn of<const N: usize>(all: [(bool, &str); N]) -> Vec<String> {
    let so = all.into_iter().filter(|(so, _)| *so);
    so.map(|(_, line)| line.to_owned()).collect()
}

/// The trimmed text of a file below `root`; none if the file cannot be read or is empty.
pub fn read(root: &Path, path: &str) -> Option<String> {
    let text = std::fs::read_to_string(root.join(path)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn cpuinfo_field(cpuinfo: &str, name: &str) -> Option<String> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

fn numerical_isa(flags: &str) -> Vec<String> {
    let known = [
        "sse2", "sse4_2", "avx", "fma", "avx2", "avx_vnni", "avx10", "sve", "asimd",
    ];
    let mut found: Vec<String> = flags
        .split_whitespace()
        .filter(|f| known.contains(f) || f.starts_with("avx512") || f.starts_with("amx"))
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The word in brackets of `always [madvise] never`.
fn chosen(text: &str) -> String {
    text.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or_else(|| text.to_owned(), |(word, _)| word.to_owned())
}

/// Reads `0-2,5` as 0, 1, 2, 5.
pub fn core_list(text: &str) -> Vec<usize> {
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.trim().parse::<usize>(), to.trim().parse::<usize>()) {
            cores.extend(from..=to.min(from + 4096));
        }
    }
    cores
}

fn siblings(root: &Path, kernel_cores: &[usize]) -> Vec<usize> {
    let mut others: Vec<usize> = kernel_cores
        .iter()
        .filter_map(|c| {
            read(
                root,
                &format!("sys/devices/system/cpu/cpu{c}/topology/thread_siblings_list"),
            )
            .map(|list| (c, core_list(&list)))
        })
        .flat_map(|(c, list)| list.into_iter().filter(move |other| other != c))
        .collect();
    others.sort_unstable();
    others.dedup();
    others
}

fn numa_nodes(root: &Path) -> u32 {
    read(root, "sys/devices/system/node/online").map_or(1, |list| core_list(&list).len() as u32)
}

/// The data caches that a core uses, level → bytes.
pub fn data_caches(core: usize) -> BTreeMap<String, u64> {
    let root = Path::new("/");
    (0..8)
        .filter_map(|index| {
            let base = format!("sys/devices/system/cpu/cpu{core}/cache/index{index}");
            let kind = read(root, &format!("{base}/type"))?;
            let level = read(root, &format!("{base}/level"))?;
            let size = cache_bytes(&read(root, &format!("{base}/size"))?)?;
            (kind != "Instruction").then(|| (format!("L{level}"), size))
        })
        .collect()
}

fn cache_bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
    let scale = match unit.trim() {
        "" => 1,
        "K" | "kB" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

fn boost(root: &Path) -> Option<bool> {
    if let Some(no_turbo) = read(root, "sys/devices/system/cpu/intel_pstate/no_turbo") {
        return Some(no_turbo == "0");
    }
    read(root, "sys/devices/system/cpu/cpufreq/boost").map(|boost| boost != "0")
}

fn hypervisor(root: &Path, cpuinfo: &str) -> Option<String> {
    let flagged = cpuinfo_field(cpuinfo, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|f| f == "hypervisor"));
    let name =
        read(root, "sys/class/dmi/id/sys_vendor").or_else(|| read(root, "sys/hypervisor/type"));
    flagged.then(|| name.unwrap_or_else(|| "unnamed hypervisor".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roofline::Ceiling;

    fn here() -> Attestation {
        Attestation::collect(&Circumstances {
            supervisor_core: Some(0),
            kernel_cores: &[0],
            threads: 1,
            buffers_in_huge_pages: false,
            compiler: "gcc 12",
            flags: &["-O3".to_owned()],
            linker: "ld 2.40",
            other_compilers: &["C++: g++ 12, -O3".to_owned()],
            hand_shake: "spin",
            peak: Peak {
                gflops: 50.0,
                bandwidth_gb_s: 10.0,
                vector_bits: 256,
                threads: 1,
            },
            roofs: &Roofs {
                compute: vec![Ceiling {
                    vector_bits: 256,
                    threads: 1,
                    gflops: 50.0,
                }],
                ..Roofs::default()
            },
        })
    }

    #[test]
    fn the_same_machine_attests_the_same() {
        let (one, two) = (here(), here());
        assert_eq!(one.digest(), two.digest());
        assert!(one.processors > 0 && one.memory_bytes > 0 && one.kernel != "unknown");
        let back: Attestation = serde_json::from_str(&one.to_json()).expect("own JSON");
        assert_eq!(back, one);
    }

    #[test]
    fn the_hardware_is_that_of_the_attestation() {
        let (attestation, hardware) = (here(), Hardware::of(0));
        assert_eq!(attestation.cpu_model, hardware.cpu_model);
        assert_eq!(attestation.caches, hardware.caches);
        assert_eq!(hardware.key(), Hardware::of(0).key());
        let mut other = hardware.clone();
        other.cpu_id.push('1');
        assert_ne!(other.key(), hardware.key());
    }

    #[test]
    fn another_flag_is_another_attestation() {
        let one = here();
        let mut two = one.clone();
        two.flags.push("-ffast-math".into());
        assert_ne!(one.digest(), two.digest());
        assert_ne!(one.class_key(), two.class_key());
    }

    #[test]
    fn advice_follows_the_state() {
        let mut machine = here();
        machine.swap_bytes = 0;
        let before = machine.advice().len();
        machine.swap_bytes = 1 << 30;
        assert_eq!(machine.advice().len(), before + 1);
        machine.supervisor_core = None;
        assert_eq!(machine.advice().len(), before + 2);
    }

    #[test]
    fn a_run_begins_with_the_two_warnings_that_matter_most() {
        let mut machine = here();
        machine.governor = Some("performance".into());
        machine.smt_siblings = Vec::new();
        machine.boost = Some(false);
        machine.swap_bytes = 1 << 30;
        assert!(machine.warnings().is_empty(), "{:?}", machine.warnings());
        machine.boost = Some(true);
        assert_eq!(machine.warnings(), machine.advice()[..1]);
        machine.smt_siblings = vec![1];
        machine.governor = Some("powersave".into());
        let warnings = machine.warnings();
        assert_eq!(warnings, machine.advice()[..2]);
        assert!(warnings[0].contains("cpupower"), "{warnings:?}");
        assert!(warnings[1].contains("SMT"), "{warnings:?}");
    }

    #[test]
    fn the_widest_vectors_of_a_processor_are_told() {
        let of = |isa: &[&str]| Hardware {
            cpu_model: "a processor".into(),
            cpu_id: String::new(),
            isa: isa.iter().map(|name| (*name).to_owned()).collect(),
            caches: BTreeMap::new(),
        };
        for (isa, bits) in [
            (&["avx", "avx2", "avx512f", "sse2"][..], Some(512)),
            (&["avx", "avx2", "fma", "sse2"], Some(256)),
            (&["sse2"], Some(128)),
            (&["asimd", "sve"], Some(128)),
            (&["fma"], None),
        ] {
            assert_eq!(of(isa).vector_bits(), bits, "{isa:?}");
        }
        let words = |hardware: Hardware| hardware.words().unwrap_or_default();
        assert_eq!(words(of(&["avx2"])), "a processor, vectors of 256 bits");
        assert_eq!(words(of(&[])), "a processor");
        let nameless = Hardware {
            cpu_model: UNKNOWN.into(),
            ..of(&["asimd"])
        };
        assert_eq!(nameless.words(), None);
    }

    #[test]
    fn kernel_files_are_read_right() {
        assert_eq!(core_list("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(core_list(""), Vec::<usize>::new());
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(cache_bytes("32K"), Some(32 << 10));
        assert_eq!(cache_bytes("32X"), None);
        assert_eq!(
            numerical_isa("fpu avx2 fma avx512f amx_tile sse2 sse2"),
            ["amx_tile", "avx2", "avx512f", "fma", "sse2"]
        );
    }
}
