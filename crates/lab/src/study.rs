//! Study files: question, method, matrix and published figures of one study, as data.
//!
//! A study is one YAML file under the project's `studies/`; the ones that ship are built into the
//! program. Another study with the same axes is a new file and no new code.

use crate::error::LabError;
use crate::record::{BackendName, MtuClass};
use serde::{Deserialize, Serialize};

/// The studies that ship: name → text of the file.
const SHIPPED: [(&str, &str); 1] = [(
    "jumbo-vxlan",
    include_str!("../../../studies/jumbo-vxlan.yaml"),
)];

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
    /// The document that it repeats.
    pub source: Source,
    /// How the laboratory measures: one paragraph an entry, printed in the report.
    pub method: Vec<String>,
    /// The whole matrix.
    pub matrix: Matrix,
    /// The matrix of `--quick`.
    pub quick: Matrix,
    /// The figures that the document published.
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

/// What is measured: the product of backends and groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// Samples per cell, without the warm-up.
    pub samples: u32,
    /// Length of a sample; whole seconds, the generator knows no others.
    pub seconds: u32,
    /// Length of the warm-up sample, which is recorded and not counted.
    pub warm_up_seconds: u32,
    /// What is compared.
    pub backends: Vec<BackendName>,
    /// The settings under which it is compared.
    pub groups: Vec<GroupAxes>,
}

/// A product of settings; a matrix may list several, so that it need not be a full product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupAxes {
    /// Size classes of the MTU.
    pub mtu: Vec<MtuClass>,
    /// Numbers of parallel streams.
    pub streams: Vec<u32>,
    /// Wire offload.
    pub offload: Vec<bool>,
}

/// Published figures. They are printed beside the measured ones as reference: other hardware, so
/// shapes and ratios compare, absolute values do not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Tables of figures.
    pub tables: Vec<PublishedTable>,
    /// What the document says besides, one finding an entry.
    pub findings: Vec<String>,
}

/// One published table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedTable {
    /// Its caption.
    pub title: String,
    /// Its rows.
    pub rows: Vec<PublishedRow>,
}

/// One row of a published table of throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRow {
    /// `VXLAN` or `VLAN`.
    pub network: String,
    /// The guests' MTU.
    pub mtu: u32,
    /// Parallel streams.
    pub streams: u32,
    /// The figure.
    pub goodput_gbps: f64,
    /// The readings behind it, where they were published.
    #[serde(default)]
    pub readings_gbps: Vec<f64>,
    /// The backends here that play the part of this network.
    #[serde(default)]
    pub compare: Vec<BackendName>,
}

impl Study {
    /// Reads a study file; `name` says which in errors.
    pub fn parse(name: &str, text: &str) -> Result<Self, LabError> {
        serde_saphyr::from_str(text).map_err(|source| LabError::Study {
            name: name.to_owned(),
            source: Box::new(source),
        })
    }

    /// One of the studies that ship.
    pub fn shipped(name: &str) -> Result<Self, LabError> {
        let Some((name, text)) = SHIPPED.iter().find(|(known, _)| *known == name) else {
            let known = SHIPPED
                .iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(LabError::UnknownStudy {
                name: name.to_owned(),
                known,
            });
        };
        Self::parse(name, text)
    }

    /// Puts other backends in place of the study's own, in the order in which tables show them.
    pub(crate) fn compare_only(&mut self, backends: &[BackendName]) {
        for matrix in [&mut self.matrix, &mut self.quick] {
            matrix.backends = BackendName::ALL
                .into_iter()
                .filter(|name| backends.contains(name))
                .collect();
        }
    }

    /// All studies that ship.
    pub fn all_shipped() -> Result<Vec<Self>, LabError> {
        SHIPPED
            .iter()
            .map(|(name, text)| Self::parse(name, text))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_figures_of_study_a_are_complete() {
        let study = Study::shipped("jumbo-vxlan").unwrap();
        let rows = &study.published.tables[0].rows;
        let figures: Vec<_> = rows
            .iter()
            .map(|row| (row.network.as_str(), row.mtu, row.streams, row.goodput_gbps))
            .collect();
        assert_eq!(
            figures,
            [
                ("VXLAN", 1500, 1, 4.60),
                ("VXLAN", 1500, 4, 4.37),
                ("VLAN", 1500, 1, 7.40),
                ("VLAN", 1500, 4, 6.97),
                ("VXLAN", 8900, 1, 9.33),
                ("VXLAN", 8900, 4, 9.78),
                ("VLAN", 9000, 1, 9.87),
            ]
        );
        for row in rows.iter().filter(|row| !row.readings_gbps.is_empty()) {
            let mean = row.readings_gbps.iter().sum::<f64>() / row.readings_gbps.len() as f64;
            assert!((mean - row.goodput_gbps).abs() < 0.006, "{row:?}");
            assert_eq!(row.readings_gbps.len(), 5);
        }
    }

    #[test]
    fn other_backends_come_once_and_in_the_order_of_tables() {
        let mut study = Study::shipped("jumbo-vxlan").unwrap();
        let (vlan, ovs) = (BackendName::OverlaneVlan, BackendName::OvsVlan);
        study.compare_only(&[vlan, ovs, vlan]);
        assert_eq!(study.matrix.backends, [ovs, vlan]);
        assert_eq!(study.quick.backends, [ovs, vlan]);
    }

    #[test]
    fn errors_name_the_study() {
        let unknown = Study::shipped("none").unwrap_err().to_string();
        assert!(unknown.contains("jumbo-vxlan"), "{unknown}");
        let broken = Study::parse("mine", "name: mine\ntitel: x\n")
            .unwrap_err()
            .to_string();
        assert!(broken.contains("`mine`"), "{broken}");
    }
}
