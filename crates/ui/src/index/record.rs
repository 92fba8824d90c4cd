//! An outcome of the log as a record of fixed size: where its line is, and everything that lists and curves need.

use flopsmith_protocol::{Purpose, Technique, TechniqueSet};

/// Techniques that a record has room for: 16 in a field of their own, and the others among the flags.
const ROOM: usize = 20;

const _: () = assert!(
    Technique::ALL.len() <= ROOM,
    "a record has no room for more techniques"
);

/// Bytes of a record.
pub const LENGTH: usize = 64;

/// Set in every record that was written. Bytes that a crash of the machine left out are zero.
const WRITTEN: u16 = 1 << 15;
const PARTY: u16 = 0b11;
const DETECTED: u16 = 1 << 2;
const EXPLORATION: u16 = 1 << 3;
const CONVERGED: u16 = 1 << 4;
const REUSED: u16 = 1 << 5;
const BUILT: u16 = 1 << 6;
const PURPOSE_AT: u16 = 8;
/// The place of the bits of techniques behind the first 16.
const FURTHER_AT: u16 = 11;
const FURTHER: u16 = 0b1111;

/// The party that an outcome is due to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// None: the program was verified and measured.
    Measured,
    /// The program.
    Rejected,
    /// The infrastructure.
    Infrastructure,
    /// Not known.
    Unknown,
}

impl Party {
    /// The parties in the order of their codes.
    pub const ALL: [Party; 4] = [
        Party::Measured,
        Party::Rejected,
        Party::Infrastructure,
        Party::Unknown,
    ];
}

/// The purposes in the order of their codes.
const PURPOSES: [Purpose; 5] = [
    Purpose::Train,
    Purpose::EvaluateStart,
    Purpose::EvaluateEnd,
    Purpose::Search,
    Purpose::Certify,
];

/// An outcome as the index knows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record {
    /// Place of its line in the log, bytes.
    pub offset: u64,
    /// Hash of its candidate's id.
    pub id: u64,
    /// Hash of the id of the candidate that it measures again, follows in a conversation or varies; 0 without one.
    pub parent: u64,
    /// Length of its line without the line end, bytes.
    pub length: u32,
    /// Its step.
    pub step: u32,
    /// Its speed for comparisons, 10⁹ operations a second; 0 if it was not measured.
    pub gflops: f32,
    /// Its ratio to the plain reference for comparisons; 0 if it was not measured.
    pub ratio: f32,
    /// When it was decided, seconds since 1970.
    pub seconds: u32,
    /// Its problem in the names of the index.
    pub problem: u16,
    /// The reason of its verdict in the names of the index.
    pub reason: u16,
    /// Its node in the names of the index.
    pub node: u16,
    /// Deviation of the call times of its measurement as a share of the median call; 0 if it was not measured.
    pub noise: f32,
    /// Seconds of compiling, verifying and timing.
    pub work: f32,
    /// The techniques that were detected, if detection ran.
    pub techniques: Option<TechniqueSet>,
    /// The stage of its task.
    pub stage: u16,
    /// The party it is due to.
    pub party: Party,
    /// Its purpose.
    pub purpose: Purpose,
    /// True for an exploration sample.
    pub exploration: bool,
    /// True if its measurement is about as precise as its target.
    pub converged: bool,
    /// True if its measurement is that of an identical program.
    pub reused: bool,
    /// True if the program was built.
    pub built: bool,
}

impl Record {
    /// The bytes of the record.
    pub fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &self.offset.to_le_bytes());
        put(8, &self.id.to_le_bytes());
        put(16, &self.parent.to_le_bytes());
        put(24, &self.length.to_le_bytes());
        put(28, &self.step.to_le_bytes());
        put(32, &self.gflops.to_le_bytes());
        put(36, &self.ratio.to_le_bytes());
        put(40, &self.seconds.to_le_bytes());
        put(44, &self.problem.to_le_bytes());
        put(46, &self.reason.to_le_bytes());
        let techniques = self.techniques.unwrap_or_default();
        // The others are among the flags.
        put(48, &(techniques.bits() as u16).to_le_bytes());
        put(50, &self.stage.to_le_bytes());
        put(52, &self.flags().to_le_bytes());
        put(54, &self.node.to_le_bytes());
        put(56, &self.noise.to_le_bytes());
        put(60, &self.work.to_le_bytes());
        bytes
    }

    fn flags(&self) -> u16 {
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        let purpose = PURPOSES.iter().position(|p| *p == self.purpose);
        let further = self.techniques.unwrap_or_default().bits() >> 16;
        WRITTEN
            | self.party as u16
            | flag(self.techniques.is_some(), DETECTED)
            | flag(self.exploration, EXPLORATION)
            | flag(self.converged, CONVERGED)
            | flag(self.reused, REUSED)
            | flag(self.built, BUILT)
            | ((purpose.unwrap_or(0) as u16) << PURPOSE_AT)
            | ((further as u16 & FURTHER) << FURTHER_AT)
    }

    /// The record in these bytes; none if they were never written.
    pub fn decode(bytes: &[u8; LENGTH]) -> Option<Self> {
        let raw = Raw(bytes);
        let flags = raw.u16(52);
        if flags & WRITTEN == 0 {
            return None;
        }
        let purpose = usize::from((flags >> PURPOSE_AT) & 0b111);
        Some(Self {
            offset: raw.u64(0),
            id: raw.u64(8),
            parent: raw.u64(16),
            length: raw.u32(24),
            step: raw.step(),
            gflops: raw.gflops(),
            ratio: raw.ratio(),
            seconds: raw.u32(40),
            problem: raw.problem(),
            reason: raw.reason(),
            node: raw.u16(54),
            noise: raw.f32(56),
            work: raw.f32(60),
            techniques: raw
                .is_detected()
                .then(|| TechniqueSet::of_bits(raw.techniques())),
            stage: raw.u16(50),
            party: raw.party(),
            purpose: *PURPOSES.get(purpose)?,
            exploration: flags & EXPLORATION != 0,
            converged: flags & CONVERGED != 0,
            reused: flags & REUSED != 0,
            built: flags & BUILT != 0,
        })
    }

    /// True if the outcome repeats the measurement of another.
    pub fn repeats(&self) -> bool {
        self.purpose == Purpose::Certify
    }
}

/// Single fields of a record. A scan of a million records decodes none of them.
#[derive(Clone, Copy)]
pub struct Raw<'a>(pub &'a [u8; LENGTH]);

impl Raw<'_> {
    fn bytes<const N: usize>(self, at: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.0[at..at + N]);
        field
    }

    fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }

    fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    fn f32(self, at: usize) -> f32 {
        f32::from_le_bytes(self.bytes(at))
    }

    /// Hash of the candidate's id.
    pub fn id(self) -> u64 {
        self.u64(8)
    }

    /// Hash of the parent's id.
    pub fn parent(self) -> u64 {
        self.u64(16)
    }

    /// The step.
    pub fn step(self) -> u32 {
        self.u32(28)
    }

    /// The speed.
    pub fn gflops(self) -> f32 {
        self.f32(32)
    }

    /// The ratio to the plain reference.
    pub fn ratio(self) -> f32 {
        self.f32(36)
    }

    /// The problem.
    pub fn problem(self) -> u16 {
        self.u16(44)
    }

    /// The reason of the verdict.
    pub fn reason(self) -> u16 {
        self.u16(46)
    }

    /// The bits of the detected techniques.
    pub fn techniques(self) -> u32 {
        let further = (self.u16(52) >> FURTHER_AT) & FURTHER;
        u32::from(self.u16(48)) | (u32::from(further) << 16)
    }

    /// True if detection ran.
    pub fn is_detected(self) -> bool {
        self.u16(52) & DETECTED != 0
    }

    /// The stage of the task.
    pub fn stage(self) -> u16 {
        self.u16(50)
    }

    /// True if the outcome repeats the measurement of another.
    pub fn repeats(self) -> bool {
        let purpose = usize::from((self.u16(52) >> PURPOSE_AT) & 0b111);
        PURPOSES.get(purpose) == Some(&Purpose::Certify)
    }

    /// The party that the outcome is due to.
    pub fn party(self) -> Party {
        Party::ALL[usize::from(self.u16(52) & PARTY)]
    }
}

/// The bit of a technique in [`TechniqueSet::bits`].
pub fn bit(technique: Technique) -> u32 {
    TechniqueSet::EMPTY.with(technique).bits()
}

/// The hash of an id. 0 stands for none.
pub fn hash(id: &str) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&blake3::hash(id.as_bytes()).as_bytes()[..8]);
    u64::from_le_bytes(first).max(1)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_zeros_are_none() {
        let record = Record {
            offset: u64::MAX - 1,
            id: hash("a"),
            parent: hash("b"),
            length: 7,
            step: 9,
            gflops: 1.5,
            ratio: 2.5,
            seconds: 11,
            problem: 12,
            reason: 13,
            node: 15,
            noise: 0.25,
            work: 3.5,
            techniques: Some("simd+skewing".parse().unwrap()),
            stage: 14,
            party: Party::Unknown,
            purpose: Purpose::Certify,
            exploration: true,
            converged: false,
            reused: true,
            built: false,
        };
        assert_eq!(Record::decode(&record.encode()), Some(record));
        let bytes = record.encode();
        let raw = Raw(&bytes);
        assert_eq!((raw.stage(), raw.repeats()), (14, true));
        let other = Record {
            techniques: None,
            party: Party::Measured,
            purpose: Purpose::Train,
            exploration: false,
            converged: true,
            reused: false,
            built: true,
            ..record
        };
        assert_eq!(Record::decode(&other.encode()), Some(other));
        assert!(!Raw(&other.encode()).repeats());
        assert_eq!(Record::decode(&[0; LENGTH]), None);
    }

    fn with(techniques: Option<TechniqueSet>) -> Record {
        Record {
            offset: 1,
            id: hash("a"),
            parent: 0,
            length: 2,
            step: 3,
            gflops: 4.0,
            ratio: 5.0,
            seconds: 6,
            problem: 7,
            reason: 8,
            node: 9,
            noise: 0.5,
            work: 1.5,
            techniques,
            stage: u16::MAX,
            party: Party::Unknown,
            purpose: Purpose::Certify,
            exploration: true,
            converged: true,
            reused: true,
            built: true,
        }
    }

    #[test]
    fn every_technique_has_a_place_in_a_record() {
        let sets =
            [1, 3, Technique::ALL.len()].map(|size| TechniqueSet::all().subsets_of_size(size));
        for set in sets.into_iter().flatten() {
            let record = with(Some(set));
            let bytes = record.encode();
            assert_eq!(Raw(&bytes).techniques(), set.bits());
            assert_eq!(Record::decode(&bytes), Some(record));
        }
        assert_eq!(Raw(&with(None).encode()).techniques(), 0);
    }

    /// A record as it was written when a set had 16 bits.
    #[test]
    fn an_earlier_record_has_the_same_techniques() {
        for bits in [0_u16, 0x0001, 0x0221, 0x8000, u16::MAX] {
            let mut bytes = with(Some(TechniqueSet::EMPTY)).encode();
            bytes[48..50].copy_from_slice(&bits.to_le_bytes());
            let set = Record::decode(&bytes).unwrap().techniques.unwrap();
            assert_eq!(set.bits(), u32::from(bits));
        }
        let simd: TechniqueSet = "simd+skewing".parse().unwrap();
        let bytes = with(Some(simd)).encode();
        assert_eq!(bytes[48..50], 0x0220_u16.to_le_bytes());
    }
}
