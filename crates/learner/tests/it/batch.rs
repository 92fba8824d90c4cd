//! The distribution of rows over workers.

use flopsmith_learner::batch::deal;
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_unit_is_dealt_once_within_the_budget(
        sizes in prop::collection::vec((1usize..3, 1usize..400), 0..80),
        workers in 1usize..6,
        budget in 1usize..3000,
    ) {
        let hands = deal(&sizes, workers, budget);
        prop_assert!(hands.len() <= workers);
        let mut seen: Vec<usize> = hands.iter().flatten().flatten().copied().collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..sizes.len()).collect::<Vec<_>>());
        for batch in hands.iter().flatten() {
            let longest = batch.iter().map(|u| sizes[*u].1).max().unwrap_or_default();
            let rows: usize = batch.iter().map(|u| sizes[*u].0).sum();
            prop_assert!(batch.len() == 1 || rows * longest <= budget);
        }
        // No worker waits longer than for one unit and the differences of length that the order hides.
        let size = |u: &usize| sizes[*u].0 * sizes[*u].1;
        let loads: Vec<usize> = hands.iter().map(|h| h.iter().flatten().map(size).sum()).collect();
        let largest = sizes.iter().map(|(rows, tokens)| rows * tokens).max();
        if let (Some(most), Some(least), Some(largest)) = (loads.iter().max(), loads.iter().min(), largest) {
            prop_assert!(most - least <= largest);
        }
        prop_assert_eq!(&hands, &deal(&sizes, workers, budget));
    }

    #[test]
    fn rows_of_one_length_are_not_padded_and_fill_the_budget(rows in 1usize..60, length in 1usize..50, fit in 1usize..10) {
        let hands = deal(&vec![(1, length); rows], 1, fit * length);
        prop_assert_eq!(hands.len(), 1);
        prop_assert_eq!(hands[0].len(), rows.div_ceil(fit));
    }
}
