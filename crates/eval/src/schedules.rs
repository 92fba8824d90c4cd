//! The schedule space as a model: each answer is a random program of the space, drawn by itself.

use anyhow::Result;
use flopsmith_generator::schedule::Space as ProductSpace;
use flopsmith_generator::template::Space as TemplateSpace;
use flopsmith_nest::generate::Space;
use flopsmith_nest::labels::techniques;
use flopsmith_nest::{read, space};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::TechniqueSet;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::Order;
use crate::answer::Answer;
use crate::folder::Folder;
use crate::model::Model;

/// Draws for one program: many schedules break a dependence.
const DRAWS: usize = 400;

/// Adds the answers that the folder does not have yet.
pub(crate) fn answer(order: &Order, model: &Model, folder: &mut Folder) -> Result<()> {
    for problem in &order.problems {
        let id = problem.id.as_str();
        let missing = folder.missing(&model.name, id);
        if missing.is_empty() {
            continue;
        }
        let programs = Programs::of(problem);
        let permitted = order.permitted(problem);
        let answers = missing.into_iter().map(|number| {
            let seed = order.seed.wrapping_add(u64::from(number));
            let drawn = match &programs {
                Ok(programs) => programs.draw(problem, permitted, seed),
                Err(why) => Err(why.clone()),
            };
            let (program, why) = match drawn {
                Ok(program) => (Some(program), None),
                Err(why) => (None, Some(why)),
            };
            Answer {
                model: model.name.clone(),
                problem: id.to_owned(),
                number,
                seed: Some(seed),
                prompt: None,
                // A space without a program has a reason in its place.
                answer: why,
                finished: None,
                program,
            }
        });
        folder.add_answers(answers.collect())?;
    }
    Ok(())
}

/// The programs of a problem's space.
pub enum Programs {
    /// Of a matrix product.
    Product(ProductSpace),
    /// Of a template.
    Template(Box<TemplateSpace>),
    /// Of another loop nest.
    Nest(Box<Space>),
}

impl Programs {
    /// The space of a problem, or the reason why it has none.
    ///
    /// # Errors
    /// A sentence: candidates are not in C, or the reference is no affine loop nest and has no template.
    pub fn of(problem: &Problem) -> Result<Self, String> {
        if problem.language != Language::C {
            return Err(format!(
                "the schedule space writes programs in C, and this problem's must be in {}",
                problem.language.name()
            ));
        }
        if let Some(space) = ProductSpace::of(problem.id.as_str()) {
            return Ok(Self::Product(space));
        }
        if let Some(space) = TemplateSpace::of(problem, problem.max_source_bytes) {
            return Ok(Self::Template(Box::new(space)));
        }
        let program = read::read(problem).map_err(|why| {
            format!(
                "the schedule space writes programs for affine loop nests and templates; reference.c is no affine loop nest ({why}), and \
                 problem.toml names no template"
            )
        })?;
        let space = Space::new(program).listing(problem.techniques);
        Ok(Self::Nest(Box::new(space)))
    }

    /// A random program within the permitted techniques. The same seed gives the same program.
    ///
    /// # Errors
    /// A sentence: the space has no such program, or many draws gave none.
    pub fn draw(
        &self,
        problem: &Problem,
        permitted: TechniqueSet,
        seed: u64,
    ) -> Result<String, String> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        match self {
            Self::Product(of) => Ok(of.sample(&mut rng, permitted).render()),
            Self::Template(of) => {
                let points = of.points().iter();
                let within: Vec<_> = points
                    .filter(|point| of.techniques(point).is_subset(permitted))
                    .collect();
                let drawn = within.choose(&mut rng).and_then(|point| of.program(point));
                drawn.ok_or_else(|| format!("the template has no program within {permitted}"))
            }
            Self::Nest(of) => (0..DRAWS)
                .find_map(|_| {
                    let schedule = space::draw(of, permitted, &mut rng);
                    let rendered = of.render(&schedule).ok()?;
                    let fits = rendered.text.len() <= problem.max_source_bytes
                        && techniques(of, &rendered).is_subset(permitted);
                    fits.then_some(rendered.text)
                })
                .ok_or_else(|| format!("{DRAWS} draws of the schedule space gave no program")),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::shipped;

    use super::*;

    #[test]
    fn programs_follow_from_their_seeds_and_keep_to_the_permitted_techniques() {
        for name in ["dgemm", "dsyrk"] {
            let problem = Problem::load(&shipped::at(name)).unwrap();
            let programs = Programs::of(&problem).unwrap();
            let draw = |seed| programs.draw(&problem, problem.techniques, seed).unwrap();
            assert_eq!(draw(1), draw(1), "{name}");
            assert!((2..6).any(|seed| draw(seed) != draw(1)), "{name}");
            let plain = programs.draw(&problem, TechniqueSet::EMPTY, 1).unwrap();
            assert!(
                !plain.contains("#pragma omp") && !plain.contains("vector_size"),
                "{plain}"
            );
        }
    }

    #[test]
    fn a_problem_without_a_space_says_why() {
        let mut problem = Problem::load(&shipped::at("sort64")).unwrap();
        assert!(Programs::of(&problem).is_ok());
        problem.template = None;
        let why = Programs::of(&problem).err().unwrap();
        assert!(why.contains("affine"), "{why}");
    }
}
