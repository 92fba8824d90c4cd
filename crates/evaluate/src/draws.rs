//! Secrets and seeds.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The source of secrets and seeds.
#[derive(Debug, Clone)]
pub(crate) enum Draws {
    /// Unpredictable.
    System,
    /// Repeatable: the next number.
    Seeded(Arc<AtomicU64>),
}

impl Draws {
    pub fn seeded(seed: u64) -> Self {
        Draws::Seeded(Arc::new(AtomicU64::new(seed)))
    }

    /// 64 bits.
    pub fn random(&self) -> u64 {
        match self {
            Draws::System => random(),
            Draws::Seeded(next) => next.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// 256 bits.
    pub fn secret(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.random().to_le_bytes());
        }
        bytes
    }
}

/// 64 unpredictable bits.
pub fn random() -> u64 {
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_draws_repeat_and_those_of_the_system_do_not() {
        let draws = |seed| {
            let draws = Draws::seeded(seed);
            (draws.secret(), draws.random())
        };
        assert_eq!(draws(7), draws(7));
        assert_ne!(draws(7), draws(8));
        assert_ne!(Draws::System.secret(), Draws::System.secret());
    }
}
