//! Buffers that hold what the columns of a tile read.

use super::*;

impl Tile<'_> {
    /// The accesses that a buffer may hold: they move with columns and one sum, and not with rows.
    pub(super) fn packed(&self, rows: &Several) -> Vec<Access> {
        let (Some(columns), [sum]) = (&self.columns, self.sums.as_slice()) else {
            return Vec::new();
        };
        let tiled = [rows.at.var, columns.at.var];
        if !self.pack || !self.across || depends(&sum.range, &tiled) {
            return Vec::new();
        }
        let mut found: Vec<Access> = Vec::new();
        for access in self.statement().value.reads() {
            let moves = |var: Var| motion(access, var) != Motion::Still;
            let fits = moves(columns.at.var) && moves(sum.var) && !moves(rows.at.var);
            if fits && !found.contains(access) {
                found.push(access.clone());
            }
        }
        found
    }

    /// Fills the buffers for `count` vectors, and says where each vector is.
    pub(super) fn fill(
        &self,
        code: &mut Code,
        program: &Program,
        packed: &[Access],
        id: usize,
        count: u32,
    ) -> Packed {
        let mut places = Packed::new();
        let Some(sum) = self.sums.first().filter(|_| !packed.is_empty()) else {
            return places;
        };
        let step = count * self.width();
        let name = program.name(sum.var).to_owned();
        for (n, access) in packed.iter().enumerate() {
            let far = self
                .columns
                .as_ref()
                .is_some_and(|c| motion(access, c.at.var) == Motion::Far);
            // Rows of the source one after the other where columns are far apart.
            if !far {
                code.open(format!(
                    "for (long {name} = from{id}; {name} <= to{id}; {name}++)"
                ));
            }
            for element in 0..step {
                let moved = access.replaced(&self.at(0, element));
                let source = code.access(program, &moved);
                let copy =
                    format!("pack{id}_{n}[({name} - from{id}) * {step} + {element}] = {source};");
                if far {
                    code.open(format!(
                        "for (long {name} = from{id}; {name} <= to{id}; {name}++)"
                    ));
                    code.line(copy);
                    code.close();
                } else {
                    code.line(copy);
                }
            }
            if !far {
                code.close();
            }
            for column in 0..count {
                let moved = access.replaced(&self.at(0, column * self.width()));
                let place = format!(
                    "*({} *)&pack{id}_{n}[({name} - from{id}) * {step} + {}]",
                    self.vector,
                    column * self.lanes
                );
                places.insert(moved, place);
            }
        }
        places
    }
}
