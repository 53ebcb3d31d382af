//! Where a network that is up stands on another footing than others may: decided from its devices as they are, from what
//! the path proof saw, and from what the kernel says.

use super::{Topology, UPLINK};
use crate::error::LabError;
use overlane_analysis::record::{Asymmetry, Encapsulation, Hop, PathSizes};

/// Keeps the tunnel's port registered (docs/fabric.md).
const GRO: &str = "ovl-gro";

/// What it is, and `None` where nothing is joined in a tunnel's stead.
fn tunnel_kind(encapsulation: Encapsulation) -> Option<&'static str> {
    match encapsulation {
        Encapsulation::None | Encapsulation::Vlan => None,
        Encapsulation::Vxlan => Some("vxlan"),
        Encapsulation::Geneve => Some("geneve"),
    }
}

impl Topology {
    /// `hops`: its devices as they are; `outer_checksum`: what the path proof saw.
    pub(crate) fn asymmetries(
        &self,
        hops: &[Hop],
        outer_checksum: Option<bool>,
    ) -> Result<Vec<Asymmetry>, LabError> {
        let mut found = Vec::new();
        let mut add = |is: bool, what| found.extend(is.then_some(what));
        let encapsulation = self.backend.encapsulation();
        let joins = self.receivers_join(hops);
        add(
            joins == Some(true) && self.lacks_gro(encapsulation)?,
            Asymmetry::NoGro { encapsulation },
        );
        add(outer_checksum == Some(true), Asymmetry::OuterChecksum);
        let detour = |hop: &Hop| hop.bridge_netfilter == Some(true);
        add(hops.iter().any(detour), Asymmetry::BridgeNetfilter);
        let count = self.relays_passed();
        add(count > 0, Asymmetry::Relay { count });
        add(self.guests_segment(hops), Asymmetry::NoSegmentationOffload);
        add(joins == Some(false), Asymmetry::NoReceiveOffload);
        Ok(found)
    }

    /// The MTUs of the path, and what was captured to be around the guests' packets; `None` without an underlay.
    pub(crate) fn sizes(&self, hops: &[Hop], around: Option<u32>) -> Option<PathSizes> {
        let is_guests = |hop: &Hop| self.guests().any(|it| it.node.place == hop.place);
        let is_underlay = |hop: &Hop| {
            let mut hosts = self.hosts.iter();
            !is_guests(hop) && (hop.device == UPLINK || hosts.all(|it| it.place != hop.place))
        };
        // Machines move over cables of their own, and Overlane's GRO device carries no packet.
        let links: Vec<String> = self.links().collect();
        let between = hops.iter().filter(|hop| {
            !is_guests(hop)
                && !is_underlay(hop)
                && !links.contains(&hop.device)
                && hop.device != GRO
        });
        let guests = hops.iter().filter(|hop| is_guests(hop));
        Some(PathSizes {
            underlay_mtu: hops
                .iter()
                .filter(|hop| is_underlay(hop))
                .map(|it| it.mtu)
                .min()?,
            header_bytes: around?,
            guest_mtu: guests.map(|hop| hop.mtu).max()?,
            between_mtu: between.map(|hop| hop.mtu).min(),
        })
    }

    /// The wire segments, and the kernel has nothing that would join the segments of such packets.
    fn lacks_gro(&self, encapsulation: Encapsulation) -> Result<bool, LabError> {
        let Some(kind) = tunnel_kind(encapsulation).filter(|_| !self.setting.offload) else {
            return Ok(false);
        };
        for host in self.hosts.iter().skip(1) {
            let links = host.netlink.links()?;
            let mut known = links.iter();
            if known.any(|link| link.up && link.kind.as_deref() == Some(kind)) {
                return Ok(false);
            }
            if host.netlink.has_kind(kind)? {
                return Ok(false);
            }
        }
        Ok(self.hosts.len() > 1)
    }

    /// GRO of the uplinks of all hosts but the first; `None` where there are none.
    fn receivers_join(&self, hops: &[Hop]) -> Option<bool> {
        let uplinks = hops.iter().filter(|hop| hop.device == UPLINK);
        let receivers = uplinks.filter(|hop| hop.place.starts_with("host") && hop.place != "host1");
        receivers
            .filter_map(|hop| hop.features.get("rx-gro").copied())
            .reduce(|a, b| a && b)
    }

    /// A guest on a host segments its packets itself. (That of a `direct` cable may have to: its device is the wire.)
    fn guests_segment(&self, hops: &[Hop]) -> bool {
        let guests = self
            .guests()
            .filter(|guest| guest.host.is_some() && !guest.is_physical);
        let mut devices = guests.flat_map(|guest| {
            let of_guest = |hop: &&Hop| hop.place == guest.node.place;
            hops.iter().filter(of_guest)
        });
        devices.any(|hop| hop.features.get("tx-tcp-segmentation") == Some(&false))
    }

    /// How many relays a packet of a pair passes.
    fn relays_passed(&self) -> u32 {
        let Some(pair) = self.pairs.first() else {
            return 0;
        };
        let guests = [&pair.sender, &pair.receiver];
        guests
            .map(|guest| u32::from(guest.relay.is_some()))
            .iter()
            .sum()
    }
}
