//! What the detours are called: devices that `apply` makes, and their programs. `kinds/detours.rs` makes them.

use overlane_ebpf::Program;
use serde::Serialize;

use super::paths;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Detour {
    /// Takes the tunnel's mark off.
    Unmarker,
    /// Joins segments.
    Coalescer,
}

/// In the unmarker's namespace.
pub(crate) const UNMARKER_INSIDE: &str = "ovl-unm1";
pub(crate) const COALESCER_INSIDE: &str = "ovl-coa1";
/// Where frames come out of the unmarker, one device for each family of IP.
pub(crate) const EXITS: [&str; 2] = ["ovl-unm4", "ovl-unm6"];

impl Detour {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Unmarker, Self::Coalescer];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unmarker => "unmarker",
            Self::Coalescer => "coalescer",
        }
    }

    /// The device to send into.
    pub const fn entrance(self) -> &'static str {
        match self {
            Self::Unmarker => "ovl-unm0",
            Self::Coalescer => "ovl-coa0",
        }
    }

    /// Its programs, and the device of each.
    pub(crate) const fn hooks(self) -> &'static [(Program, &'static str)] {
        match self {
            Self::Unmarker => &[
                (Program::FromUnmarker, EXITS[0]),
                (Program::FromUnmarker, EXITS[1]),
            ],
            Self::Coalescer => &[
                (Program::BackToPeer, COALESCER_INSIDE),
                (Program::FromUnderlay, "ovl-coa0"),
            ],
        }
    }

    /// The names of its devices in the host's namespace.
    pub(crate) const fn devices(self) -> &'static [&'static str] {
        match self {
            Self::Unmarker => &["ovl-unm0", EXITS[0], EXITS[1]],
            Self::Coalescer => &["ovl-coa0"],
        }
    }

    /// Its words, where the kernel refused it.
    pub(crate) fn thing(self) -> String {
        format!("detour {}", self.name())
    }
}

/// The names of all devices of ours in the host's namespace.
pub(crate) fn own_devices() -> impl Iterator<Item = &'static str> {
    let detours = Detour::ALL.into_iter().flat_map(Detour::devices);
    let others = [paths::SEGMENTER, paths::SEGMENTER_OUT, paths::GRO];
    detours.copied().chain(others)
}

/// Whether a device of this name is in the unmarker's namespace.
pub(crate) fn is_inside(device: &str) -> bool {
    [UNMARKER_INSIDE, COALESCER_INSIDE].contains(&device)
}

/// The name of the unmarker's namespace, which is nobody else's.
pub fn namespace_of(host: &str) -> String {
    format!("overlane.{host}.unmarker")
}
