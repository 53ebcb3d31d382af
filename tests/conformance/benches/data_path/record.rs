//! The result: a folder with the figures, comparable with another one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use overlane_ebpf::ProgramSize;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) host: BTreeMap<String, String>,
    /// By program.
    pub(crate) sizes: BTreeMap<String, Size>,
    /// By cell.
    pub(crate) cells: BTreeMap<String, Figures>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) verified_instructions: u32,
    pub(crate) translated_bytes: u32,
    pub(crate) jited_bytes: u32,
}

impl From<ProgramSize> for Size {
    fn from(size: ProgramSize) -> Self {
        Self {
            verified_instructions: size.verified_instructions,
            translated_bytes: size.translated_bytes,
            jited_bytes: size.jited_bytes,
        }
    }
}

/// Of one cell.
#[derive(Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) ns_median: f64,
    pub(crate) ns_lower_quartile: f64,
    pub(crate) ns_upper_quartile: f64,
    /// Median of each round.
    pub(crate) rounds_ns: Vec<f64>,
}

impl Figures {
    pub(crate) fn of(rounds_ns: Vec<f64>) -> Self {
        let mut sorted = rounds_ns.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |part: usize| sorted[(sorted.len() - 1) * part / 4];
        Self {
            ns_median: at(2),
            ns_lower_quartile: at(1),
            ns_upper_quartile: at(3),
            rounds_ns,
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.ns_lower_quartile <= other.ns_upper_quartile
            && other.ns_lower_quartile <= self.ns_upper_quartile
    }
}

/// `results/<time>-bench`, below the workspace.
pub(crate) fn new_folder() -> PathBuf {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock after 1970")
        .as_secs();
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../results/{seconds}-bench"))
}

pub(crate) fn host() -> BTreeMap<String, String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = model
        .and_then(|line| line.split_once(": "))
        .map_or("", |(_, name)| name);
    BTreeMap::from([
        (
            "kernel".into(),
            read("/proc/sys/kernel/osrelease").trim().into(),
        ),
        ("cpu".into(), model.into()),
        ("program".into(), env!("CARGO_PKG_VERSION").into()),
        ("command".into(), "make bench".into()),
    ])
}

impl Record {
    pub(crate) fn write(&self, folder: &Path) {
        fs::create_dir_all(folder).expect("the folder can be made");
        let json = serde_json::to_string_pretty(self).expect("figures");
        fs::write(folder.join("result.json"), json).expect("the result can be written");
        fs::write(folder.join("report.md"), self.table()).expect("the report can be written");
    }

    pub(crate) fn read(folder: &Path) -> Self {
        let path = folder.join("result.json");
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{} is no result of `make bench`: {error}", path.display())
        })
    }

    fn floor(&self) -> f64 {
        self.cells
            .get("one switch: floor")
            .map_or(0.0, |figures| figures.ns_median)
    }

    /// Both tables, in Markdown.
    pub(crate) fn table(&self) -> String {
        let mut out = String::from(
            "\n| program | verified instructions | eBPF bytes | machine code bytes |\n|---|---:|---:|---:|\n",
        );
        for (name, size) in &self.sizes {
            let Size {
                verified_instructions,
                translated_bytes,
                jited_bytes,
            } = size;
            writeln!(
                out,
                "| {name} | {verified_instructions} | {translated_bytes} | {jited_bytes} |"
            )
            .unwrap();
        }
        out.push_str(
            "\n| cell | ns per packet | quartiles | above the floor |\n|---|---:|---|---:|\n",
        );
        let floor = self.floor();
        for (name, figures) in &self.cells {
            let above = if name.starts_with("reference") {
                format!("{:.0} thousand packets/s", 1e6 / figures.ns_median)
            } else {
                format!("{:.0}", figures.ns_median - floor)
            };
            writeln!(
                out,
                "| {name} | {:.0} | {:.0}–{:.0} | {above} |",
                figures.ns_median, figures.ns_lower_quartile, figures.ns_upper_quartile
            )
            .unwrap();
        }
        out
    }

    /// Each cell against the same one of another run. Two runs are not interleaved: an overlap of the
    /// quartiles says nothing, and what does not overlap may be the machine's.
    pub(crate) fn compared_with(&self, base: &Self) -> String {
        let mut out =
            String::from("\n| cell | before, ns | now, ns | ratio | |\n|---|---:|---:|---:|---|\n");
        for (name, now) in &self.cells {
            let Some(before) = base.cells.get(name) else {
                continue;
            };
            let ratio = now.ns_median / before.ns_median;
            let word = match ratio {
                _ if now.overlaps(before) => "cannot tell",
                ratio if ratio < 1.0 => "faster",
                _ => "slower",
            };
            writeln!(
                out,
                "| {name} | {:.0} | {:.0} | {ratio:.2} | {word} |",
                before.ns_median, now.ns_median
            )
            .unwrap();
        }
        out
    }
}
