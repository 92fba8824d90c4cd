//! The archive view: a heat map in which every set of techniques has its place.
//!
//! Half of the techniques select the row, the other half the column; dots at the edges of the view show which. Patterns
//! such as a technique that pays in every combination, or an untried region, are then visible, which no list shows.

use std::collections::BTreeMap;

use flopsmith_protocol::{Technique, TechniqueSet};

use crate::model::CellRow;
use crate::text::{coordinate as c, escape, number, short, words};

/// Steps of the colour scale, `h0` to `h6` in the style sheet.
pub const SHADES: usize = 7;
const DOT: f64 = 13.0;
const VIEW: f64 = 352.0;
const NAMES: f64 = 102.0;
/// The most techniques whose sets have places: each further one would double the number of places.
pub const MOST: usize = 10;

/// The shade of a speed; `top` is the speed at the upper end of the scale.
pub fn shade(gflops: f64, top: f64) -> usize {
    let share = gflops / top;
    if share.is_finite() && share > 0.0 {
        ((share * SHADES as f64) as usize).min(SHADES - 1)
    } else {
        0
    }
}

/// The anchor of a cell's row in the table.
pub fn anchor(set: TechniqueSet) -> String {
    format!("cell-{}", set.bits())
}

/// All subsets of the given techniques, small ones first.
fn subsets(techniques: &[Technique]) -> Vec<TechniqueSet> {
    let all: TechniqueSet = techniques.iter().copied().collect();
    (0..=techniques.len())
        .flat_map(|size| all.subsets_of_size(size))
        .collect()
}

/// The archive view; empty if there are neither techniques nor cells. Of more than [`MOST`] techniques those of the cells
/// have places. If these are too many as well, a sentence stands for the view.
pub fn html(techniques: TechniqueSet, cells: &[CellRow], top: f64) -> String {
    let found = cells.iter().fold(TechniqueSet::EMPTY, |found, cell| {
        found.union(cell.techniques)
    });
    let whole = techniques.union(found);
    if whole.is_empty() && cells.is_empty() {
        return String::new();
    }
    let pool = match whole.len() > MOST {
        true => found,
        false => whole,
    };
    if pool.len() > MOST {
        return format!(
            "<p class=\"lead\">Programs of this run have {} techniques, whose sets are too many for a map.</p>",
            pool.len()
        );
    }
    let all: Vec<Technique> = pool.iter().collect();
    let (of_rows, of_columns) = all.split_at(all.len() / 2);
    let (rows, columns) = (subsets(of_rows), subsets(of_columns));
    let side = (VIEW / columns.len().max(rows.len()) as f64).min(44.0);
    // The names of the columns' techniques are written above the rows' dots.
    let left = (DOT * of_rows.len() as f64 + 8.0).max(NAMES);
    let dots = left - 8.0 - DOT * of_rows.len() as f64;
    let head = DOT * of_columns.len() as f64 + 8.0;
    let (right, bottom) = (
        left + side * columns.len() as f64,
        head + side * rows.len() as f64,
    );
    let by_set: BTreeMap<TechniqueSet, &CellRow> =
        cells.iter().map(|cell| (cell.techniques, cell)).collect();

    let mut svg = format!(
        "<div class=\"scroll\"><svg class=\"heat\" viewBox=\"0 0 {} {}\" role=\"group\" aria-label=\"{}\">",
        c(right + 2.0),
        c(bottom + NAMES),
        escape(&format!(
            "Archive of {} technique sets by best speed; the table below holds the same numbers",
            cells.len()
        ))
    );
    svg.push_str(
        "<defs><pattern id=\"hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <line class=\"hatch\" x1=\"0\" x2=\"0\" y1=\"0\" y2=\"5\"/></pattern></defs>",
    );
    for (i, technique) in of_columns.iter().enumerate() {
        let y = DOT * (i as f64 + 0.5);
        for (j, set) in columns.iter().enumerate() {
            dot(
                &mut svg,
                left + side * (j as f64 + 0.5),
                y,
                set.contains(*technique),
            );
        }
        svg.push_str(&format!(
            "<text class=\"axis\" text-anchor=\"end\" x=\"{}\" y=\"{}\">{}</text>",
            c(left - 4.0),
            c(y + 4.0),
            escape(&words(technique.name()))
        ));
    }
    for (i, technique) in of_rows.iter().enumerate() {
        let x = dots + DOT * (i as f64 + 0.5);
        for (j, set) in rows.iter().enumerate() {
            dot(
                &mut svg,
                x,
                head + side * (j as f64 + 0.5),
                set.contains(*technique),
            );
        }
        let (tx, ty) = (c(x + 4.0), c(bottom + 6.0));
        svg.push_str(&format!(
            "<text class=\"axis\" text-anchor=\"end\" transform=\"translate({tx} {ty}) rotate(-90)\">{}</text>",
            escape(&words(technique.name()))
        ));
    }
    for (i, row) in rows.iter().enumerate() {
        for (j, column) in columns.iter().enumerate() {
            let set = row.union(*column);
            let (x, y) = (left + side * j as f64, head + side * i as f64);
            square(&mut svg, set, by_set.get(&set).copied(), (x, y, side), top);
        }
    }
    svg.push_str("</svg></div>");
    svg
}

fn dot(svg: &mut String, x: f64, y: f64, there: bool) {
    let (class, radius) = if there { ("in", 3.6) } else { ("out", 1.4) };
    svg.push_str(&format!(
        "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{radius}\"/>",
        c(x),
        c(y)
    ));
}

fn square(
    svg: &mut String,
    set: TechniqueSet,
    cell: Option<&CellRow>,
    (x, y, side): (f64, f64, f64),
    top: f64,
) {
    let place = format!(
        "x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\"",
        c(x + 0.5),
        c(y + 0.5),
        c(side - 1.0),
        c(side - 1.0)
    );
    let shown = |cell: &&CellRow| {
        cell.tried > 0 || cell.best_gflops.is_some() || cell.unconfirmed_gflops.is_some()
    };
    let Some(cell) = cell.filter(shown) else {
        svg.push_str(&format!("<rect class=\"none\" {place}/>"));
        return;
    };
    let name = escape(&name(set));
    let (speed, square, text, note) = match (cell.best_gflops, cell.unconfirmed_gflops) {
        (Some(best), _) => {
            let shade = shade(best, top);
            (best, format!("h{shade}"), format!("v{shade}"), "")
        }
        (None, Some(once)) => (
            once,
            "once".to_owned(),
            "vonce".to_owned(),
            ", measured once, not confirmed",
        ),
        (None, None) => {
            let what = if cell.correct == 0 {
                "none correct".to_owned()
            } else {
                format!("{} correct, but not when measured again", cell.correct)
            };
            svg.push_str(&format!(
                "<rect class=\"failed\" {place}><title>{name}: tried {}, {what}</title></rect>",
                cell.tried
            ));
            return;
        }
    };
    svg.push_str(&format!(
        "<a href=\"#{}\"><rect class=\"{square}\" {place}/><text class=\"{text}\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <title>{name}: {} GFLOPS{note}, {} of {} correct</title></a>",
        anchor(set),
        c(x + side / 2.0),
        c(y + side / 2.0 + 3.5),
        short(speed),
        number(speed),
        cell.correct,
        cell.tried,
    ));
}

/// The name of a set for readers.
pub fn name(set: TechniqueSet) -> String {
    if set.is_empty() {
        return "no technique".into();
    }
    set.iter()
        .map(|t| words(t.name()))
        .collect::<Vec<_>>()
        .join(" + ")
}

/// The legend of the colours.
pub fn legend(top: f64) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    for i in 0..SHADES {
        let from = top * i as f64 / SHADES as f64;
        out.push_str(&format!(
            "<li><i class=\"swatch h{i}\"></i>{}{}</li>",
            if i + 1 == SHADES { "≥ " } else { "" },
            match i {
                i if i + 1 == SHADES => number(from),
                _ => format!(
                    "{}–{}",
                    number(from),
                    number(top * (i + 1) as f64 / SHADES as f64)
                ),
            }
        ));
    }
    out.push_str(
        "<li><i class=\"swatch once\"></i>measured once, not confirmed</li>\
         <li><i class=\"swatch failed\"></i>tried, none correct</li><li><i class=\"swatch none\"></i>not tried</li></ul>",
    );
    out
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_the_pool_has_one_place() {
        let cells: Vec<CellRow> = TechniqueSet::general()
            .subsets_of_size(2)
            .into_iter()
            .map(|techniques| CellRow {
                techniques,
                tried: 3,
                correct: 1,
                best_gflops: Some(7.0),
                ..CellRow::default()
            })
            .collect();
        let page = html(TechniqueSet::general(), &cells, 50.0);
        // An image has no content for a screen reader, and this one has links.
        assert!(page.contains("role=\"group\"") && !page.contains("role=\"img\""));
        assert_eq!(page.matches("<rect").count(), 256);
        for cell in &cells {
            assert_eq!(
                page.matches(&format!("href=\"#{}\"", anchor(cell.techniques)))
                    .count(),
                1
            );
        }
    }

    #[test]
    fn of_many_techniques_those_of_the_cells_have_places() {
        let row = |techniques: TechniqueSet| CellRow {
            techniques,
            tried: 1,
            ..CellRow::default()
        };
        let few = [row("simd+fusion".parse().unwrap())];
        let page = html(TechniqueSet::of_modules(), &few, 50.0);
        assert_eq!(page.matches("<rect").count(), 4);
        let page = html(TechniqueSet::EMPTY, &[row(TechniqueSet::all())], 50.0);
        assert!(page.contains("20 techniques") && !page.contains("<rect"));
    }

    #[test]
    fn cells_tried_in_vain_differ_from_untried_ones() {
        let techniques: TechniqueSet = "simd+unroll".parse().unwrap();
        let page = html(
            techniques,
            &[CellRow {
                techniques,
                tried: 4,
                ..CellRow::default()
            }],
            50.0,
        );
        assert!(page.contains("unroll + simd: tried 4, none correct"));
        assert_eq!(
            (
                page.matches("class=\"failed\"").count(),
                page.matches("class=\"none\"").count()
            ),
            (1, 3)
        );
    }

    #[test]
    fn cells_measured_once_differ_from_confirmed_ones() {
        let row = |techniques: &str, tried| CellRow {
            techniques: techniques.parse().unwrap(),
            tried,
            correct: 2,
            ..CellRow::default()
        };
        let page = html(
            TechniqueSet::EMPTY,
            &[
                CellRow {
                    best_gflops: Some(49.0),
                    ..row("simd", 5)
                },
                CellRow {
                    unconfirmed_gflops: Some(50.0),
                    ..row("unroll", 4)
                },
                row("simd+unroll", 3),
            ],
            50.0,
        );
        let count = |class: &str| page.matches(&format!("class=\"{class}\"")).count();
        assert_eq!((count("h6"), count("once"), count("vonce")), (1, 1, 1));
        assert!(page.contains("simd: 49.0 GFLOPS, 2 of 5 correct"));
        assert!(page.contains("unroll: 50.0 GFLOPS, measured once, not confirmed, 2 of 4 correct"));
        assert!(page.contains("unroll + simd: tried 3, 2 correct, but not when measured again"));
        assert!(legend(50.0).contains("swatch once"));
    }

    #[test]
    fn a_slow_program_is_not_shown_as_none() {
        let slow = CellRow {
            techniques: "simd".parse().unwrap(),
            tried: 1,
            correct: 1,
            best_gflops: Some(0.42),
            ..CellRow::default()
        };
        let page = html(TechniqueSet::EMPTY, &[slow], 1.0);
        assert!(page.contains(">0.42</text>"), "{page}");
    }

    #[test]
    fn shades_cover_the_scale() {
        let shades: Vec<usize> = [-1.0, 0.0, 7.0, 8.0, 49.0, 50.0, 60.0, f64::NAN]
            .map(|g| shade(g, 50.0))
            .to_vec();
        assert_eq!(shades, [0, 0, 0, 1, 6, 6, 6, 0]);
        assert_eq!(shade(1.0, 0.0), 0);
    }
}
