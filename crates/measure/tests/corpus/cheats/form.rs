//! The parts of a problem's entry in C, from which the tests build cheats.

use flopsmith_problem::{Arg, ArgKind, Content, Element, Params, Problem, Role};

/// Static arrays start at a cache line, like the arrays of a call, and so does each part of a table of them.
const ALIGN: &str = "__attribute__((aligned(64)))";
const LINE: usize = 16;

/// The inputs and outputs of a problem's entry, in C.
pub struct Form<'p> {
    problem: &'p Problem,
    sizes: Vec<Size>,
    /// Name and type of each floating-point number that is passed by value.
    scalars: Vec<(String, &'static str)>,
    /// Arrays that a call must leave alone.
    pub inputs: Vec<Array>,
    /// Arrays that a call writes.
    pub outputs: Vec<Array>,
}

/// An integer of the entry.
struct Size {
    name: String,
    timed: usize,
    /// The largest one of all calls in the problem's definition.
    visible: usize,
    /// True if some verified calls have another value.
    varies: bool,
}

/// An array of the entry.
pub struct Array {
    pub name: String,
    pub element: Element,
    /// Largest number of elements in any call.
    pub most: usize,
    /// Number of elements in a call, in C.
    pub count: String,
    /// Is it read and written?
    pub in_place: bool,
    /// Is it where rows begin? Its first and its last number are the same in every call.
    offsets: bool,
}

impl<'p> Form<'p> {
    pub fn of(problem: &'p Problem) -> Self {
        let hidden = &problem.verify.hidden;
        let mut largest = problem.timed.clone();
        for sizes in hidden {
            largest.insert(sizes.param.clone(), sizes.max);
        }
        let mut calls: Vec<&Params> = vec![&problem.timed, &largest];
        calls.extend(&problem.verify.visible);
        let mut form = Self {
            problem,
            sizes: Vec::new(),
            scalars: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        for arg in &problem.entry.args {
            match &arg.kind {
                ArgKind::Int { value } => form.sizes.push(Size {
                    name: arg.name.clone(),
                    timed: value.count(&problem.timed).unwrap(),
                    visible: {
                        let visible = problem.verify.visible.iter();
                        visible
                            .map(|call| value.count(call).unwrap())
                            .max()
                            .unwrap()
                    },
                    varies: hidden.iter().any(|h| value.params().contains(&h.param)),
                }),
                ArgKind::Scalar { element, .. } => {
                    form.scalars.push((arg.name.clone(), element.c_type()));
                }
                ArgKind::Array { role, .. } => {
                    let array = Array::of(problem, arg, &calls);
                    match role {
                        Role::Input => form.inputs.push(array),
                        Role::Output | Role::InOut => form.outputs.push(array),
                    }
                }
            }
        }
        form
    }

    /// A program: the honest kernel under the name `computed`, the code before the entry, and the body of the entry.
    pub fn program(&self, before: &str, body: &str) -> String {
        // If the reference is slow, a measurement may end after two calls of it.
        let problem = self.problem;
        let honest = problem.baseline_source.as_ref();
        let honest = honest.unwrap_or(&problem.reference_source);
        let entry = format!("void {}(", problem.entry.name);
        assert_eq!(honest.matches(&entry).count(), 1, "{}", problem.id);
        // The kernel is compiled apart from its caller, so its speed stays the same.
        let honest = honest.replacen(&entry, "__attribute__((noipa)) static void computed(", 1);
        let prototype = problem.entry.prototype.trim_end().trim_end_matches(';');
        format!(
            "#include <stddef.h>\n#include <string.h>\n{honest}\n{before}{prototype} {{\n{body}}}\n"
        )
    }

    /// Calls the honest kernel, with other inputs where they are floats and with other outputs, whose names begin so. Arrays that
    /// it reads and writes are copied to there first.
    pub fn compute(&self, inputs: &str, outputs: &str, slot: &str) -> String {
        let elsewhere = |array: &&Array| array.in_place && !outputs.is_empty();
        let copied = self.outputs.iter().filter(elsewhere);
        let copied: String = copied
            .map(|Array { name, count, .. }| {
                format!("  memcpy({outputs}{name}{slot}, {name}, sizeof *{name} * ({count}));\n")
            })
            .collect();
        let given = |arg: &Arg| match &arg.kind {
            ArgKind::Array { role, .. } if role.is_written() => {
                format!("{outputs}{}{slot}", arg.name)
            }
            ArgKind::Array { element, .. } if element.is_float() => {
                format!("{inputs}{}", arg.name)
            }
            _ => arg.name.clone(),
        };
        let given: Vec<String> = self.problem.entry.args.iter().map(given).collect();
        format!("{copied}  computed({});\n", given.join(", "))
    }

    /// Copies the whole of each output or, with ` / 2`, a part of it.
    pub fn put(&self, from: &str, slot: &str, part: &str) -> String {
        let put = |array: &Array| {
            let Array { name, count, .. } = array;
            format!("  memcpy({name}, {from}{name}{slot}, sizeof *{name} * ({count}{part}));\n")
        };
        self.outputs.iter().map(put).collect()
    }

    /// In C: this is a call of the timed size.
    pub fn timed(&self) -> String {
        self.all(|_| true, "==", |size| size.timed)
    }

    /// In C: this is a call of the timed size or of a larger one.
    pub fn taken_from_timed(&self) -> String {
        self.all(|_| true, ">=", |size| size.timed)
    }

    /// In C: the size is above that of timed calls, if sizes differ.
    pub fn above_timed(&self) -> String {
        self.all(|size| size.varies, ">", |size| size.timed)
    }

    /// In C: the size is above those of all calls in the problem's definition, if sizes differ.
    pub fn above_visible(&self) -> String {
        self.all(|size| size.varies, ">", |size| size.visible)
    }

    fn all(
        &self,
        which: impl Fn(&Size) -> bool,
        compare: &str,
        bound: impl Fn(&Size) -> usize,
    ) -> String {
        let sizes = self.sizes.iter().filter(|size| which(size));
        let sizes = sizes.map(|size| format!("{} {compare} {}", size.name, bound(size)));
        sizes.collect::<Vec<_>>().join(" && ")
    }

    /// Variables that keep the sizes of a call, in `slots` slots.
    pub fn room_for_sizes(&self, slots: &str) -> String {
        let each = |size: &Size| format!("static int known_{}{slots};\n", size.name);
        self.sizes.iter().map(each).collect()
    }

    /// Keeps the sizes of this call.
    pub fn keep_sizes(&self, slot: &str) -> String {
        let each = |Size { name, .. }: &Size| format!("  known_{name}{slot} = {name};\n");
        self.sizes.iter().map(each).collect()
    }

    /// In C: the sizes of this call equal the kept ones.
    pub fn same_sizes(&self, slot: &str) -> String {
        let each = |Size { name, .. }: &Size| format!("known_{name}{slot} == {name}");
        self.sizes.iter().map(each).collect::<Vec<_>>().join(" && ")
    }

    /// Variables that keep the scalars of a call.
    pub fn room_for_scalars(&self) -> String {
        let each = |(name, c_type): &(String, &str)| format!("static {c_type} known_{name};\n");
        self.scalars.iter().map(each).collect()
    }

    /// Keeps the scalars of this call.
    pub fn keep_scalars(&self) -> String {
        let each = |(name, _): &(String, &str)| format!("  known_{name} = {name};\n");
        self.scalars.iter().map(each).collect()
    }

    /// Are the scalars of this call those that were kept? A condition to write before another one.
    pub fn same_scalars(&self) -> String {
        let each = |(name, _): &(String, &str)| format!("known_{name} == {name} && ");
        self.scalars.iter().map(each).collect()
    }

    /// The arrays that a call reads.
    pub fn read(&self) -> impl Iterator<Item = &Array> {
        let in_place = self.outputs.iter().filter(|array| array.in_place);
        self.inputs.iter().chain(in_place)
    }

    /// The first of them.
    pub fn first(&self) -> &Array {
        self.read().next().unwrap()
    }

    /// An array that is read and whose numbers are others in each call, wherever one looks.
    pub fn varied(&self) -> &Array {
        self.read().find(|array| !array.offsets).unwrap()
    }

    pub fn last_output(&self) -> &Array {
        self.outputs.last().unwrap()
    }

    /// True if the kernel computes only with integers.
    pub fn is_of_integers(&self) -> bool {
        let mut arrays = self.inputs.iter().chain(&self.outputs);
        arrays.all(|array| array.element.is_integer())
    }
}

impl Array {
    fn of(problem: &Problem, arg: &Arg, calls: &[&Params]) -> Self {
        let ArgKind::Array {
            element,
            role,
            shape,
            content,
            ..
        } = &arg.kind
        else {
            panic!("{}: `{}` is no array", problem.id, arg.name);
        };
        // In C, a parameter is the integer of its name.
        let is_integer = |param: &String| {
            problem.entry.args.iter().any(|other| {
                matches!(&other.kind, ArgKind::Int { value } if other.name == *param && value.to_string() == *param)
            })
        };
        let named: Vec<String> = shape.iter().flat_map(|extent| extent.params()).collect();
        assert!(named.iter().all(is_integer), "{}: {named:?}", problem.id);
        let extents: Vec<String> = shape.iter().map(|f| format!("(size_t)({f})")).collect();
        let most = calls.iter().filter_map(|call| problem.elements(arg, call));
        Self {
            name: arg.name.clone(),
            element: *element,
            most: most.max().unwrap(),
            count: extents.join(" * "),
            in_place: *role == Role::InOut,
            offsets: matches!(content, Content::Offsets { .. }),
        }
    }

    pub fn c_type(&self) -> &'static str {
        match self.element {
            // As the shipped problems call it.
            Element::I32 => "int",
            other => other.c_type(),
        }
    }

    /// The type of a real number in C, as which it can be read.
    pub fn real_type(&self) -> &'static str {
        match self.element {
            Element::C64 => "float",
            Element::C128 => "double",
            _ => self.c_type(),
        }
    }

    /// How many real numbers it has in a call, in C.
    pub fn reals(&self) -> String {
        match self.element.parts() {
            1 => self.count.clone(),
            parts => format!("{parts} * {}", self.count),
        }
    }

    /// A byte in which two numbers of the same kind differ in every other case, wherever in their range they are.
    pub fn odd_byte(&self) -> usize {
        match self.element {
            Element::F64 | Element::C128 => 4,
            Element::F32 | Element::C64 => 1,
            Element::I32 | Element::I64 | Element::U8 | Element::F16 | Element::Bf16 => 0,
        }
    }

    /// Its last element in C.
    pub fn end(&self) -> String {
        format!("{}[{} - 1]", self.name, self.count)
    }
}

/// Space for the arrays of any call, in `slots` slots, under names that begin with `prefix`.
pub fn room<'a>(arrays: impl IntoIterator<Item = &'a Array>, prefix: &str, slots: &str) -> String {
    let each = |array: &Array| {
        let (c_type, most) = (array.c_type(), array.most.next_multiple_of(LINE));
        format!(
            "static {c_type} {prefix}{}{slots}[{most}] {ALIGN};\n",
            array.name
        )
    };
    arrays.into_iter().map(each).collect()
}
