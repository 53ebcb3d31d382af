//! A side of a comparison within one result: which network.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::AnalysisError;
use crate::record::{BackendName, CellKey, Feature, Run};

/// A network as one names it: `overlane-vxlan`, or `overlane-vxlan+routing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    /// The backend.
    pub backend: BackendName,
    /// What it does besides switching; `None`: whatever it does, each feature by itself.
    pub feature: Option<Feature>,
}

impl Network {
    pub(super) fn has(self, key: &CellKey) -> bool {
        let feature = key.group.setting.feature;
        self.backend == key.backend && self.feature.is_none_or(|one| one == feature)
    }

    /// The cell of this network that belongs to another network's.
    pub(super) fn counterpart(self, key: CellKey) -> CellKey {
        let mut group = key.group;
        group.setting.feature = self.feature.unwrap_or(group.setting.feature);
        CellKey {
            backend: self.backend,
            group,
            ..key
        }
    }
}

/// Where one side names a feature, the other one is as it comes unless it names one too.
pub(super) fn sides((a, b): (Network, Network)) -> (Network, Network) {
    if a.feature.or(b.feature).is_none() {
        return (a, b);
    }
    let whole = |network: Network| Network {
        feature: Some(network.feature.unwrap_or_default()),
        ..network
    };
    (whole(a), whole(b))
}

/// Errors: the result has no such network; it says which ones it has.
pub(super) fn check(run: &Run, network: Network) -> Result<(), AnalysisError> {
    if run.cells.iter().any(|cell| network.has(&cell.key)) {
        return Ok(());
    }
    let all = run.cells.iter().map(|cell| Network {
        backend: cell.key.backend,
        feature: Some(cell.key.group.setting.feature),
    });
    let all: BTreeSet<Network> = all.collect();
    let known: Vec<String> = all.iter().map(Network::to_string).collect();
    Err(AnalysisError::NotComparable {
        reason: format!("the result has no {network} (it has {})", known.join(", ")),
    })
}

impl FromStr for Network {
    type Err = AnalysisError;

    fn from_str(text: &str) -> Result<Self, AnalysisError> {
        let (backend, feature) = match text.split_once('+') {
            Some((backend, feature)) => (backend, Some(feature.parse()?)),
            None => (text, None),
        };
        Ok(Self {
            backend: backend.parse()?,
            feature,
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.feature {
            None | Some(Feature::Default) => write!(f, "{}", self.backend),
            Some(feature) => write!(f, "{}+{feature}", self.backend),
        }
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
