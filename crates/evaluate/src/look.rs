//! How closely a program is looked at before it is timed.

use flopsmith_measure::{Purpose, Thoroughness};

/// How closely a program is looked at before it is timed. Each look includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Look {
    /// A first look: the cheap verification.
    Screening,
    /// Before a program counts, as an elite or in a ranking: it is verified in full, and the sanitizers check it if there
    /// are any.
    Full,
    /// Before the program is certified: it is verified in other code layouts as well.
    Certified,
}

impl Look {
    /// Depth of the verification.
    pub fn thoroughness(self) -> Thoroughness {
        match self {
            Look::Screening => Thoroughness::Screening,
            Look::Full | Look::Certified => Thoroughness::Full,
        }
    }

    /// True if the sanitizers check the program, where there are any.
    pub fn sanitizes(self) -> bool {
        self >= Look::Full
    }

    /// True if the program is verified in other code layouts.
    pub fn verifies_layouts(self) -> bool {
        self == Look::Certified
    }
}

/// The look that a measurement to this standard needs.
impl From<Purpose> for Look {
    fn from(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Screen => Look::Screening,
            Purpose::Rank => Look::Full,
            Purpose::Certify => Look::Certified,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stricter_standard_leaves_no_check_out() {
        let looks = [Purpose::Screen, Purpose::Rank, Purpose::Certify].map(Look::from);
        let checks = looks.map(|look| {
            (
                look.thoroughness(),
                look.sanitizes(),
                look.verifies_layouts(),
            )
        });
        assert_eq!(
            checks,
            [
                (Thoroughness::Screening, false, false),
                (Thoroughness::Full, true, false),
                (Thoroughness::Full, true, true),
            ]
        );
        assert!(looks.is_sorted());
    }
}
