//! The table of a roofline's rates, by number of threads.

use crate::model::{Bandwidth, Ceiling, Roofline};
use crate::text::{escape, number};

/// All measured rates, by number of threads.
pub fn html(roofline: &Roofline) -> String {
    let mut threads: Vec<u32> = roofline.ceilings.iter().map(|c| c.threads).collect();
    threads.extend(roofline.bandwidths.iter().map(|b| b.threads));
    threads.sort_unstable();
    threads.dedup();
    if threads.is_empty() {
        return String::new();
    }
    let mut out = String::from("<div class=\"scroll\"><table><thead><tr><th></th>");
    for count in &threads {
        let plural = if *count == 1 { "" } else { "s" };
        out.push_str(&format!("<th>{count} thread{plural}</th>"));
    }
    out.push_str("</tr></thead><tbody>");
    let ceiling = |c: &Ceiling| (c.name.clone(), c.threads, c.gflops);
    let ceilings: Vec<Rate> = roofline.ceilings.iter().map(ceiling).collect();
    rows(&mut out, &ceilings, &threads, "multiply-adds", "GFLOPS");
    let bandwidth = |b: &Bandwidth| (b.name.clone(), b.threads, b.gb_s);
    let bandwidths: Vec<Rate> = roofline.bandwidths.iter().map(bandwidth).collect();
    rows(&mut out, &bandwidths, &threads, "reading", "GB/s");
    out.push_str("</tbody></table></div>");
    out
}

/// Name, threads, rate.
type Rate = (String, u32, f64);

fn rows(out: &mut String, rates: &[Rate], threads: &[u32], what: &str, unit: &str) {
    let mut names: Vec<&str> = Vec::new();
    for (name, _, _) in rates {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    for name in names {
        out.push_str(&format!(
            "<tr><th scope=\"row\">{}<small>{what}, {unit}</small></th>",
            escape(name)
        ));
        for count in threads {
            let rate = rates.iter().find(|r| r.0 == name && r.1 == *count);
            let shown = rate.map_or_else(|| "–".to_owned(), |r| number(r.2));
            out.push_str(&format!("<td>{shown}</td>"));
        }
        out.push_str("</tr>");
    }
}
