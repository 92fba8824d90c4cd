//! How rows are dealt to workers.

use flopsmith_learner::batch::deal;
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_row_is_dealt_once_within_the_budget(
        lengths in prop::collection::vec(1usize..400, 0..80),
        workers in 1usize..6,
        budget in 1usize..3000,
    ) {
        let hands = deal(&lengths, workers, budget);
        prop_assert!(hands.len() <= workers);
        let mut seen: Vec<usize> = hands.iter().flatten().flatten().copied().collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..lengths.len()).collect::<Vec<_>>());
        for batch in hands.iter().flatten() {
            let longest = batch.iter().map(|r| lengths[*r]).max().unwrap_or_default();
            prop_assert!(batch.len() == 1 || batch.len() * longest <= budget);
        }
        // Nobody waits longer than for one row.
        let loads: Vec<usize> = hands.iter().map(|h| h.iter().flatten().map(|r| lengths[*r]).sum()).collect();
        if let (Some(most), Some(least), Some(longest)) = (loads.iter().max(), loads.iter().min(), lengths.iter().max()) {
            prop_assert!(most - least <= *longest);
        }
        prop_assert_eq!(&hands, &deal(&lengths, workers, budget));
    }

    #[test]
    fn rows_of_one_length_are_not_padded_and_fill_the_budget(rows in 1usize..60, length in 1usize..50, fit in 1usize..10) {
        let hands = deal(&vec![length; rows], 1, fit * length);
        prop_assert_eq!(hands.len(), 1);
        prop_assert_eq!(hands[0].len(), rows.div_ceil(fit));
    }
}
