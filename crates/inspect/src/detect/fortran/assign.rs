//! Assignments, also of sections of arrays and with reductions.

use super::expressions::{Expr, parse};
use super::print::{Over, Printer, name_in_c};
use super::sections::{Kind, Reduction, loops, take_out};
use super::statements::Body;
use super::text;
use crate::scan::Token;

impl Body<'_, '_> {
    /// Writes the loops of the reductions in an expression, and returns the expression with their results.
    pub fn reduced(&mut self, expr: Expr) -> Option<Expr> {
        let mut reductions = Vec::new();
        let expr = take_out(expr, &self.printer, &mut self.names, &mut reductions)?;
        for reduction in reductions {
            self.reduce(&reduction)?;
        }
        Some(expr)
    }

    fn reduce(&mut self, reduction: &Reduction) -> Option<()> {
        let variable = &reduction.variable;
        let term = Printer {
            over: &reduction.over,
            ..self.printer
        }
        .print(&reduction.terms)?;
        self.push(&format!("double {variable} = 0;"));
        let braces = self.loops_over(&reduction.over)?;
        let step = match reduction.kind {
            Kind::Sum => format!("{variable} += {term};"),
            Kind::Product => format!("{variable} *= {term};"),
            Kind::Greatest => format!("{variable} = {term} > {variable} ? {term} : {variable};"),
            Kind::Least => format!("{variable} = {term} < {variable} ? {term} : {variable};"),
        };
        self.push(&step);
        self.push(&"}".repeat(braces));
        Some(())
    }

    /// Writes loops over sections, the contiguous one innermost, and returns the number of their braces.
    fn loops_over(&mut self, over: &[Over]) -> Option<usize> {
        let mut heads = Vec::new();
        for section in over.iter().rev() {
            let head = self.head(
                &section.variable,
                &section.low,
                &section.high,
                section.step.as_ref(),
            )?;
            heads.push((section.variable.clone(), head));
        }
        for (variable, head) in &heads {
            self.push(&format!("{{ int {variable};"));
            self.push(head);
        }
        Some(2 * heads.len())
    }

    pub fn assign(&mut self, tokens: &[Token], at: usize) -> Option<()> {
        let target = parse(&tokens[..at])?;
        // `p => a` makes a pointer.
        if text(tokens, at + 1) == ">" {
            let source = parse(tokens.get(at + 2..)?)?;
            let Expr::Name(name) = target else {
                return None;
            };
            let from = self.printer.print(&source)?;
            self.push(&format!("{} = {from};", name_in_c(&name)));
            return matches!(source, Expr::Name(_)).then_some(());
        }
        let value = parse(tokens.get(at + 1..)?)?;
        let value = self.reduced(value)?;
        let over = loops(&target, &self.printer, &mut self.names)?;
        let mask = self.masks.last().cloned().flatten();
        let printer = Printer {
            over: &over,
            ..self.printer
        };
        let left = printer.print(&target)?;
        let right = printer.print(&value)?;
        let condition = match &mask {
            Some(mask) => Some(printer.print(mask)?),
            None => None,
        };
        let braces = self.loops_over(&over)?;
        match condition {
            Some(condition) => self.push(&format!("if ({condition}) {{ {left} = {right}; }}")),
            None => self.push(&format!("{left} = {right};")),
        }
        if braces > 0 {
            self.push(&"}".repeat(braces));
        }
        Some(())
    }
}
