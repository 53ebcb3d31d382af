//! The page of the fixture, read as a reader and as a parser would.

use std::path::Path;

use super::*;
use crate::record::{CellStatus, Run};
use crate::results::{Metric, fixture};

fn page(run: &Run) -> String {
    html(&Analysis::of(run))
}

/// A strict reader of the page: every element is closed in order, every identifier is unique, every
/// link within the page has its target, nothing is loaded from elsewhere.
fn check_markup(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut ids: Vec<&str> = Vec::new();
    let mut links: Vec<&str> = Vec::new();
    let body = page.strip_prefix("<!doctype html>").unwrap();
    for piece in body.split('<').skip(1) {
        let (tag, _) = piece
            .split_once('>')
            .unwrap_or_else(|| panic!("unclosed: {piece}"));
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "in {tag}");
            continue;
        }
        let name = tag.split_whitespace().next().unwrap();
        assert!(
            !["script", "link", "iframe", "img"].contains(&name),
            "<{tag}>"
        );
        for (attribute, list) in [(" id=\"", &mut ids), (" href=\"#", &mut links)] {
            list.extend(
                tag.split_once(attribute)
                    .and_then(|(_, v)| v.split('"').next()),
            );
        }
        assert!(!tag.contains(" src="), "{tag}");
        if name != "meta" {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "identifiers are unique");
    assert!(!links.is_empty());
    assert!(
        links.iter().all(|link| ids.contains(link)),
        "every link has its target"
    );
    assert!(!page.contains("url(") && !page.contains("@import"));
}

#[test]
fn the_page_is_well_formed_and_alone() {
    check_markup(&page(&fixture::run()));
}

#[test]
fn every_cell_appears_and_each_chart_has_a_bar_for_each_measured_one() {
    let run = fixture::run();
    let page = page(&run);
    for cell in &run.cells {
        assert!(
            page.contains(&format!("id=\"cell-{}\"", words::slug(cell.key))),
            "{}",
            cell.key
        );
    }
    let charts: Vec<&str> = page.split("<svg").skip(1).collect();
    let mut next = charts.iter();
    for group in fixture::groups() {
        let measured = run
            .cells
            .iter()
            .filter(|c| c.key.group() == group && c.status == CellStatus::Ok)
            .count();
        for _ in 0..4 {
            let chart = next.next().unwrap().split("</svg>").next().unwrap();
            assert_eq!(chart.matches("class=\"bar ").count(), measured);
            assert!(chart.contains("role=\"img\"") && chart.contains("<desc"));
        }
    }
    assert_eq!(next.count(), 1, "and the published ratios");
}

#[test]
fn the_sections_stand_in_their_order() {
    let page = page(&fixture::run());
    let order = [
        "<h1>",
        "id=\"answer\"",
        "id=\"charts\"",
        "id=\"cells\"",
        "id=\"comparisons\"",
        "id=\"published\"",
        "id=\"unavailable\"",
        "id=\"method\"",
        "id=\"host\"",
        "id=\"warnings\"",
        "id=\"discarded\"",
        "id=\"repeat\"",
    ];
    let places: Vec<_> = order
        .map(|part| page.find(part).unwrap_or_else(|| panic!("{part}")))
        .into();
    assert!(places.is_sorted());
}

#[test]
fn what_comes_from_outside_is_escaped() {
    let page = page(&fixture::run());
    assert!(!page.contains("<script"));
    assert!(page.contains("&lt;script&gt;alert(&quot;1&quot;)"));
    assert!(page.contains("&#39;results/a &amp; b &lt;1&gt;&#39;"));
    let md = markdown(&Analysis::of(&fixture::run()));
    assert!(!md.contains("<script") && md.contains("\\_module\\_") && md.contains("& b <1>"));
}

#[test]
fn the_answer_is_computed() {
    let run = fixture::run();
    let md = markdown(&Analysis::of(&run));
    let sentence = "- With offload on, MTU 1500 and 4 streams, overlane-vxlan carries ×1.61 ";
    assert!(md.contains(sentence), "{md}");
    assert!(md.contains("the goodput of kernel-vxlan: ▲ better; costs ×0.56"));
    assert!(md.contains("overlane-vxlan at MTU 8900 carries ×2.1"));
    assert!(md.contains("mean packet on the underlay 1550 → 8950 B"));
    let text = page(&run);
    assert!(text.contains("overlane-vxlan carries more than kernel-vxlan in 3 of 3 settings"));
    assert!(text.contains("▼ worse"), "Geneve where the wire segments");
}

#[test]
fn no_figure_is_ever_not_a_number() {
    let mut run = fixture::run();
    for cell in &mut run.cells {
        for sample in &mut cell.samples {
            sample.goodput_gbps = f64::NAN;
            sample.underlay_rate_pps = f64::INFINITY;
            sample.cpu_percent_per_gbps.sum = None;
            sample.underlay_packet_bytes = None;
        }
    }
    let analysis = Analysis::of(&run);
    let texts = [html(&analysis), markdown(&analysis), csv(&analysis)];
    for text in texts {
        assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    }
}

#[test]
fn a_run_without_cells_still_makes_a_page() {
    let mut run = fixture::run();
    run.cells.clear();
    let text = page(&run);
    assert!(text.contains("no answer"));
    assert!(!text.contains("NaN"));
}

#[test]
fn csv_has_a_line_for_each_cell() {
    let run = fixture::run();
    let text = csv(&Analysis::of(&run));
    let mut lines = text.split_terminator("\r\n");
    let header: Vec<_> = lines.next().unwrap().split(',').collect();
    assert_eq!(header.len(), 8 + 3 * Metric::ALL.len());
    assert_eq!(lines.count(), run.cells.len());
    assert!(
        text.contains("\"<script>alert(\"\"1\"\")</script> & | 'geneve' _module_ is not there\"")
    );
}

#[test]
fn a_page_to_look_at() {
    let Some(dir) = std::env::var_os("OVERLANE_REPORT_DIR") else {
        return;
    };
    let run = fixture::run();
    crate::results::write(&run, Path::new(&dir)).unwrap();
}
