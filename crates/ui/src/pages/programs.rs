//! The programs of a run: filters, orders, pages, and the search for a text.

use std::time::Instant;

use flopsmith_protocol::Technique;
use serde::Serialize;

use super::frame::{Frame, Row, counted, url, words};
use super::{Site, view};
use crate::find::{Filter, MOST_PAGES, Order, Page, ROWS, Wanted, page, search};
use crate::index::View;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::runs::Run;

/// Problems that the form offers.
const MOST_OFFERED: usize = 300;

#[derive(Serialize)]
struct Context {
    frame: Frame,
    action: String,
    problems: Vec<Choice>,
    techniques: Vec<Choice>,
    reasons: Vec<Choice>,
    sorts: Vec<Choice>,
    step: String,
    text: String,
    rows: Vec<Row>,
    summary: String,
    earlier: Option<String>,
    later: Option<String>,
    on: Option<String>,
}

/// An option of a form.
#[derive(Serialize)]
pub(super) struct Choice {
    value: String,
    name: String,
    chosen: bool,
}

/// A page of the programs of a run.
///
/// # Errors
/// There is no such run, the query has no meaning, or the run's files cannot be read.
pub fn programs(site: &Site, name: &str, query: &Query) -> Result<String, Refusal> {
    let run = site.runs.get(name)?;
    let snapshot = site.runs.outcomes(&run, site.runs.page_ends());
    let frame = Frame::of(&run, "Programs", &snapshot).live_list(&run, query);
    let view = view(&snapshot)?;
    let asked = Asked::read(query, view)?;
    let shown = asked.show(&run, query, view, site.runs.search_ends())?;
    let names = &view.names;
    let sorts = [
        ("new", "newest first"),
        ("speed", "fastest first"),
        ("ratio", "largest ratio first"),
    ];
    let sort = query.get("sort").unwrap_or("new");
    let context = Context {
        frame,
        action: format!("{}/programs", url(&run)),
        problems: offered(names.problems.all(), query.get("problem")),
        techniques: techniques(query),
        reasons: offered(names.reasons.all(), query.get("reason")),
        sorts: sorts
            .map(|(value, name)| Choice {
                value: value.to_owned(),
                name: name.to_owned(),
                chosen: value == sort,
            })
            .into(),
        step: query.get("step").unwrap_or_default().to_owned(),
        text: query.get("text").unwrap_or_default().to_owned(),
        rows: shown.rows,
        summary: shown.summary,
        earlier: shown.earlier,
        later: shown.later,
        on: shown.on,
    };
    site.show("programs.html", &context)
}

/// The options of a form for these names.
pub(super) fn offered(all: &[String], chosen: Option<&str>) -> Vec<Choice> {
    let offered = all.iter().take(MOST_OFFERED).map(|name| Choice {
        value: name.clone(),
        name: words(name),
        chosen: chosen == Some(name.as_str()),
    });
    offered.collect()
}

/// The techniques as options of a form.
pub(super) fn techniques(query: &Query) -> Vec<Choice> {
    let names = Technique::ALL.map(|technique| technique.name().to_owned());
    offered(&names, query.get("technique"))
}

/// The conditions of a query.
///
/// # Errors
/// There is no such technique, or the step is no number.
pub(super) fn filter(query: &Query, view: &View) -> Result<Filter, Refusal> {
    let names = &view.names;
    let technique = query.get("technique").map(str::parse::<Technique>);
    let technique = technique
        .transpose()
        .map_err(|error| Refusal::malformed(error.to_string()))?;
    Ok(Filter {
        problem: query
            .get("problem")
            .map(|name| Wanted::of(names.problems.number(name))),
        reason: query
            .get("reason")
            .map(|name| Wanted::of(names.reasons.number(name))),
        technique,
        step: query.number("step")?,
    })
}

/// The wishes of a query.
struct Asked<'a> {
    filter: Filter,
    order: Order,
    text: Option<&'a str>,
    /// The page, from 0.
    page: usize,
    /// The place at which a search goes on.
    from: u64,
}

struct Shown {
    rows: Vec<Row>,
    summary: String,
    earlier: Option<String>,
    later: Option<String>,
    on: Option<String>,
}

impl<'a> Asked<'a> {
    fn read(query: &'a Query, view: &View) -> Result<Self, Refusal> {
        let order = match query.get("sort") {
            None | Some("new") => Order::Newest,
            Some("speed") => Order::Speed,
            Some("ratio") => Order::Ratio,
            Some(_) => {
                return Err(Refusal::malformed(
                    "there is no such order; `sort` is `new`, `speed` or `ratio`",
                ));
            }
        };
        let page = query.number::<usize>("page")?.unwrap_or(1);
        if !(1..=MOST_PAGES).contains(&page) {
            return Err(Refusal::malformed(format!(
                "a list has the pages 1 to {MOST_PAGES}; use filters to see other programs"
            )));
        }
        Ok(Self {
            filter: filter(query, view)?,
            order,
            text: query.get("text"),
            page: page - 1,
            from: query.number("from")?.unwrap_or(0),
        })
    }

    fn show(
        &self,
        run: &Run,
        query: &Query,
        view: &View,
        deadline: Instant,
    ) -> Result<Shown, Refusal> {
        let base = format!("{}/programs", url(run));
        let link = |name: &str, value: u64| {
            format!("{base}?{}", query.with(name, Some(&value.to_string())))
        };
        let rows = |rows: Vec<(u64, crate::index::Record)>| {
            let rows = rows.into_iter();
            let rows = rows.map(|(number, record)| Row::new(run, &view.names, number, &record));
            rows.collect::<Vec<_>>()
        };
        let Some(text) = self.text else {
            let Page {
                rows: found,
                matches,
            } = page(view, &self.filter, self.order, self.page)?;
            let first = (self.page * ROWS) as u64;
            let last = first + found.len() as u64;
            let more = last < matches && self.page + 1 < MOST_PAGES;
            return Ok(Shown {
                summary: match found.is_empty() {
                    true => format!("None of {} programs.", counted(matches)),
                    false => format!(
                        "{} to {} of {} programs.",
                        counted(first + 1),
                        counted(last),
                        counted(matches)
                    ),
                },
                rows: rows(found),
                earlier: more.then(|| link("page", self.page as u64 + 2)),
                later: (self.page > 0).then(|| link("page", self.page as u64)),
                on: None,
            });
        };
        let found = search(view, &self.filter, self.order, text, self.from, deadline)?;
        let ordered = match self.order {
            Order::Newest => "programs",
            Order::Speed | Order::Ratio => "programs at the top of the order",
        };
        Ok(Shown {
            summary: format!(
                "{} found; searched {} of {} {ordered}.",
                counted(found.rows.len() as u64),
                counted(found.searched),
                counted(found.of)
            ),
            rows: rows(found.rows),
            earlier: None,
            later: None,
            on: found.next.map(|next| link("from", next)),
        })
    }
}
