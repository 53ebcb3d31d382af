//! Where study files come from: the ones that ship, and the user's own.

use super::{Selector, Study, check};
use crate::error::AnalysisError;
use crate::record::CellKey;
use std::path::{Path, PathBuf};

/// The studies that ship: name → text of the file.
const SHIPPED: [(&str, &str); 5] = [
    (
        "jumbo-vxlan",
        include_str!("../../../../studies/jumbo-vxlan.yaml"),
    ),
    (
        "geneve-vs-vxlan",
        include_str!("../../../../studies/geneve-vs-vxlan.yaml"),
    ),
    (
        "jumbo-migration",
        include_str!("../../../../studies/jumbo-migration.yaml"),
    ),
    (
        "cpu-cost",
        include_str!("../../../../studies/cpu-cost.yaml"),
    ),
    (
        "frame-sweep",
        include_str!("../../../../studies/frame-sweep.yaml"),
    ),
];

/// A study by its name, or by its file: what has a slash or ends in `.yaml` is a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StudyRef {
    /// One that ships.
    Shipped(String),
    /// The user's own.
    File(PathBuf),
}

impl From<&str> for StudyRef {
    fn from(text: &str) -> Self {
        if text.contains('/') || text.ends_with(".yaml") || text.ends_with(".yml") {
            Self::File(text.into())
        } else {
            Self::Shipped(text.to_owned())
        }
    }
}

/// No study is as large.
const MOST_BYTES: u64 = 1 << 20;

impl Study {
    /// Reads the text of a study file and checks it; `name` says which in errors.
    pub fn parse(name: &str, text: &str) -> Result<Self, AnalysisError> {
        check::read(name, text)
    }

    /// One of the studies that ship.
    pub fn shipped(name: &str) -> Result<Self, AnalysisError> {
        let Some((name, text)) = SHIPPED.iter().find(|(known, _)| *known == name) else {
            return Err(AnalysisError::UnknownStudy {
                name: name.to_owned(),
                known: SHIPPED.map(|(name, _)| name).join(", "),
            });
        };
        Self::parse(&format!("studies/{name}.yaml"), text)
    }

    /// A study that ships, or the user's own file.
    pub fn load(study: &StudyRef) -> Result<Self, AnalysisError> {
        match study {
            StudyRef::Shipped(name) => Self::shipped(name),
            StudyRef::File(path) => Self::parse(&path.display().to_string(), &text(path)?),
        }
    }

    /// All studies that ship.
    pub fn all_shipped() -> Result<Vec<Self>, AnalysisError> {
        SHIPPED
            .iter()
            .map(|(name, _)| Self::shipped(name))
            .collect()
    }
}

fn text(path: &Path) -> Result<String, AnalysisError> {
    let unreadable = |source| AnalysisError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let size = std::fs::metadata(path).map_err(unreadable)?;
    if size.len() > MOST_BYTES {
        let reason = format!("larger than {MOST_BYTES} bytes: not a study file");
        return Err(unreadable(std::io::Error::other(reason)));
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

impl Selector {
    /// The cell is one of those that this selects; its backend is for the caller to pair.
    pub fn selects(&self, cell: &CellKey) -> bool {
        let (workload, setting) = (&cell.group.workload, &cell.group.setting);
        let links = workload.migration.map(|moving| moving.links);
        self.backends.contains(&cell.backend)
            && same(self.test, workload.test)
            && same(self.bytes, workload.bytes)
            && same(self.instances, workload.instances)
            && same(self.mtu, setting.mtu_class)
            && same(self.offload, setting.offload)
            && same(self.vnis, setting.vnis)
            && same(self.pairs, setting.pairs)
            && (self.links.is_none() || self.links == links)
            && same(self.far_end, setting.far_end)
            && same(self.feature, setting.feature)
    }
}

/// What is null may be anything.
fn same<T: PartialEq>(wanted: Option<T>, value: T) -> bool {
    wanted.is_none_or(|wanted| wanted == value)
}
