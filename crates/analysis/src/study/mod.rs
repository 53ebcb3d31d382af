//! Study files: question, method, matrix, views and published figures of one study, as data.
//!
//! A study is one YAML file under the project's `studies/`; the ones that ship are built into the
//! program. Another study is a new file and no new code. [`load`] reads and checks them.

mod axes;
mod change;
mod check;
pub mod limits;
mod load;
mod near;
pub mod possible;
#[cfg(test)]
mod published;
mod rules;
mod shape;
#[cfg(test)]
mod tests;
mod tree;

pub use change::Overrides;
pub use check::Mistake;
pub(crate) use check::told;
pub use load::StudyRef;

use crate::record::{BackendName, Family, FarEnd, Feature, GuestKind, MtuClass, Test, Tuning};
use crate::search::Preset;
use serde::{Deserialize, Serialize};

/// One study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The name on the command line.
    pub name: String,
    /// The title of the report.
    pub title: String,
    /// What the study answers.
    pub question: String,
    /// The document that it repeats; null: a study of the user's own.
    #[serde(default)]
    pub source: Option<Source>,
    /// How the laboratory measures: one paragraph an entry, printed in the report.
    #[serde(default)]
    pub method: Vec<String>,
    /// The whole matrix.
    pub matrix: Matrix,
    /// The matrix of `--quick`.
    pub quick: Matrix,
    /// What the report shows besides the tables and charts that every report has.
    #[serde(default)]
    pub views: Vec<View>,
    /// The figures that the document published.
    #[serde(default)]
    pub published: Published,
}

/// The document that a study repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Title of the document.
    pub title: String,
    /// Who published it.
    pub publisher: String,
    /// Day of publication.
    pub date: String,
    /// Address.
    pub url: String,
    /// The hardware and software that the document measured.
    pub testbed: String,
}

/// What is measured: the product of networks and groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// Samples per cell, without the warm-up, taken in turn.
    pub samples: u32,
    /// When there are enough; null: after `samples`.
    #[serde(default)]
    pub repeat: Option<Repeat>,
    /// Length of a sample's window.
    pub seconds: f64,
    /// Length of the warm-up sample, which is recorded and not counted.
    pub warm_up_seconds: f64,
    /// What is compared.
    #[serde(rename = "networks", alias = "backends")]
    pub backends: Vec<BackendName>,
    /// Each network is built twice and measured against itself: how often does noise look like a difference?
    #[serde(default)]
    pub against_itself: bool,
    /// Rounds beside which other programs run count, and are marked; else they are taken again.
    #[serde(default)]
    pub busy_machine: bool,
    /// The settings under which it is compared.
    pub groups: Vec<GroupAxes>,
}

/// When a cell has enough samples. All samples count in comparisons; what a rule says of them is shown beside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Repeat {
    /// Study B's (pbench-uperf): sets of `set` samples in a row; one whose population standard deviation is within
    /// `percent` of its mean is the result, others are kept as discarded sets; after `attempts` sets it is given up.
    Within {
        /// Samples of a set.
        set: u32,
        /// Largest spread.
        percent: f64,
        /// Most sets.
        attempts: u32,
    },
    /// netperf's (`-I 95,width -i max,min`): more samples until the 95 % interval of the mean is no wider than
    /// `width_percent` of it in all, for the figure and for the CPU, at most `most` samples.
    Confidence {
        /// Whole width.
        width_percent: f64,
        /// Most samples.
        most: u32,
    },
}

/// A product of settings; a matrix may list several, so that it need not be a full product. Only what the study
/// varies has to be named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupAxes {
    /// Tests.
    pub tests: Vec<Test>,
    /// Message or frame sizes.
    pub bytes: Vec<u32>,
    /// Parallel connections of a pair of guests.
    #[serde(default = "one")]
    pub instances: Vec<u32>,
    /// Size classes of the MTU.
    #[serde(default = "standard")]
    pub mtu: Vec<MtuClass>,
    /// Wire offload.
    #[serde(default = "on")]
    pub offload: Vec<bool>,
    /// What the receiving guests are behind.
    #[serde(default = "host")]
    pub far_end: Vec<FarEnd>,
    /// Virtual hosts.
    #[serde(default = "two")]
    pub hosts: Vec<u32>,
    /// Pairs of guests.
    #[serde(default = "one")]
    pub pairs: Vec<u32>,
    /// What the guests are.
    #[serde(default = "containers")]
    pub guests: Vec<GuestKind>,
    /// Logical switches.
    #[serde(default = "one")]
    pub vnis: Vec<u32>,
    /// Families of the guests' addresses.
    #[serde(default = "ipv4")]
    pub inner: Vec<Family>,
    /// Families of the underlay.
    #[serde(default = "ipv4")]
    pub underlay: Vec<Family>,
    /// What the network does besides switching.
    #[serde(default = "as_it_comes")]
    pub feature: Vec<Feature>,
    /// How the networks are set.
    #[serde(default = "alike")]
    pub tuning: Vec<Tuning>,
    /// Socket buffers.
    #[serde(default)]
    pub buffer_bytes: Option<u32>,
    /// Offered rates of packet tests; empty: as fast as the sender can, or a search.
    #[serde(default)]
    pub rate_pps: Vec<u32>,
    /// Rates of TCP streams, in Mbit/s; empty: as fast as the sender can.
    #[serde(default)]
    pub rate_mbps: Vec<u32>,
    /// The highest rate is searched.
    #[serde(default)]
    pub search: Option<Preset>,
    /// Memory of each machine that moves, in MiB.
    #[serde(default = "memory")]
    pub guest_memory_mib: Vec<u32>,
    /// Share of that memory that is written all the time, in per cent.
    #[serde(default = "dirty_percent")]
    pub dirty_percent: Vec<u32>,
    /// How fast it is written.
    #[serde(default = "dirty_rate")]
    pub dirty_mib_per_second: Vec<u32>,
    /// Cables that the memory travels over.
    #[serde(default = "one")]
    pub links: Vec<u32>,
    /// Machines go on at the other host before all of their memory is there.
    #[serde(default = "precopy")]
    pub postcopy: Vec<bool>,
    /// Only these networks in this group; null: the matrix's.
    #[serde(rename = "networks", alias = "backends", default)]
    pub backends: Option<Vec<BackendName>>,
    /// So many samples in this group, for what takes long; null: the matrix's.
    #[serde(default)]
    pub samples: Option<u32>,
}

fn one() -> Vec<u32> {
    vec![1]
}
fn two() -> Vec<u32> {
    vec![2]
}
fn standard() -> Vec<MtuClass> {
    vec![MtuClass::Standard]
}
fn on() -> Vec<bool> {
    vec![true]
}
fn host() -> Vec<FarEnd> {
    vec![FarEnd::Host]
}
fn containers() -> Vec<GuestKind> {
    vec![GuestKind::Veth]
}
fn memory() -> Vec<u32> {
    vec![256]
}
fn dirty_percent() -> Vec<u32> {
    vec![40]
}
fn dirty_rate() -> Vec<u32> {
    vec![20]
}
fn precopy() -> Vec<bool> {
    vec![false]
}
fn ipv4() -> Vec<Family> {
    vec![Family::Ipv4]
}
fn as_it_comes() -> Vec<Feature> {
    vec![Feature::Default]
}
fn alike() -> Vec<Tuning> {
    vec![Tuning::Alike]
}

/// What a report shows besides what every report has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "view", rename_all = "kebab-case", deny_unknown_fields)]
pub enum View {
    /// Packet rate on the underlay over time, beside the goodput (study A).
    PacketRate,
    /// Difference tables, scenario by scenario, green, red or grey (study B): throughput scenarios by CPU, transactions
    /// by rate and CPU.
    Difference {
        /// (a, b): the difference is a − b.
        pairs: Vec<(BackendName, BackendName)>,
    },
    /// Host CPU and guest CPU beside each figure (study C).
    GuestCpu,
    /// How long machines took to move, and what their flows noticed (study C).
    Migrations,
    /// What a step costs in CPU %/Gbit/s against a baseline, in six lines, scaled to a host of `cores` at `at_gbps` (study D).
    CpuSteps {
        /// Backends that play the baseline, the first that was measured counts.
        baseline: Vec<BackendName>,
        /// Steps, each against the baseline.
        steps: Vec<BackendName>,
        /// Steps of each of these networks besides: with the feature against the network as it comes.
        #[serde(default)]
        features: Vec<Feature>,
        /// The rate that the extra cost is shown at.
        at_gbps: f64,
        /// Cores of the host that it is scaled to.
        cores: u32,
    },
    /// The draft's table by frame size, model A beside model B, the CPU-increase table and the loss-against-CPU curve (study E).
    FrameTable {
        /// (model A, model B): networks without and with the overlay.
        pairs: Vec<(BackendName, BackendName)>,
    },
    /// Cost by the number of VNIs.
    Vnis,
}

/// Published figures. They are printed beside the measured ones as reference: other hardware, so
/// shapes and ratios compare, absolute values do not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Tables of figures, as they were printed.
    #[serde(default)]
    pub tables: Vec<PublishedTable>,
    /// Ratios of two figures of the document, and which cells here are their like.
    #[serde(default)]
    pub ratios: Vec<PublishedRatio>,
    /// What the document says besides, one finding an entry.
    #[serde(default)]
    pub findings: Vec<String>,
}

/// One published table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedTable {
    /// Its caption.
    pub title: String,
    /// Heads of the columns, the first is the rows' own; units in the words.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<PublishedRow>,
}

/// One row of a published table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRow {
    /// The first column.
    pub name: String,
    /// The others; null where the document has none.
    pub values: Vec<Option<f64>>,
    /// The readings behind it, where they were published.
    #[serde(default)]
    pub readings: Vec<f64>,
}

/// A ratio of two published figures, and the cells here that it is held against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRatio {
    /// What against what, in words.
    pub name: String,
    /// The published figures, a / b.
    pub published: (f64, f64),
    /// The quantity here, a key of `result.json` such as `goodput_gbps`.
    pub metric: String,
    /// The numerator here.
    pub a: Selector,
    /// The denominator here; its networks pair with those of `a` in their order.
    pub b: Selector,
}

/// Cells of a run. What is null may be anything, as long as it is the same on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selector {
    /// The networks.
    #[serde(rename = "networks", alias = "backends")]
    pub backends: Vec<BackendName>,
    /// The test.
    #[serde(default)]
    pub test: Option<Test>,
    /// Message or frame size.
    #[serde(default)]
    pub bytes: Option<u32>,
    /// Instances.
    #[serde(default)]
    pub instances: Option<u32>,
    /// Size class of the MTU.
    #[serde(default)]
    pub mtu: Option<MtuClass>,
    /// Wire offload.
    #[serde(default)]
    pub offload: Option<bool>,
    /// Number of switches.
    #[serde(default)]
    pub vnis: Option<u32>,
    /// Pairs of guests, or machines that move at once.
    #[serde(default)]
    pub pairs: Option<u32>,
    /// Cables that the memory of machines travels over.
    #[serde(default)]
    pub links: Option<u32>,
    /// What the receiving guests are behind.
    #[serde(default)]
    pub far_end: Option<FarEnd>,
    /// What the network does besides switching.
    #[serde(default)]
    pub feature: Option<Feature>,
}
