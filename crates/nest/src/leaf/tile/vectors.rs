//! Values, loads and stores of vectors.

use super::*;

impl Tile<'_> {
    /// The variable along which vectors lie.
    pub(super) fn along(&self) -> Option<Var> {
        if self.across {
            self.columns.as_ref().map(|c| c.at.var)
        } else {
            self.sums.last().map(|l| l.var)
        }
    }

    /// Loads every element of a value into a name of its own, once for the whole tile.
    pub(super) fn loads(
        &self,
        code: &mut Code,
        program: &Program,
        value: &Expr,
        packed: &Packed,
        known: &mut BTreeMap<Access, String>,
    ) -> Result<(), Error> {
        for access in value.reads() {
            if known.contains_key(access) {
                continue;
            }
            let name = code.name(program, "x");
            let text = match packed.get(access) {
                Some(place) => place.clone(),
                None => self.element(code, program, access),
            };
            let kind = match self.along().map(|v| motion(access, v)) {
                Some(Motion::Still) | None => self.c_type,
                _ => &self.vector,
            };
            code.line(format!("{kind} {name} = {text};"));
            known.insert(access.clone(), name);
        }
        Ok(())
    }

    /// A vector of an access' elements, or the one element for all lanes.
    pub(super) fn element(&self, code: &mut Code, program: &Program, access: &Access) -> String {
        let Some(along) = self.along() else {
            return code.access(program, access);
        };
        match motion(access, along) {
            Motion::Still => code.access(program, access),
            Motion::Next => self.load(code, program, access),
            Motion::Far => {
                let lanes: Vec<String> = (0..self.lanes)
                    .map(|lane| {
                        let moved = access.replaced(&|v| {
                            (v == along).then(|| Affine::var(v).offset(i64::from(lane)))
                        });
                        code.access(program, &moved)
                    })
                    .collect();
                format!("({}){{{}}}", self.vector, lanes.join(", "))
            }
        }
    }

    /// The vector that begins at an element.
    pub(super) fn load(&self, code: &Code, program: &Program, access: &Access) -> String {
        format!(
            "*(const {} *){}",
            self.vector,
            code.address(program, access)
        )
    }

    /// A value for all lanes.
    pub(super) fn vector_value(
        &self,
        code: &mut Code,
        program: &Program,
        value: &Expr,
        known: &BTreeMap<Access, String>,
    ) -> Result<String, Error> {
        let single = self.c_type == "float";
        Ok(match value {
            Expr::Read(access) => match known.get(access) {
                Some(name) => name.clone(),
                None => atom(&self.element(code, program, access)),
            },
            Expr::Negative(a) => format!("-{}", atom(&self.vector_value(code, program, a, known)?)),
            Expr::Binary(operation, a, b) => {
                let a = self.vector_value(code, program, a, known)?;
                let b = self.vector_value(code, program, b, known)?;
                match operation {
                    Operation::Min | Operation::Max => {
                        return Err(Error::Misfit("vectors have no extremes"));
                    }
                    operation => code.combined(program, *operation, &a, &b),
                }
            }
            Expr::Number(_) | Expr::Scalar(_) | Expr::Index(_) => {
                code.value(program, value, single)
            }
            Expr::Call(..) | Expr::Select(..) => {
                return Err(Error::Misfit("vectors call no functions"));
            }
        })
    }

    /// A value as a vector, for all that may be one number for all lanes.
    pub(super) fn as_vector(&self, value: &str) -> String {
        format!("({}){{0}} + {value}", self.vector)
    }

    /// Stores a vector, combined with the old value of an update.
    pub(super) fn stored(
        &self,
        code: &Code,
        program: &Program,
        update: Option<Operation>,
        target: &Access,
        value: &str,
    ) -> String {
        let address = code.address(program, target);
        let operator = match update {
            // Extremes are no tiles.
            None | Some(Operation::Min | Operation::Max) => "=",
            Some(Operation::Add) => "+=",
            Some(Operation::Sub) => "-=",
            Some(Operation::Mul) => "*=",
            Some(Operation::Div) => "/=",
        };
        format!("*({} *){address} {operator} {value};", self.vector)
    }
}
