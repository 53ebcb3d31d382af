//! `cells.csv`: one line per cell, RFC 4180.

use crate::results::{Analysis, CellFigures, Metric, status};

/// The file.
pub(super) fn cells(analysis: &Analysis<'_>) -> String {
    let fixed = [
        "backend",
        "mtu",
        "streams",
        "offload",
        "status",
        "reason",
        "path_proof",
        "samples",
    ];
    let mut header: Vec<String> = fixed.map(str::to_owned).into();
    for metric in Metric::ALL {
        let key = metric.key();
        header.extend([
            format!("{key}_mean"),
            format!("{key}_low"),
            format!("{key}_high"),
        ]);
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
    let mut fields = vec![
        cell.key.backend.to_string(),
        cell.key.mtu.to_string(),
        cell.key.streams.to_string(),
        cell.key.offload.to_string(),
        status.to_owned(),
        reason.unwrap_or_default().to_owned(),
        cell.path_proof.to_string(),
        figures.samples().to_string(),
    ];
    for metric in Metric::ALL {
        let summary = figures.get(metric);
        let number = |v: f64| format!("{v:.6}");
        fields.push(summary.map_or_else(String::new, |s| number(s.mean)));
        let ends = summary
            .and_then(|s| s.ci95)
            .map_or_else(Default::default, |ci| ci.map(number));
        fields.extend(ends);
    }
    fields
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
    #[test]
    fn quoting() {
        assert_eq!(super::quote("plain"), "plain");
        assert_eq!(super::quote("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }
}
