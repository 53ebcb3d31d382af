//! `cells.csv`: one line per cell, RFC 4180.

use crate::record::CellKey;
use crate::results::{Analysis, CellFigures, Metric, status};

/// Columns before the figures.
const FIXED: [&str; 33] = [
    "network",
    "copy",
    "test",
    "bytes",
    "instances",
    "buffer_bytes",
    "offered_pps",
    "search",
    "mtu_class",
    "mtu",
    "offload",
    "far_end",
    "hosts",
    "pairs",
    "guests",
    "guest_memory_mib",
    "dirty_percent",
    "dirty_mib_per_second",
    "links",
    "postcopy",
    "vnis",
    "inner",
    "underlay",
    "feature",
    "tuning",
    "status",
    "reason",
    "path_proof",
    "samples",
    "bound",
    "reference",
    "reference_percent",
    "rule_met",
];

/// The file.
pub(in crate::report) fn cells(analysis: &Analysis<'_>) -> String {
    let mut header: Vec<String> = FIXED.map(str::to_owned).into();
    for metric in Metric::ALL {
        let key = metric.key();
        header.extend(["mean", "low", "high"].map(|part| format!("{key}_{part}")));
    }
    let mut out = line(&header);
    for figures in &analysis.cells {
        out += &line(&row(figures));
    }
    out
}

fn row(figures: &CellFigures<'_>) -> Vec<String> {
    let cell = figures.cell;
    let (status, reason) = status(&cell.status);
    let mut fields = dimensions(&cell.key);
    fields.extend([
        status.to_owned(),
        reason.unwrap_or_default().to_owned(),
        cell.path_proof.to_string(),
        figures.samples().to_string(),
        word(&figures.bound),
        number(figures.reference),
        number(figures.reference_percent()),
        optional(figures.rule_met),
    ]);
    for metric in Metric::ALL {
        let summary = figures.get(metric);
        let ends = summary.and_then(|s| s.ci95);
        fields.push(number(summary.map(|s| s.mean)));
        fields.push(number(ends.map(|[low, _]| low)));
        fields.push(number(ends.map(|[_, high]| high)));
    }
    fields
}

fn dimensions(key: &CellKey) -> Vec<String> {
    let (workload, setting) = (&key.group.workload, &key.group.setting);
    let moving = workload.migration;
    vec![
        key.backend.to_string(),
        key.copy.to_string(),
        workload.test.to_string(),
        workload.bytes.to_string(),
        workload.instances.to_string(),
        optional(workload.buffer_bytes),
        optional(workload.rate_pps),
        workload
            .search
            .map_or_else(String::new, |preset| word(&preset)),
        word(&setting.mtu_class),
        key.mtu().to_string(),
        setting.offload.to_string(),
        word(&setting.far_end),
        setting.hosts.to_string(),
        setting.pairs.to_string(),
        word(&setting.guests),
        optional(setting.guest_memory_mib),
        optional(moving.map(|moving| moving.dirty_percent)),
        optional(moving.map(|moving| moving.dirty_mib_per_second)),
        optional(moving.map(|moving| moving.links)),
        optional(moving.map(|moving| moving.postcopy)),
        setting.vnis.to_string(),
        word(&setting.inner),
        word(&setting.underlay),
        word(&setting.feature),
        word(&setting.tuning),
    ]
}

/// The word that `result.json` uses for it.
fn word(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_value(value).ok();
    let text = json.as_ref().and_then(|json| json.as_str());
    text.unwrap_or_default().to_owned()
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |v| format!("{v:.6}"))
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

fn line(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| quote(field)).collect();
    fields.join(",") + "\r\n"
}

fn quote(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;

    #[test]
    fn quoting() {
        assert_eq!(quote("plain"), "plain");
        assert_eq!(quote("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }

    #[test]
    fn every_line_has_every_column() {
        for (name, run) in fixture::all() {
            let text = cells(&Analysis::of(&run));
            let lines: Vec<&str> = text.split_terminator("\r\n").collect();
            assert_eq!(lines.len(), run.cells.len() + 1, "{name}");
            let columns = FIXED.len() + 3 * Metric::ALL.len();
            assert_eq!(lines[0].split(',').count(), columns);
            for line in lines.iter().filter(|line| !line.contains('"')) {
                assert_eq!(line.split(',').count(), columns, "{name}: {line}");
            }
            assert!(!text.contains("NaN") && !text.contains("inf,"), "{name}");
        }
    }
}
