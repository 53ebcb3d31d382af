//! Makes a difference small: fewer packets, a smaller fabric, shorter and emptier packets, as long as the
//! executors still differ.

use overlane_ebpf::EbpfError;

use super::{Difference, Met, run};
use crate::generate::{Arrival, FabricSpec, RouterSpec};
use crate::test_runner::TestRunner;

/// The most runs that are spent on it.
const ATTEMPTS: usize = 4000;

/// The smallest difference found.
pub fn shrink(kernel: &mut TestRunner, difference: Difference) -> Result<Difference, EbpfError> {
    let mut shrinker = Shrinker {
        kernel,
        best: difference,
        left: ATTEMPTS,
    };
    loop {
        let before = shrinker.left;
        let mut smaller = shrinker.packets()?;
        smaller |= shrinker.fabric()?;
        smaller |= shrinker.bytes()?;
        if !smaller || shrinker.left == 0 || shrinker.left == before {
            return Ok(shrinker.best);
        }
    }
}

struct Shrinker<'a> {
    kernel: &'a mut TestRunner,
    best: Difference,
    left: usize,
}

impl Shrinker<'_> {
    /// Takes the candidate over if the executors differ on it too, in the same way.
    fn differs(&mut self, spec: &FabricSpec, arrivals: &[Arrival]) -> Result<bool, EbpfError> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let found = run(Some(&mut *self.kernel), spec, arrivals, &mut Met::default())?;
        let found = found.filter(|found| found.kind() == self.best.kind());
        let differs = found.is_some();
        if let Some(found) = found {
            self.best = found;
        }
        Ok(differs)
    }

    fn packets(&mut self) -> Result<bool, EbpfError> {
        let mut smaller = false;
        let mut index = 0;
        while index < self.best.arrivals.len() && self.best.arrivals.len() > 1 {
            let mut fewer = self.best.arrivals.clone();
            fewer.remove(index);
            if self.differs(&self.best.spec.clone(), &fewer)? {
                smaller = true;
            } else {
                index += 1;
            }
        }
        Ok(smaller)
    }

    fn fabric(&mut self) -> Result<bool, EbpfError> {
        let mut smaller = false;
        for change in CHANGES {
            let mut index = 0;
            while let Some(spec) = change(&self.best.spec, index) {
                let is_change = spec.yaml() != self.best.spec.yaml();
                if is_change && self.differs(&spec, &self.best.arrivals.clone())? {
                    smaller = true;
                } else {
                    index += 1;
                }
            }
        }
        Ok(smaller)
    }

    fn bytes(&mut self) -> Result<bool, EbpfError> {
        let mut smaller = false;
        for index in 0..self.best.arrivals.len() {
            smaller |= self.plain(index)?;
            smaller |= self.cut(index)?;
            smaller |= self.clear(index)?;
        }
        Ok(smaller)
    }

    fn with(&mut self, index: usize, bytes: Vec<u8>) -> Result<bool, EbpfError> {
        let mut arrivals = self.best.arrivals.clone();
        let Some(arrival) = arrivals.get_mut(index) else {
            return Ok(false);
        };
        arrival.packet.bytes = bytes;
        self.differs(&self.best.spec.clone(), &arrivals)
    }

    fn bytes_of(&self, index: usize) -> Vec<u8> {
        let arrival = self.best.arrivals.get(index);
        arrival.map_or_else(Vec::new, |arrival| arrival.packet.bytes.clone())
    }

    /// No super-packet.
    fn plain(&mut self, index: usize) -> Result<bool, EbpfError> {
        let mut arrivals = self.best.arrivals.clone();
        match arrivals.get_mut(index) {
            Some(arrival) if arrival.packet.gso.is_some() => arrival.packet.gso = None,
            _ => return Ok(false),
        }
        self.differs(&self.best.spec.clone(), &arrivals)
    }

    /// Shorter by halves.
    fn cut(&mut self, index: usize) -> Result<bool, EbpfError> {
        let mut smaller = false;
        let mut step = self.bytes_of(index).len() / 2;
        while step > 0 {
            let mut bytes = self.bytes_of(index);
            bytes.truncate(bytes.len().saturating_sub(step));
            if self.with(index, bytes)? {
                smaller = true;
            } else {
                step /= 2;
            }
        }
        Ok(smaller)
    }

    /// Zeros, in pieces of 8 bytes and then single ones.
    fn clear(&mut self, index: usize) -> Result<bool, EbpfError> {
        let mut smaller = false;
        for piece in [8, 1] {
            for at in (0..self.bytes_of(index).len()).step_by(piece) {
                let mut bytes = self.bytes_of(index);
                let end = bytes.len().min(at + piece);
                let Some(part) = bytes
                    .get_mut(at..end)
                    .filter(|part| part.iter().any(|byte| *byte != 0))
                else {
                    continue;
                };
                part.fill(0);
                smaller |= self.with(index, bytes)?;
            }
        }
        Ok(smaller)
    }
}

/// A change by its number; none when there are no more.
type Change = fn(&FabricSpec, usize) -> Option<FabricSpec>;

const CHANGES: [Change; 9] = [
    |spec, index| {
        let mut spec = spec.clone();
        (index < spec.ports.len()).then(|| spec.ports.remove(index))?;
        Some(spec)
    },
    |spec, index| {
        // Only the last can go: ports know their switch by its place.
        let last = spec.switches.len() - 1;
        let joined = |router: &RouterSpec| router.interfaces.iter().any(|it| it.0 == last);
        let unused = spec.ports.iter().all(|port| port.switch != last)
            && spec.rules.iter().all(|rule| rule.switch != Some(last))
            && !spec.routers.iter().any(joined);
        (index == 0 && last > 0 && unused).then(|| {
            let mut spec = spec.clone();
            spec.switches.pop();
            spec
        })
    },
    |spec, index| {
        let mut spec = spec.clone();
        let port = spec.ports.get_mut(index / 6)?;
        match index % 6 {
            0 => port.security = "off",
            1 => port.learning = None,
            2 => port.allow.clear(),
            3 => drop(port.allowed.addresses.pop()),
            4 => port.allowed.macs.clear(),
            _ => port.address = 0,
        }
        Some(spec)
    },
    |spec, index| {
        let mut spec = spec.clone();
        match index {
            0 => spec.strict = false,
            1 => spec.dscp = "0".into(),
            2 => spec.source_ports = None,
            3 => spec
                .switches
                .iter_mut()
                .for_each(|switch| switch.floods = false),
            4 => spec
                .switches
                .iter_mut()
                .for_each(|switch| switch.is_transparent = false),
            5 => spec
                .switches
                .iter_mut()
                .for_each(|switch| switch.drops = (false, false)),
            6 => spec.port_shared = false,
            7 => spec.whole_udp = true,
            8 => spec.options = (None, vec![None; spec.hosts]),
            9 => spec
                .switches
                .iter_mut()
                .for_each(|switch| switch.non_ip = None),
            10 => spec
                .routers
                .iter_mut()
                .for_each(|router| router.is_loose = false),
            11 => spec
                .routers
                .iter_mut()
                .filter_map(|router| router.gateway.as_mut())
                .for_each(|gateway| gateway.drops_untranslated = false),
            12 => spec
                .switches
                .iter_mut()
                .for_each(|switch| switch.timeouts = None),
            13 => spec
                .routers
                .iter_mut()
                .filter_map(|router| router.gateway.as_mut())
                .for_each(|gateway| gateway.timeouts = None),
            14 => spec
                .switches
                .iter_mut()
                .for_each(|switch| switch.clamps = false),
            15 => spec
                .switches
                .iter_mut()
                .for_each(|switch| switch.is_silent = false),
            16 => spec
                .routers
                .iter_mut()
                .for_each(|router| router.clamps = false),
            17 => spec.leg_mtu = 1500,
            _ => return None,
        }
        Some(spec)
    },
    |spec, index| {
        let mut spec = spec.clone();
        (index < spec.rules.len()).then(|| spec.rules.remove(index))?;
        Some(spec)
    },
    |spec, index| {
        let mut spec = spec.clone();
        let rule = spec.rules.get_mut(index / 4)?;
        match index % 4 {
            0 => rule.log = false,
            1 => rule.peers.clear(),
            2 => rule.services.clear(),
            _ => rule.ports.truncate(1),
        }
        Some(spec)
    },
    |spec, index| {
        let mut spec = spec.clone();
        (index < spec.routers.len()).then(|| spec.routers.remove(index))?;
        Some(spec)
    },
    |spec, index| {
        let mut spec = spec.clone();
        let router = spec.routers.get_mut(index / 64)?;
        let at = index % 64;
        if at < 16 {
            (at < router.routes.len()).then(|| router.routes.remove(at));
        } else if let Some(gateway) = &mut router.gateway {
            (at - 16 < gateway.nat.len()).then(|| gateway.nat.remove(at - 16));
        }
        Some(spec)
    },
    |spec, index| {
        let mut spec = spec.clone();
        let router = spec.routers.get_mut(index / 4)?;
        let at = index % 4;
        if at == 0 {
            router.gateway = None;
        } else if router.interfaces.len() > 1 {
            (at <= router.interfaces.len()).then(|| router.interfaces.remove(at - 1));
        }
        Some(spec)
    },
];
