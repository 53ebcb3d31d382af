//! The page below the figures: what is missing, the method, the machine, warnings, discarded samples.

use crate::results::{Analysis, label, status};

use super::html::section;
use super::markup::Markup;
use super::numbers::{short, utc};
use super::tables::table;
use super::words::GLOSSARY;

/// Cells without figures, with the reason.
pub(super) fn unavailable(m: &mut Markup, analysis: &Analysis<'_>) {
    let missing: Vec<_> = analysis
        .cells
        .iter()
        .filter(|figures| !figures.is_ok())
        .collect();
    section(m, "unavailable", "What could not be measured", |m| {
        if missing.is_empty() {
            m.leaf("p", &[], "Nothing: every cell of the matrix was measured.");
            return;
        }
        table(
            m,
            "Cells without figures",
            &["Cell", "Status", "Reason"],
            |m| {
                for figures in missing {
                    let (word, reason) = status(&figures.cell.status);
                    m.el("tr", &[], |m| {
                        m.leaf("th", &[("scope", &"row")], label(&figures.cell.key));
                        m.leaf("td", &[("class", &"text")], word);
                        m.leaf("td", &[("class", &"text wide")], reason.unwrap_or_default());
                    });
                }
            },
        );
    });
}

/// How it was measured, and the words of the page.
pub(super) fn method(m: &mut Markup, analysis: &Analysis<'_>) {
    section(m, "method", "How it was measured", |m| {
        m.el("ul", &[], |m| {
            analysis
                .run
                .study
                .method
                .iter()
                .for_each(|text| m.leaf("li", &[], text));
        });
        m.leaf("h3", &[], "The words of this page");
        m.el("dl", &[("class", &"words")], |m| {
            for (term, meaning) in GLOSSARY {
                m.leaf("dt", &[], term);
                m.leaf("dd", &[], meaning);
            }
        });
    });
}

/// The machine and its settings.
pub(super) fn host(m: &mut Markup, analysis: &Analysis<'_>) {
    section(m, "host", "The machine", |m| {
        table(m, "Host record", &["What", "Value"], |m| {
            for (what, value) in host_facts(analysis) {
                pair(m, what, &value);
            }
        });
        let env = &analysis.run.env;
        for (title, map) in [
            ("Programs", &env.tools),
            ("Kernel settings (sysctl)", &env.sysctl),
            ("CPU mitigations", &env.mitigations),
        ] {
            if !map.is_empty() {
                folded(m, title, |m| {
                    table(m, title, &["Name", "Value"], |m| {
                        map.iter().for_each(|(name, value)| pair(m, name, value));
                    });
                });
            }
        }
        hops(m, analysis);
    });
}

/// (what, value) of the host record, for the page and for Markdown.
pub(super) fn host_facts(analysis: &Analysis<'_>) -> Vec<(&'static str, String)> {
    let env = &analysis.run.env;
    let yes_no = |b: bool| if b { "yes" } else { "no" }.to_owned();
    let missing = || "not known".to_owned();
    let mut facts = vec![
        ("CPU", format!("{} × {}", env.cpus, env.cpu_model)),
        ("Memory", format!("{} MiB", env.memory_mib)),
        ("Virtual machine", yes_no(env.virtualised)),
        ("Kernel", env.kernel.clone()),
        ("Kernel command line", env.cmdline.clone()),
        ("Distribution", env.os.clone()),
        (
            "Frequency governor",
            env.governor.clone().unwrap_or_else(missing),
        ),
        ("Hyper-threading", env.smt.clone().unwrap_or_else(missing)),
        ("CPU accounting", env.cpu_accounting.clone()),
        ("CPUs of virtual host 1", cpus(&env.host1_cpus)),
        ("CPUs of virtual host 2", cpus(&env.host2_cpus)),
        ("Hosts share a CPU", yes_no(env.shared_cpus)),
        ("Overlane", env.overlane_version.clone()),
    ];
    for probe in &env.noise {
        let [median, spread, worst] =
            [probe.median_us, probe.spread_percent, probe.worst_percent].map(short);
        let text = format!(
            "CPU {}: a fixed piece of work took {median} µs, 90th percentile +{spread} %, slowest +{worst} %",
            probe.cpu
        );
        let when = if probe.when == "before" {
            "Steadiness before"
        } else {
            "Steadiness after"
        };
        facts.push((when, text));
    }
    facts
}

fn cpus(cpus: &[usize]) -> String {
    cpus.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn hops(m: &mut Markup, analysis: &Analysis<'_>) {
    let hops = &analysis.run.env.hops;
    if hops.is_empty() {
        return;
    }
    let header = [
        "Topology",
        "Place",
        "Device",
        "MTU",
        "RPS CPUs",
        "Features on",
        "Features off",
        "Pause",
    ];
    folded(m, "Devices on every path and their settings", |m| {
        table(m, "Devices", &header, |m| {
            for hop in hops {
                let with = |on: bool| {
                    let names = hop
                        .features
                        .iter()
                        .filter(|&(_, &v)| v == on)
                        .map(|(k, _)| k.as_str());
                    names.collect::<Vec<_>>().join(" ")
                };
                m.el("tr", &[], |m| {
                    m.leaf("th", &[("scope", &"row")], &hop.topology);
                    let (mtu, rps) = (hop.mtu.to_string(), cpus(&hop.rps_cpus));
                    let pause = hop.pause.as_deref().unwrap_or("–");
                    for text in [&hop.place, &hop.device, &mtu, &rps] {
                        m.leaf("td", &[("class", &"text")], text);
                    }
                    for text in [&with(true), &with(false)] {
                        m.leaf("td", &[("class", &"text wide")], text);
                    }
                    m.leaf("td", &[("class", &"text")], pause);
                });
            }
        });
    });
}

/// What a reader has to know before believing the figures.
pub(super) fn warnings(m: &mut Markup, analysis: &Analysis<'_>) {
    section(m, "warnings", "Warnings", |m| {
        if analysis.warnings.is_empty() {
            m.leaf("p", &[], "None.");
            return;
        }
        m.el("ul", &[("class", &"warnings")], |m| {
            analysis
                .warnings
                .iter()
                .for_each(|text| m.leaf("li", &[], text));
        });
    });
}

/// Samples that were taken and do not count.
pub(super) fn discarded(m: &mut Markup, analysis: &Analysis<'_>) {
    section(m, "discarded", "Discarded samples", |m| {
        let count = analysis.discarded.len();
        if count == 0 {
            m.leaf("p", &[], "None.");
            return;
        }
        m.leaf(
            "p",
            &[],
            "Taken, kept in samples.ndjson, and not counted in any figure.",
        );
        folded(m, &format!("{count} samples"), |m| {
            let header = ["Cell", "#Round", "Begun", "#Gbit/s", "Why"];
            table(m, "Discarded samples", &header, |m| {
                for discarded in &analysis.discarded {
                    let sample = discarded.sample;
                    m.el("tr", &[], |m| {
                        m.leaf("th", &[("scope", &"row")], label(&sample.cell));
                        m.leaf("td", &[("class", &"n")], sample.round);
                        m.leaf("td", &[("class", &"text")], utc(sample.started_unix_ms));
                        let goodput = sample.goodput_gbps;
                        let text = if goodput.is_finite() {
                            short(goodput)
                        } else {
                            "–".to_owned()
                        };
                        m.leaf("td", &[("class", &"n")], text);
                        m.leaf("td", &[("class", &"text wide")], discarded.reason);
                    });
                }
            });
        });
    });
}

/// The command that repeats the run, and where the rest lies.
pub(super) fn repeat(m: &mut Markup, analysis: &Analysis<'_>) {
    section(m, "repeat", "Repeat it", |m| {
        m.el("pre", &[], |m| {
            m.leaf("code", &[], &analysis.run.env.command)
        });
        m.leaf(
            "p",
            &[("class", &"dim")],
            "Beside this page: result.json (all figures), samples.ndjson (every sample), cells.csv, env.json, \
             report.md.",
        );
    });
}

fn pair(m: &mut Markup, what: &str, value: &str) {
    m.el("tr", &[], |m| {
        m.leaf("th", &[("scope", &"row")], what);
        m.leaf("td", &[("class", &"text wide")], value);
    });
}

fn folded(m: &mut Markup, title: &str, content: impl FnOnce(&mut Markup)) {
    m.el("details", &[("class", &"folded")], |m| {
        m.leaf("summary", &[], title);
        content(m);
    });
}
