//! The packets of one network between the guests of a pair: which of those that a capture saw are theirs, and whether they
//! look as declared.

use crate::proof::frames::{Frame, Tunnel};
use crate::topology::layout::Subnet;
use crate::topology::{Expected, Network, Pair, Topology};
use overlane_analysis::record::Feature;
use std::net::IpAddr;

/// The packets of one network between the guests of a pair.
pub(super) struct Flow {
    /// Of the sending and the receiving guest.
    pub(super) names: [String; 2],
    /// Those that packets there and packets back cross the underlay in: a router puts them into the one of their
    /// destination before they leave the host.
    pub(super) networks: [Network; 2],
    /// What the sending guest's frames are tagged with.
    pub(super) tag: Option<u16>,
    /// The UDP source port that tells them from those of other networks; `None`: everything between these
    /// guests.
    pub(super) mark: Option<u16>,
    pub(super) sender: IpAddr,
    pub(super) receiver: IpAddr,
    /// An address of the sender that nobody may see here.
    pub(super) hidden: Option<IpAddr>,
    pub(super) counts: Counts,
}

/// What was seen of a flow, by direction.
#[derive(Debug, Default)]
pub(super) struct Counts {
    there: u64,
    back: u64,
    /// The guests' packets in any other form.
    otherwise: u64,
    example: Option<Frame>,
    ovn: Option<(u16, u16)>,
    /// Some packet in a tunnel had an outer UDP checksum.
    pub(super) outer_checksum: Option<bool>,
    /// The most that a tunnel took of the underlay's MTU; none: no packet was seen.
    pub(super) around: Option<u32>,
}

impl Flow {
    /// Everything between the guests of a pair, as the underlay has it.
    pub(super) fn between(topology: &Topology, pair: &Pair) -> Self {
        let (near, far) = (&pair.sender, &pair.receiver);
        // What goes to a physical host stays in the sender's network as far as the gateway.
        let networks = [far, near].map(|guest| {
            let first = guest.ports.first().map_or(0, |port| port.networks.start);
            Network::of(&topology.setting, first)
        });
        Self {
            names: [near, far].map(|guest| guest.node.place.clone()),
            networks,
            tag: None,
            mark: None,
            sender: near.address,
            receiver: far.address,
            hidden: None,
            counts: Counts::default(),
        }
    }

    /// The same, as the gateway's leg has it.
    pub(super) fn at_leg(topology: &Topology, pair: &Pair) -> Self {
        let mut flow = Self::between(topology, pair);
        if topology.setting.feature == Feature::GatewayNat {
            let outside = Subnet::Physical.router(topology.setting.inner);
            flow.hidden = Some(flow.sender);
            flow.sender = outside;
            flow.names[0] = format!("{} as {outside}", flow.names[0]);
        }
        flow
    }

    pub(super) fn add(&mut self, expected: Expected, frame: &Frame) {
        let ends = [frame.source, frame.destination];
        if self.hidden.is_some_and(|hidden| ends.contains(&hidden)) {
            return self.counts.strange(frame);
        }
        let there = match (frame.source, frame.destination) {
            way if way == (self.sender, self.receiver) => true,
            way if way == (self.receiver, self.sender) => false,
            _ => return,
        };
        if self.mark.is_some() && self.mark != frame.udp_source {
            return;
        }
        if let Some(Tunnel::Geneve { ovn, .. }) = frame.tunnel {
            self.counts.ovn = self.counts.ovn.or(ovn);
        }
        self.counts.around = self.counts.around.max(Some(frame.around));
        let known = self.counts.outer_checksum;
        self.counts.outer_checksum = super::either(known, frame.outer_checksum);
        match (self.has_form(expected, frame, there), there) {
            (true, true) => self.counts.there += 1,
            (true, false) => self.counts.back += 1,
            (false, _) => self.counts.strange(frame),
        }
    }

    /// Is this how a packet of the flow has to look, on its way there or back?
    fn has_form(&self, expected: Expected, frame: &Frame, there: bool) -> bool {
        let Network { vni, vlan, .. } = self.networks[usize::from(!there)];
        match (expected, frame.vlan, frame.tunnel, frame.inner_vlan) {
            (Expected::Plain, tag, None, None) => tag == self.tag,
            (Expected::Vlan, Some(tag), None, None) => tag == vlan,
            (Expected::Vxlan, None, Some(Tunnel::Vxlan { vni: seen }), None) => seen == vni,
            (
                Expected::Geneve { ovn },
                None,
                Some(Tunnel::Geneve {
                    vni: seen,
                    ovn: option,
                }),
                None,
            ) => seen == vni && option.is_some() == ovn,
            _ => false,
        }
    }

    pub(super) fn holds(&self) -> bool {
        self.counts.there > 0 && self.counts.back > 0 && self.counts.otherwise == 0
    }

    /// The form in words, in one of the networks.
    fn form(&self, expected: Expected, network: Network) -> String {
        let Network { vni, vlan, .. } = network;
        match expected {
            Expected::NoUnderlay => "on no underlay".to_owned(),
            Expected::Plain => match self.tag {
                None => "plain, in no tunnel".to_owned(),
                Some(tag) => format!("with their own 802.1Q tag, VLAN {tag}, in no tunnel"),
            },
            Expected::Vlan => format!("with an 802.1Q tag, VLAN {vlan}, in no tunnel"),
            Expected::Vxlan => format!("in VXLAN (UDP 4789, I flag), VNI {vni}"),
            Expected::Geneve { ovn: false } => format!("in Geneve (UDP 6081), VNI {vni}"),
            Expected::Geneve { ovn: true } => {
                let ports = self.counts.ovn;
                let ports = ports.map_or(String::new(), |(from, to)| format!(" {from} to {to}"));
                format!("in Geneve (UDP 6081), VNI {vni}, with OVN's option (logical ports{ports})")
            }
        }
    }

    pub(super) fn detail(&self, expected: Expected) -> String {
        let Counts {
            there,
            back,
            otherwise,
            example,
            ..
        } = &self.counts;
        let [sender, receiver] = &self.names;
        let tag = match self.tag {
            Some(tag) => format!(" (tag {tag})"),
            None => String::new(),
        };
        let [form, form_back] = self.networks.map(|network| self.form(expected, network));
        let mut detail = if form == form_back {
            format!("{there} packets from {sender}{tag} and {back} from {receiver} {form}")
        } else {
            format!(
                "{there} packets from {sender}{tag} {form} and {back} from {receiver} {form_back}"
            )
        };
        if *otherwise > 0 {
            let example = example.as_ref();
            let example = example.map_or(String::new(), |frame| format!(", the first: {frame:?}"));
            detail += &format!("; {otherwise} in another form{example}");
        } else {
            detail += "; none in another form";
        }
        detail
    }
}

impl Counts {
    /// A packet that looks as none of the flow's may.
    fn strange(&mut self, frame: &Frame) {
        self.otherwise += 1;
        self.example.get_or_insert_with(|| frame.clone());
    }
}
