//! A certified program is verified in each of its certified layouts.

use super::{GOOD, programs, said};
use crate::one_core::on_one_core;
use crate::{flopsmith, last_object};

/// Wrong if its entry lies on a cache line with an even number, or an odd one. In a certification four of the five
/// objects lie an odd number of lines after the first one.
fn wrong_on_lines(odd: u32) -> String {
    GOOD.replacen(
        "double*C){\n",
        &format!("double*C){{\n if(((unsigned long)dgemm>>6)%2=={odd}){{C[0]=1;return;}}\n"),
        1,
    )
}

#[test]
fn a_program_that_is_right_in_its_first_layout_only_is_refused() {
    on_one_core();
    let mut in_another_layout = 0;
    for odd in [0, 1] {
        let folder = programs(&[("layouts.c", &wrong_on_lines(odd))]);
        let output = flopsmith()
            .arg("bench")
            .arg(folder.path().join("layouts.c"))
            .args([
                "--problem",
                "dgemm",
                "--purpose",
                "certify",
                "--format",
                "json",
            ])
            .output()
            .unwrap();
        let object = last_object(&output);
        assert_eq!(
            object["reason"],
            "wrong_result",
            "{object} {}",
            said(&output)
        );
        in_another_layout += u32::from(object.to_string().contains("its code in another layout"));
    }
    // The other program is already wrong in its first layout.
    assert_eq!(in_another_layout, 1);
}
