//! Renders a schedule as C.
//!
//! The spelling is the same in every combination. The lines at the top choose between doubles and vectors and set the
//! size of the tile; the body below them is the same for all choices. Each further technique is a separate line or
//! replaces one operand. A small model that has seen two techniques separately can thus write both by combining known
//! lines.

use std::fmt::Write;

use super::{Axis, Body, GRAIN, Order, Outer, Pack, Schedule};

impl Schedule {
    /// The program.
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(800);
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        match self.vector {
            0 => writeln!(out, "typedef double V;")?,
            bytes => writeln!(
                out,
                "typedef double V __attribute__((vector_size({bytes}),aligned(8)));"
            )?,
        }
        writeln!(out, "#define W {}", self.lanes())?;
        if let Body::Tile { rows, columns, .. } = self.body {
            writeln!(out, "#define R {rows}\n#define S {columns}")?;
        }
        writeln!(
            out,
            "void dgemm(int n,const double*A,const double*B,double*C){{"
        )?;
        if self.splits_reduction() || matches!(self.body, Body::Stream(_)) {
            writeln!(out, " for(int i=0;i<n*n;i++)C[i]=0;")?;
        }
        if let Body::Tile {
            pack: Pack::Whole, ..
        } = self.body
        {
            writeln!(out, " double P[n*n];")?;
            writeln!(
                out,
                " for(int j=0;j<n;j+=S*W)for(int k=0;k<n;k++)for(int s=0;s<S*W;s++)P[j*n+k*S*W+s]=B[k*n+j+s];"
            )?;
        }
        if let Some(block) = self.block {
            writeln!(out, " for(int l=0;l<n;l+={})", block.size)?;
        }
        if self.openmp {
            writeln!(out, "#pragma omp parallel for")?;
        }
        match self.body {
            Body::Tile {
                rows,
                columns,
                outer,
                pack,
            } => self.tile(out, rows, columns, outer, pack)?,
            Body::Stream(order) => self.stream(out, order)?,
        }
        writeln!(out, "}}")
    }

    /// The head of the loop over `axis`.
    fn head(&self, axis: Axis, step: &str) -> String {
        let v = match axis {
            Axis::I => "i",
            Axis::J => "j",
            Axis::K => "k",
        };
        match self.block {
            Some(block) if block.axis == axis => {
                format!("for(int {v}=l;{v}<l+{};{v}{step})", block.size)
            }
            _ => format!("for(int {v}=0;{v}<n;{v}{step})"),
        }
    }

    fn tile(
        &self,
        out: &mut String,
        rows: u32,
        columns: u32,
        outer: Outer,
        pack: Pack,
    ) -> std::fmt::Result {
        let k = self.head(Axis::K, "++");
        let (mut a, mut b) = ("A[(i+r)*n+k]", "B[k*n+j+s*W]");
        let i = (self.head(Axis::I, "+=R"), rows, "if(i>n-R)i=n-R;");
        let j = (
            self.head(Axis::J, "+=S*W"),
            columns * self.lanes(),
            "if(j>n-S*W)j=n-S*W;",
        );
        let (first, second) = if outer == Outer::Row { (i, j) } else { (j, i) };
        writeln!(out, " {}{{", first.0)?;
        if !GRAIN.is_multiple_of(first.1) {
            writeln!(out, "  {}", first.2)?;
        }
        match (pack, outer) {
            (Pack::No, _) => {}
            (Pack::Panel, Outer::Row) => {
                writeln!(
                    out,
                    "  double P[n*R];\n  {k}for(int r=0;r<R;r++)P[k*R+r]=A[(i+r)*n+k];"
                )?;
                a = "P[k*R+r]";
            }
            (Pack::Panel, Outer::Column) => {
                writeln!(
                    out,
                    "  double P[n*S*W];\n  {k}for(int s=0;s<S*W;s++)P[k*S*W+s]=B[k*n+j+s];"
                )?;
                b = "P[k*S*W+s*W]";
            }
            (Pack::Whole, _) => b = "P[j*n+k*S*W+s*W]",
        }
        writeln!(out, "  {}{{", second.0)?;
        if !GRAIN.is_multiple_of(second.1) {
            writeln!(out, "   {}", second.2)?;
        }
        writeln!(out, "   V c[R][S]={{0}};")?;
        self.innermost(
            out,
            &k,
            "B[(k+{d})*n+j]",
            &format!("for(int r=0;r<R;r++)for(int s=0;s<S;s++)c[r][s]+={a}**(V*)&{b};"),
        )?;
        let store = if self.splits_reduction() { "+=" } else { "=" };
        writeln!(
            out,
            "   for(int r=0;r<R;r++)for(int s=0;s<S;s++)*(V*)&C[(i+r)*n+j+s*W]{store}c[r][s];"
        )?;
        writeln!(out, "  }}\n }}")
    }

    fn stream(&self, out: &mut String, order: Order) -> std::fmt::Result {
        let by_column = order.columns_innermost();
        let i = self.head(Axis::I, "++");
        let j = self.head(Axis::J, if by_column { "+=W" } else { "++" });
        let k = self.head(Axis::K, "++");
        let [first, second, third] = match order {
            Order::Ikj => [i, k, j],
            Order::Kij => [k, i, j],
            Order::Jki => [j, k, i],
            Order::Kji => [k, j, i],
        };
        writeln!(out, " {first}{{\n  {second}{{")?;
        let (ahead, body) = if by_column {
            ("B[k*n+j+{d}]", "*(V*)&C[i*n+j]+=A[i*n+k]**(V*)&B[k*n+j];")
        } else {
            ("A[(i+{d})*n+k]", "C[i*n+j]+=A[i*n+k]*B[k*n+j];")
        };
        self.innermost(out, &third, ahead, body)?;
        writeln!(out, "  }}\n }}")
    }

    /// The innermost long loop, which has the unrolling and the prefetch.
    fn innermost(&self, out: &mut String, head: &str, ahead: &str, body: &str) -> std::fmt::Result {
        if self.unroll > 1 {
            writeln!(out, "#pragma GCC unroll {}", self.unroll)?;
        }
        if self.prefetch == 0 {
            return writeln!(out, "   {head}\n    {body}");
        }
        let ahead = ahead.replace("{d}", &self.prefetch.to_string());
        writeln!(
            out,
            "   {head}{{\n    __builtin_prefetch(&{ahead});\n    {body}\n   }}"
        )
    }
}
