//! Calls of functions that objects hold, in a loop that goes from one object to the next: `s = s->run(n)`, or `s->run(n)`
//! with `s = s->next`. Each object is a state, and its function may be a loop of its own.
//!
//! A call counts if the object that holds the function follows from the objects before: by a member, an element or the
//! result of a call. A table that a counter walks along makes no states. In C, each called member holds its function. In
//! C++, only virtual functions and members that can hold a function count, since calls of other members are common.
//! Functions of the source that call a function of their argument count like that call.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Function, Hidden};
use crate::scan::token::Token;
use source::{Call, Path, STEPS, Set, Source};

/// The first call of a function of an object that the loop around it replaces. A source that is too long to follow counts
/// as one with such a call. `within` has the innermost function around each token.
pub(super) fn find(
    all: &[Token<'_>],
    functions: &[Function<'_>],
    within: &[Option<usize>],
    is_cxx: bool,
) -> Option<Hidden> {
    let source = Source::of(all, functions, within, is_cxx);
    if source.holds_none() {
        return None;
    }
    let choosers = choosers(&source);
    let mut loops = source.loops().into_iter();
    let found = loops.find_map(|range| states(&source, range, &choosers));
    found.or_else(|| {
        let at = all.first().filter(|_| source.steps() > STEPS)?.at;
        let what =
            "the calls of the source are too many to follow: a loop that runs through states";
        Some(Hidden {
            at,
            what: what.to_owned(),
        })
    })
}

/// The part of a call by which its caller chooses a function that the called function calls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Chooser {
    /// The object of which a member is called.
    Object,
    /// The argument of this number, an object that holds the function.
    Holder(usize),
    /// The argument of this number, the function itself.
    Function(usize),
}

/// For the name of each function, the parts of its calls that choose what it calls.
type Choosers<'t> = BTreeMap<&'t str, BTreeSet<Chooser>>;

/// A variable that chooses a function which is called.
struct Chosen<'t> {
    path: Path<'t>,
    /// True if the variable is the function, and no object that holds it.
    is_function: bool,
}

impl<'t> Chosen<'t> {
    fn by(path: Path<'t>) -> Self {
        Chosen {
            path,
            is_function: false,
        }
    }
}

/// The functions of the source that call a function which their callers choose.
fn choosers<'t>(source: &Source<'_, 't>) -> Choosers<'t> {
    let mut found: Choosers<'t> = BTreeMap::new();
    loop {
        let mut new = Vec::new();
        for call in &source.calls {
            let Some(number) = call.within else {
                continue;
            };
            let name = source.functions[number].name;
            for chosen in chosen(source, call, &found) {
                let root = chosen.path[0];
                let mut parameters = source.parameters[number].iter();
                let chooser = match parameters.position(|parameter| *parameter == root) {
                    Some(n) if chosen.is_function => Chooser::Function(n),
                    Some(n) => Chooser::Holder(n),
                    None if root == "this" => Chooser::Object,
                    None => continue,
                };
                let is_known = found
                    .get(name)
                    .is_some_and(|known| known.contains(&chooser));
                if !is_known {
                    new.push((name, chooser));
                }
            }
        }
        if new.is_empty() || source.spend(source.calls.len()).is_none() {
            return found;
        }
        for (name, chooser) in new {
            found.entry(name).or_default().insert(chooser);
        }
    }
}

/// The variables that choose the function of a call, or a function that the called one calls.
fn chosen<'t>(
    source: &Source<'_, 't>,
    call: &Call<'t>,
    choosers: &Choosers<'t>,
) -> Vec<Chosen<'t>> {
    let chain = &call.chain;
    let objects = || chain.objects().into_iter().map(Chosen::by);
    let this = || Chosen::by(vec!["this"]);
    let mut found: Vec<Chosen<'t>> = Vec::new();
    match chain.members.first() {
        Some(member) => found.extend(objects().filter(|_| source.may_hold(member))),
        None => {
            let is_parameter = |number: usize| source.parameters[number].contains(&chain.root);
            if call.within.is_some_and(is_parameter) {
                found.push(Chosen {
                    path: vec![chain.root],
                    is_function: true,
                });
            } else if source.is_own_member(chain.root) {
                found.push(this());
            }
            // A member of an object chooses: `table[s->kind](n)`, `(n ? s->run : other)(n)`.
            if chain.reads.iter().any(|path| path.len() > 1) {
                found.extend(chain.reads.iter().cloned().map(Chosen::by));
            }
        }
    }
    for chooser in choosers.get(call.name()).into_iter().flatten() {
        match *chooser {
            Chooser::Object if chain.members.is_empty() => found.push(this()),
            Chooser::Object => found.extend(objects()),
            Chooser::Holder(n) => {
                let argument = source.argument(call, n);
                found.extend(source.reads(argument).into_iter().map(Chosen::by));
            }
            Chooser::Function(n) => found.extend(passed(source, source.argument(call, n))),
        }
    }
    found
}

/// The variables that choose a function which is passed as this argument.
fn passed<'t>(source: &Source<'_, 't>, argument: Range<usize>) -> Vec<Chosen<'t>> {
    let last = argument.end.checked_sub(1).filter(|_| !argument.is_empty());
    let Some(chain) = last.and_then(|last| source.chain(last)) else {
        return Vec::new();
    };
    match chain.members.first() {
        Some(member) if source.may_hold(member) => {
            chain.objects().into_iter().map(Chosen::by).collect()
        }
        None if argument.len() == 1 => vec![Chosen {
            path: vec![chain.root],
            is_function: true,
        }],
        _ => Vec::new(),
    }
}

/// The first call within a loop whose object the loop replaces.
fn states<'t>(
    source: &Source<'_, 't>,
    range: Range<usize>,
    choosers: &Choosers<'t>,
) -> Option<Hidden> {
    let Range { start, end } = range;
    let first = source.calls.partition_point(|call| call.open < start);
    let calls = source.calls[first..].iter();
    let mut calls = calls.take_while(|call| call.open < end).peekable();
    calls.peek()?;
    let sets = Sets::of((start..end).filter_map(|at| source.set(at)).collect());
    calls.find_map(|call| {
        let chosen = chosen(source, call, choosers).into_iter();
        let objects = chosen.filter(|chosen| !chosen.is_function);
        let kept = kept(source, call, &sets);
        let mut paths = objects.map(|chosen| chosen.path).chain(kept);
        let is_state = paths.any(|path| {
            sets.is_linked(source, &path) || path == [call.chain.root] && source.gives_away(call)
        });
        is_state.then(|| Hidden {
            at: source.all[call.open].at,
            what: format!(
                "a loop goes from one object to the next and calls `{}`, a function that the object chooses: a loop that runs through states",
                call.name()
            ),
        })
    })
}

/// The objects from which the loop takes a function before it calls it: `f = s->run; s = f(n)`.
fn kept<'t>(source: &Source<'_, 't>, call: &Call<'t>, sets: &Sets<'t>) -> Vec<Path<'t>> {
    let chain = &call.chain;
    if !chain.members.is_empty() || source.names.contains(chain.root) {
        return Vec::new();
    }
    let variable = [chain.root];
    let set = sets.replacing(&variable).map(|n| &sets.all[n]);
    let values = set.filter_map(|set| source.chain(set.value.end.checked_sub(1)?));
    let held = values.filter(|value| {
        let member = value.members.first();
        member.is_some_and(|member| source.may_hold(member))
    });
    held.flat_map(|value| value.objects()).collect()
}

/// The places of a loop that set variables.
struct Sets<'t> {
    all: Vec<Set<'t>>,
    /// The places by the variables' names.
    by_root: BTreeMap<&'t str, Vec<usize>>,
}

impl<'t> Sets<'t> {
    fn of(all: Vec<Set<'t>>) -> Self {
        let mut by_root: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (n, set) in all.iter().enumerate() {
            by_root.entry(set.target[0]).or_default().push(n);
        }
        Sets { all, by_root }
    }

    fn of_root(&self, path: &[&str]) -> impl Iterator<Item = usize> {
        let found = path.first().and_then(|root| self.by_root.get(*root));
        found.into_iter().flatten().copied()
    }

    /// The places that replace what a path leads to, or an object on its way.
    fn replacing(&self, path: &[&str]) -> impl Iterator<Item = usize> {
        self.of_root(path)
            .filter(move |n| path.starts_with(&self.all[*n].target))
    }

    /// The places on whose variables the value of a place depends.
    fn before(&self, n: usize) -> impl Iterator<Item = usize> {
        self.all[n].reads.iter().flat_map(move |read| {
            let related =
                move |target: &Path<'t>| read.starts_with(target) || target.starts_with(read);
            self.of_root(read)
                .filter(move |n| related(&self.all[*n].target))
        })
    }

    /// These places, and all on which they depend.
    fn reached(
        &self,
        source: &Source<'_, 't>,
        from: impl Iterator<Item = usize>,
    ) -> BTreeSet<usize> {
        let mut todo: Vec<usize> = from.collect();
        let mut found = BTreeSet::new();
        while let Some(n) = todo.pop() {
            if found.insert(n) {
                let known = todo.len();
                todo.extend(self.before(n));
                if source.spend(1 + todo.len() - known).is_none() {
                    break;
                }
            }
        }
        found
    }

    /// True if the variable depends on its own value, or on that of another one, in an iteration before, by more than
    /// arithmetic.
    fn is_linked(&self, source: &Source<'_, 't>, path: &[&str]) -> bool {
        let reached = self.reached(source, self.replacing(path));
        reached
            .into_iter()
            .any(|n| self.all[n].follows && self.reached(source, self.before(n)).contains(&n))
    }
}
