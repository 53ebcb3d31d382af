//! The pages of the fixtures, read as a reader and as a parser would.

use super::block::{Block, Chart, Row, Section};
use super::page::Page;
use super::*;
use crate::record::{GuestKind, PathSizes, Run};
use crate::results::{Metric, fixture};

/// Every fixture with its page.
fn pages() -> Vec<(&'static str, Run, String)> {
    let all = fixture::all().into_iter();
    all.map(|(name, run)| {
        let page = html(&Analysis::of(&run));
        (name, run, page)
    })
    .collect()
}

/// A strict reader of the page: every element is closed in order, every identifier is unique, every
/// link within the page has its target, nothing is loaded from elsewhere.
fn check_markup(name: &str, page: &str) {
    let (mut open, mut ids, mut links) = (Vec::new(), Vec::new(), Vec::new());
    let body = page.strip_prefix("<!doctype html>").unwrap();
    let (body, script) = body.split_once("<script>").unwrap();
    let (script, rest) = script.split_once("</script>").unwrap();
    assert!(
        !script.contains("http") && !script.contains("import"),
        "the script loads nothing"
    );
    for piece in body
        .split('<')
        .chain(rest.split('<'))
        .filter(|p| p.contains('>'))
    {
        let (tag, _) = piece.split_once('>').unwrap();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "{name}: in {tag}");
            continue;
        }
        let element = tag.split_whitespace().next().unwrap();
        assert!(
            !["script", "iframe", "img", "object"].contains(&element),
            "<{tag}>"
        );
        assert!(
            element != "link" || tag.contains("href=\"data:,\""),
            "<{tag}>"
        );
        for (attribute, list) in [(" id=\"", &mut ids), (" href=\"#", &mut links)] {
            list.extend(
                tag.split_once(attribute)
                    .and_then(|(_, v)| v.split('"').next()),
            );
        }
        assert!(
            ![" src=", " onclick=", " onload="]
                .iter()
                .any(|a| tag.contains(a)),
            "{tag}"
        );
        if !["meta", "link"].contains(&element) {
            open.push(element);
        }
    }
    assert!(open.is_empty(), "{name}: {open:?}");
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "{name}: identifiers are unique");
    assert!(!links.is_empty());
    for link in links {
        assert!(
            ids.binary_search(&link).is_ok(),
            "{name}: #{link} has no target"
        );
    }
    assert!(!page.contains("url(") && !page.contains("@import"));
}

#[test]
fn every_page_is_well_formed_and_alone() {
    for (name, _, page) in pages() {
        check_markup(name, &page);
    }
}

/// A picture names each group, each network and each figure, loads nothing, and closes what it opens.
#[test]
fn a_picture_stands_by_itself() {
    for (name, run) in fixture::all() {
        let analysis = Analysis::of(&run);
        let svg = picture(&analysis).unwrap();
        assert!(svg.starts_with("<svg xmlns="), "{name}");
        let mut open = Vec::new();
        for piece in svg.split('<').filter(|piece| piece.contains('>')) {
            let (tag, _) = piece.split_once('>').unwrap();
            if let Some(closed) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(closed), "{name}: in {tag}");
                continue;
            }
            open.extend(tag.split_whitespace().next());
        }
        assert!(open.is_empty(), "{name}: {open:?}");
        for word in ["href", "url(", "@import", "NaN", "inf"] {
            assert!(!svg.contains(word), "{name}: {word}");
        }
        let report = page::Report::of(&analysis);
        for group in report.groups(|_| true).into_iter().take(6) {
            let heading = names::Names::in_full(&group);
            assert!(svg.contains(&format!(": {heading}<")), "{name}: {heading}");
        }
        let marks = svg.matches("<g class=\"mark\"").count();
        let shown = report.groups(|_| true).into_iter().take(6);
        let cells = shown
            .map(|group| report.measured(group).len())
            .sum::<usize>();
        assert_eq!(
            marks,
            2 * cells,
            "{name}: a bar for each figure and each cost"
        );
    }
}

#[test]
fn a_run_without_figures_has_no_picture() {
    let mut run = fixture::run();
    run.cells.iter_mut().for_each(|cell| cell.samples.clear());
    assert!(picture(&Analysis::of(&run)).is_err());
}

#[test]
fn no_figure_is_ever_not_a_number() {
    let mut spoilt = fixture::run();
    for sample in spoilt.cells.iter_mut().flat_map(|cell| &mut cell.samples) {
        sample.goodput_gbps = Some(f64::NAN);
        sample.underlay_rate_pps = f64::INFINITY;
        sample.cpu_percent_per_gbps.sum = None;
        sample.underlay_packet_bytes = None;
    }
    let mut empty = fixture::run();
    empty.cells.clear();
    let runs = fixture::all()
        .into_iter()
        .chain([("spoilt", spoilt), ("empty", empty)]);
    for (name, run) in runs {
        let analysis = Analysis::of(&run);
        let page = html(&analysis);
        let (page, _) = page.split_once("<script>").unwrap();
        for text in [page, &markdown(&analysis)] {
            for word in [
                "NaN", "inf ", ">inf", "Infinity", ">null", "null<", "None<", "Some(",
            ] {
                assert!(!text.contains(word), "{name}: {word}");
            }
        }
    }
}

fn charts<'p>(blocks: &'p [Block], out: &mut Vec<&'p Chart>) {
    for block in blocks {
        match block {
            Block::Charts(all) => out.extend(all),
            Block::Folded(_, inner) => charts(inner, out),
            _ => {}
        }
    }
}

/// All sections of a page.
fn sections(page: &Page) -> impl Iterator<Item = &Section> {
    page.front.iter().chain(&page.appendix)
}

#[test]
fn every_chart_has_as_many_marks_as_data() {
    for (name, run, page) in pages() {
        let built = Page::of(&Analysis::of(&run));
        let mut all = Vec::new();
        sections(&built).for_each(|s| charts(&s.blocks, &mut all));
        assert!(!all.is_empty(), "{name}");
        for chart in all {
            let start = page.find(&format!("<figure id=\"{}\"", chart.id)).unwrap();
            let svg = page[start..].split("<details").next().unwrap();
            let (marks, points) = chart.drawing.marks();
            assert!(marks > 0 && points > 0, "{name}: {} is empty", chart.id);
            if svg.contains("class=\"curve") {
                // Each point of a curve, and one a curve in the legend.
                assert_eq!(
                    svg.matches("class=\"point").count(),
                    points + marks,
                    "{name}: {}",
                    chart.id
                );
            }
            assert_eq!(
                svg.matches("class=\"mark\"").count(),
                marks,
                "{name}: {}",
                chart.id
            );
            assert!(svg.contains("role=\"img\"") && !chart.words.is_empty());
            assert!(svg.contains("<desc") || svg.contains("aria-label=\""));
            assert!(
                !chart.table.rows.is_empty(),
                "{name}: {} has no table",
                chart.id
            );
        }
    }
}

#[test]
fn every_row_of_a_table_has_a_cell_for_each_column() {
    fn check(blocks: &[Block]) {
        for block in blocks {
            match block {
                Block::Table(table) => {
                    for row in table.rows.iter().chain(&table.foot) {
                        assert_eq!(row.cells.len(), table.columns.len(), "{}", table.caption);
                    }
                }
                Block::Charts(all) => {
                    for table in all.iter().map(|chart| &chart.table) {
                        let fits = |row: &Row| row.cells.len() == table.columns.len();
                        assert!(table.rows.iter().all(fits), "{}", table.caption);
                    }
                }
                Block::Folded(_, inner) => check(inner),
                _ => {}
            }
        }
    }
    for (_, run) in fixture::all() {
        sections(&Page::of(&Analysis::of(&run))).for_each(|s| check(&s.blocks));
    }
}

#[test]
fn every_cell_has_its_row_and_every_view_its_section() {
    let mut seen = std::collections::BTreeSet::new();
    for (name, run, page) in pages() {
        for place in 0..run.cells.len() {
            assert!(
                page.contains(&format!("<tr id=\"cell-{place}\"")),
                "{name}: cell {place}"
            );
        }
        let views = [
            "packet-rate",
            "difference",
            "guest-cpu",
            "migrations",
            "cpu-steps",
            "frame-table",
            "vnis",
        ];
        seen.extend(
            views
                .into_iter()
                .filter(|id| page.contains(&format!("<section id=\"{id}\""))),
        );
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
}

#[test]
fn the_relay_is_named_where_guests_are_virtual_machines() {
    for (name, run, page) in pages() {
        let mut cells = run.cells.iter();
        let machines = cells.any(|cell| cell.key.group.setting.guests == GuestKind::Tap);
        for words in [
            "In the place of vhost-net",
            "CPU of the sending guest’s relay",
        ] {
            assert_eq!(page.contains(words), machines, "{name}: {words}");
        }
        assert_eq!(machines, name == "every-axis", "{name}");
    }
}

#[test]
fn the_sections_stand_in_their_order() {
    let page = html(&Analysis::of(&fixture::run()));
    let order = [
        "<h1>",
        "\"answer\"",
        "\"questions\"",
        "\"matrix\"",
        "\"packet-rate\"",
        "\"charts\"",
        "\"underlay\"",
        "\"cells\"",
        "\"comparisons\"",
        "\"published\"",
        "\"missing\"",
        "\"warnings\"",
        "\"discarded\"",
        "\"method\"",
        "\"host\"",
        "\"repeat\"",
    ];
    let at = |part: &str| {
        let part = if part.starts_with('<') {
            part.to_owned()
        } else {
            format!("<section id={part}")
        };
        page.find(&part).unwrap_or_else(|| panic!("{part}"))
    };
    assert!(order.map(at).is_sorted());
}

#[test]
fn what_comes_from_outside_is_escaped() {
    let run = fixture::run();
    let (page, md) = (html(&Analysis::of(&run)), markdown(&Analysis::of(&run)));
    assert_eq!(page.matches("<script").count(), 1, "the page's own");
    assert!(page.contains("&lt;script&gt;alert(&quot;1&quot;)"));
    assert!(!md.contains("<script") && md.contains("\\_module\\_"));
}

/// What stands before the appendix.
fn front(md: &str) -> &str {
    md.split("## Appendix").next().unwrap()
}

#[test]
fn a_report_is_short_before_its_appendix() {
    for (name, run) in fixture::all() {
        let md = markdown(&Analysis::of(&run));
        let lines = front(&md).lines().count();
        assert!(lines <= 150, "{name}: {lines} lines");
        assert_eq!(md.matches("## Appendix").count(), 1, "{name}");
    }
}

#[test]
fn the_answer_is_the_same_in_all_forms_and_stands_first() {
    for (name, run) in fixture::all() {
        let analysis = Analysis::of(&run);
        let answer = Answer::of(&analysis);
        let page = html(&analysis);
        let (before, _) = page.split_once("<figure").unwrap();
        let escaped = answer.sentence.replace('\'', "&#39;");
        assert!(before.contains(&escaped), "{name}: {escaped}");
        let md = markdown(&analysis);
        assert!(front(&md).contains(&answer.sentence), "{name}");
        let trust = format!("Trust: {}.", answer.trust.level.words());
        assert!(page.contains(&trust) && front(&md).contains(&trust));
    }
}

#[test]
fn every_question_beside_the_first_is_a_sentence_with_its_evidence() {
    let run = fixture::run();
    let analysis = Analysis::of(&run);
    let (page, md) = (html(&analysis), markdown(&analysis));
    let title = "Does Overlane beat the kernel’s own VXLAN?";
    let (_, below) = front(&md).split_once(title).unwrap();
    assert!(below.trim_start().starts_with("Overlane gives "), "{below}");
    // A bullet for each comparison is behind it.
    assert!(!front(&md).contains("\n- "), "{}", front(&md));
    let evidence = format!("### {title} Comparison by comparison (");
    assert!(md.contains(&evidence));
    assert!(md.contains("▲ better") && md.contains("◆ cannot tell"));
    assert!(page.contains("Does a jumbo MTU pay?") && page.contains("the goodput ["));
    let links = page.split("href=\"#cmp-").count();
    assert!(
        links > 5 && !md.contains("#cmp-"),
        "{links}: none in Markdown"
    );
}

#[test]
fn features_are_answered_by_name_and_have_their_six_lines() {
    let run = fixture::cost();
    let analysis = Analysis::of(&run);
    let (page, md) = (html(&analysis), markdown(&analysis));
    for words in [
        "What do routing, the firewall, the gateway and NAT cost?",
        "And against the kernel’s own VXLAN, which does neither?",
    ] {
        assert!(front(&md).contains(words), "{words}: {}", front(&md));
    }
    for words in [
        "**overlane-vxlan, routing** with tcp\\_stream costs ",
        "**overlane-vxlan, gateway with NAT** with tcp\\_stream costs ",
        "against the same as it comes.",
        "against the same with gateway.",
        "against the same with firewall of 10 rules.",
    ] {
        assert!(md.contains(words), "{words}");
    }
    let mut lines = md.lines();
    let still =
        lines.find(|line| line.contains("stateless") && line.contains("the same as it comes"));
    assert!(still.unwrap().contains("the same within 5 %"), "{still:?}");
    // Two backends, then seven features, each with its lines.
    assert_eq!(page.matches("6 Measured difference").count(), 2 + 7);
    assert!(page.contains("overlane-vxlan, routing against overlane-vxlan, as it comes"));
    // A row of the matrix with a feature is held against the row without.
    assert!(page.contains("against the same as it comes</"), "heat");
}

/// The table's rows between its heading and the next section.
fn mtu_audit(md: &str) -> Vec<&str> {
    let audit = md.split("MTU audit").last().unwrap_or_default();
    let rows = audit.lines().skip_while(|line| !line.starts_with('|'));
    rows.take_while(|line| line.starts_with('|'))
        .skip(2)
        .collect()
}

#[test]
fn the_networks_own_mtus_are_audited() {
    let mut run = fixture::run();
    let md = markdown(&Analysis::of(&run));
    let rows = mtu_audit(&md);
    for row in [
        "| bridge | 9000 | 0 | 9000 | 9000 | fits, to the byte |",
        "| overlane-vxlan | 9000 | 50 | 8950 | 8900 | fits, 50 bytes to spare |",
        "| overlane-geneve | 9000 | 58 | 8942 | 8900 | fits, 42 bytes to spare |",
    ] {
        let plain = |text: &str| text.replace(' ', "");
        let found = rows.iter().any(|found| plain(found) == plain(row));
        assert!(found, "{row} of\n{}", rows.join("\n"));
    }
    assert!(!rows.iter().any(|row| row.contains("direct")));
    // What is wrong is said.
    for cell in &mut run.cells {
        cell.path_sizes = cell.path_sizes.map(|sizes| PathSizes {
            underlay_mtu: 1500,
            ..sizes
        });
    }
    let md = markdown(&Analysis::of(&run));
    let rows = mtu_audit(&md).join("\n");
    assert!(rows.contains("too large by 58 bytes"), "{rows}");
    // Older records have no such sizes.
    for cell in &mut run.cells {
        cell.path_sizes = None;
    }
    let page = html(&Analysis::of(&run));
    assert!(!page.contains("MTU audit"));
    check_markup("without sizes", &page);
}

#[test]
fn a_run_without_cells_still_makes_a_page() {
    let mut run = fixture::run();
    run.cells.clear();
    let page = html(&Analysis::of(&run));
    assert!(page.contains("This run cannot say what an overlay costs"));
    assert!(page.contains("Trust: poor."));
    check_markup("empty", &page);
}

#[test]
fn csv_has_a_line_for_each_cell() {
    let run = fixture::run();
    let text = csv(&Analysis::of(&run));
    let mut lines = text.split_terminator("\r\n");
    let header = lines.next().unwrap().split(',').count();
    assert!(header > 3 * Metric::ALL.len());
    assert_eq!(lines.count(), run.cells.len());
}

/// Writes the pages of all fixtures into the folder that `OVERLANE_REPORT_DIR` names, to be looked at.
#[test]
fn pages_to_look_at() {
    let Some(dir) = std::env::var_os("OVERLANE_REPORT_DIR") else {
        return;
    };
    for (name, run, page) in pages() {
        let file = |end: &str| std::path::Path::new(&dir).join(format!("{name}.{end}"));
        std::fs::write(file("html"), page).unwrap();
        std::fs::write(file("md"), markdown(&Analysis::of(&run))).unwrap();
    }
}
