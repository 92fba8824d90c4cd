//! The syntax tree of a template, in which each value that is made passes [`super::memory`].
//!
//! These values are the results of operators that join or repeat, of parts, filters and calls, lists and maps, and texts that a block
//! captures. Values that a template writes pass the formatter, and so does its own text, as a constant. Lists and maps of constants
//! alone are as short as the template. The tree is made anew, because minijinja's cannot be changed.
//!
//! Nothing here changes the result of a template: a checked value is the value itself.

use minijinja::Value;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{
    AutoEscape, BinOp, BinOpKind, Block, Break, Call, CallArg, CallBlock, Compare, CompareOp,
    Const, Continue, Do, EmitExpr, Expr, Extends, Filter, FilterBlock, ForLoop, FromImport,
    GetAttr, GetItem, IfCond, IfExpr, Import, Include, List, Macro, Map, Set, SetBlock, Slice,
    Spanned, Stmt, Template, Test, UnaryOp, UnaryOpKind, Var, WithBlock,
};

use super::memory::{ASSIGNED, MADE, OWNER};

/// A node in the place of another one.
fn like<T, U>(of: &Spanned<T>, node: U) -> Spanned<U> {
    Spanned::new(node, of.span())
}

fn all<'a>(of: &[Stmt<'a>]) -> Vec<Stmt<'a>> {
    of.iter().map(statement).collect()
}

/// A statement whose values are checked.
pub(super) fn statement<'a>(of: &Stmt<'a>) -> Stmt<'a> {
    match of {
        Stmt::Template(s) => Stmt::Template(like(s, whole(s))),
        Stmt::EmitExpr(s) => Stmt::EmitExpr(like(s, written(s))),
        Stmt::EmitRaw(s) => {
            // Its text is not to be escaped.
            let value = Value::from_safe_string(s.raw.to_owned());
            let expr = Expr::Const(like(s, Const { value }));
            Stmt::EmitExpr(like(s, EmitExpr { expr }))
        }
        Stmt::ForLoop(s) => Stmt::ForLoop(like(s, looped(s))),
        Stmt::IfCond(s) => Stmt::IfCond(like(s, branched(s))),
        Stmt::WithBlock(s) => Stmt::WithBlock(like(s, with(s))),
        Stmt::Set(s) => Stmt::Set(like(s, set(s))),
        Stmt::SetBlock(s) => Stmt::SetBlock(like(s, set_block(s, s.span()))),
        Stmt::AutoEscape(s) => {
            let enabled = expression(&s.enabled);
            let body = all(&s.body);
            Stmt::AutoEscape(like(s, AutoEscape { enabled, body }))
        }
        Stmt::FilterBlock(s) => {
            let filter = unchecked(&s.filter);
            let body = all(&s.body);
            Stmt::FilterBlock(like(s, FilterBlock { filter, body }))
        }
        Stmt::Block(s) => Stmt::Block(like(s, block(s))),
        Stmt::Import(s) => {
            let (expr, name) = (expression(&s.expr), target(&s.name));
            Stmt::Import(like(s, Import { expr, name }))
        }
        Stmt::FromImport(s) => Stmt::FromImport(like(s, from_import(s))),
        Stmt::Extends(s) => {
            let name = expression(&s.name);
            Stmt::Extends(like(s, Extends { name }))
        }
        Stmt::Include(s) => Stmt::Include(like(s, include(s))),
        Stmt::Macro(s) => Stmt::Macro(like(s, declared(s))),
        Stmt::CallBlock(s) => Stmt::CallBlock(like(s, call_block(s))),
        Stmt::Continue(s) => Stmt::Continue(like(s, Continue)),
        Stmt::Break(s) => Stmt::Break(like(s, Break)),
        Stmt::Do(s) => {
            let call = like(&s.call, called(&s.call));
            Stmt::Do(like(s, Do { call }))
        }
    }
}

fn whole<'a>(of: &Template<'a>) -> Template<'a> {
    Template {
        children: all(&of.children),
    }
}

/// The formatter checks what is written.
fn written<'a>(of: &EmitExpr<'a>) -> EmitExpr<'a> {
    EmitExpr {
        expr: unchecked(&of.expr),
    }
}

fn looped<'a>(of: &ForLoop<'a>) -> ForLoop<'a> {
    ForLoop {
        target: target(&of.target),
        iter: expression(&of.iter),
        filter_expr: of.filter_expr.as_ref().map(expression),
        recursive: of.recursive,
        body: all(&of.body),
        else_body: all(&of.else_body),
    }
}

fn branched<'a>(of: &IfCond<'a>) -> IfCond<'a> {
    IfCond {
        expr: expression(&of.expr),
        true_body: all(&of.true_body),
        false_body: all(&of.false_body),
    }
}

fn with<'a>(of: &WithBlock<'a>) -> WithBlock<'a> {
    let assignments = of.assignments.iter();
    let assignments = assignments.map(|(to, expr)| (target(to), expression(expr)));
    WithBlock {
        assignments: assignments.collect(),
        body: all(&of.body),
    }
}

fn set<'a>(of: &Set<'a>) -> Set<'a> {
    let expr = expression(&of.expr);
    let expr = match &of.target {
        Expr::GetAttr(attr) => checked(attr.span(), ASSIGNED, expr),
        _ => expr,
    };
    Set {
        target: target(&of.target),
        expr,
    }
}

fn set_block<'a>(of: &SetBlock<'a>, span: Span) -> SetBlock<'a> {
    let filter = match &of.filter {
        Some(filter) => expression(filter),
        None => captured(span),
    };
    SetBlock {
        target: target(&of.target),
        filter: Some(filter),
        body: all(&of.body),
    }
}

fn block<'a>(of: &Block<'a>) -> Block<'a> {
    Block {
        name: of.name,
        required: of.required,
        body: all(&of.body),
    }
}

fn from_import<'a>(of: &FromImport<'a>) -> FromImport<'a> {
    let names = of.names.iter();
    let names = names.map(|(name, alias)| (target(name), alias.as_ref().map(target)));
    FromImport {
        expr: expression(&of.expr),
        names: names.collect(),
    }
}

fn include<'a>(of: &Include<'a>) -> Include<'a> {
    Include {
        name: expression(&of.name),
        ignore_missing: of.ignore_missing,
    }
}

fn declared<'a>(of: &Macro<'a>) -> Macro<'a> {
    Macro {
        name: of.name,
        args: of.args.iter().map(target).collect(),
        defaults: of.defaults.iter().map(expression).collect(),
        body: all(&of.body),
    }
}

fn call_block<'a>(of: &CallBlock<'a>) -> CallBlock<'a> {
    CallBlock {
        call: like(&of.call, called(&of.call)),
        macro_decl: like(&of.macro_decl, declared(&of.macro_decl)),
    }
}

/// The names to which a statement assigns. A namespace among them is checked before it grows.
fn target<'a>(of: &Expr<'a>) -> Expr<'a> {
    match of {
        Expr::List(e) => {
            let items = e.items.iter().map(target).collect();
            Expr::List(like(e, List { items }))
        }
        Expr::GetAttr(e) => {
            let expr = checked(e.span(), OWNER, unchecked(&e.expr));
            Expr::GetAttr(like(e, GetAttr { expr, name: e.name }))
        }
        other => unchecked(other),
    }
}

/// An expression that is checked if it makes a value.
fn expression<'a>(of: &Expr<'a>) -> Expr<'a> {
    let makes = match of {
        Expr::List(_) | Expr::Map(_) => of.as_const().is_none(),
        Expr::BinOp(e) => matches!(e.op, BinOpKind::Add | BinOpKind::Mul | BinOpKind::Concat),
        Expr::Slice(_) | Expr::Filter(_) | Expr::Call(_) => true,
        _ => false,
    };
    let expr = unchecked(of);
    match makes {
        true => checked(of.span(), MADE, expr),
        false => expr,
    }
}

/// A call that checks a value, and gives it back.
fn checked<'a>(span: Span, by: &'static str, value: Expr<'a>) -> Expr<'a> {
    let expr = Expr::Var(Spanned::new(Var { id: by }, span));
    let args = vec![CallArg::Pos(value)];
    Expr::Call(Spanned::new(Call { expr, args }, span))
}

/// The text of a block, which a filter without an expression gets; checked.
fn captured<'a>(span: Span) -> Expr<'a> {
    let filter = Filter {
        name: MADE,
        expr: None,
        args: Vec::new(),
    };
    Expr::Filter(Spanned::new(filter, span))
}

/// An expression whose parts are checked.
fn unchecked<'a>(of: &Expr<'a>) -> Expr<'a> {
    match of {
        Expr::Var(e) => Expr::Var(like(e, Var { id: e.id })),
        Expr::Const(e) => {
            let value = e.value.clone();
            Expr::Const(like(e, Const { value }))
        }
        Expr::Slice(e) => Expr::Slice(like(e, slice(e))),
        Expr::UnaryOp(e) => Expr::UnaryOp(like(e, unary(e))),
        Expr::BinOp(e) => Expr::BinOp(like(e, binary(e))),
        Expr::Compare(e) => Expr::Compare(like(e, compare(e))),
        Expr::IfExpr(e) => Expr::IfExpr(like(e, choice(e))),
        Expr::Filter(e) => Expr::Filter(like(e, filter(e, e.span()))),
        Expr::Test(e) => Expr::Test(like(e, test(e))),
        Expr::GetAttr(e) => {
            let expr = expression(&e.expr);
            Expr::GetAttr(like(e, GetAttr { expr, name: e.name }))
        }
        Expr::GetItem(e) => {
            let item = GetItem {
                expr: expression(&e.expr),
                subscript_expr: expression(&e.subscript_expr),
            };
            Expr::GetItem(like(e, item))
        }
        Expr::Call(e) => Expr::Call(like(e, called(e))),
        Expr::List(e) => {
            let items = e.items.iter().map(item).collect();
            Expr::List(like(e, List { items }))
        }
        Expr::Map(e) => {
            let keys = e.keys.iter().map(item).collect();
            let values = e.values.iter().map(item).collect();
            Expr::Map(like(e, Map { keys, values }))
        }
    }
}

/// A part of a list or map. An inner list or map is checked with the whole.
fn item<'a>(of: &Expr<'a>) -> Expr<'a> {
    match of {
        Expr::List(_) | Expr::Map(_) => unchecked(of),
        _ => expression(of),
    }
}

fn slice<'a>(of: &Slice<'a>) -> Slice<'a> {
    Slice {
        expr: expression(&of.expr),
        start: of.start.as_ref().map(expression),
        stop: of.stop.as_ref().map(expression),
        step: of.step.as_ref().map(expression),
    }
}

fn unary<'a>(of: &UnaryOp<'a>) -> UnaryOp<'a> {
    UnaryOp {
        op: match of.op {
            UnaryOpKind::Not => UnaryOpKind::Not,
            UnaryOpKind::Neg => UnaryOpKind::Neg,
        },
        expr: expression(&of.expr),
    }
}

fn binary<'a>(of: &BinOp<'a>) -> BinOp<'a> {
    let right = match of.op {
        // minijinja computes products of constants before the template runs, without a limit. A call is no constant.
        BinOpKind::Mul => checked(of.right.span(), MADE, unchecked(&of.right)),
        _ => expression(&of.right),
    };
    BinOp {
        op: of.op,
        left: expression(&of.left),
        right,
    }
}

fn compare<'a>(of: &Compare<'a>) -> Compare<'a> {
    let ops = of.ops.iter().map(|with| CompareOp {
        op: with.op,
        expr: expression(&with.expr),
    });
    Compare {
        expr: expression(&of.expr),
        ops: ops.collect(),
    }
}

fn choice<'a>(of: &IfExpr<'a>) -> IfExpr<'a> {
    IfExpr {
        test_expr: expression(&of.test_expr),
        true_expr: expression(&of.true_expr),
        false_expr: of.false_expr.as_ref().map(expression),
    }
}

fn filter<'a>(of: &Filter<'a>, span: Span) -> Filter<'a> {
    let expr = match &of.expr {
        Some(expr) => expression(expr),
        None => captured(span),
    };
    Filter {
        name: of.name,
        expr: Some(expr),
        args: of.args.iter().map(argument).collect(),
    }
}

fn test<'a>(of: &Test<'a>) -> Test<'a> {
    Test {
        name: of.name,
        expr: expression(&of.expr),
        args: of.args.iter().map(argument).collect(),
    }
}

fn called<'a>(of: &Call<'a>) -> Call<'a> {
    Call {
        // A name or an attribute, by which minijinja tells functions from methods.
        expr: unchecked(&of.expr),
        args: of.args.iter().map(argument).collect(),
    }
}

fn argument<'a>(of: &CallArg<'a>) -> CallArg<'a> {
    match of {
        CallArg::Pos(expr) => CallArg::Pos(expression(expr)),
        CallArg::Kwarg(name, expr) => CallArg::Kwarg(name, expression(expr)),
        CallArg::PosSplat(expr) => CallArg::PosSplat(expression(expr)),
        CallArg::KwargSplat(expr) => CallArg::KwargSplat(expression(expr)),
    }
}
