//! VXLAN and Geneve. Written by hand: the emitters of `overlane-wire` cannot write what must not be sent.

use overlane_wire::geneve_option::{OVN_CLASS, OVN_KIND};

use crate::layers::{Geneve, GeneveOption, Vxlan};

const CONTROL: u8 = 0x80;
const CRITICAL: u8 = 0x40;
const ETHERNET: u16 = 0x6558;

fn with_low_byte(high: u32, low: u8) -> [u8; 4] {
    (high << 8 | u32::from(low)).to_be_bytes()
}

pub(super) fn vxlan(vxlan: &Vxlan) -> Vec<u8> {
    let [_, reserved @ ..] = vxlan.reserved.unwrap_or(0).to_be_bytes();
    let mut bytes = vec![vxlan.flags.unwrap_or(0x08)];
    bytes.extend(reserved);
    bytes.extend(with_low_byte(
        vxlan.vni.unwrap_or(0),
        vxlan.reserved2.unwrap_or(0),
    ));
    bytes
}

pub(super) fn geneve(geneve: &Geneve) -> Vec<u8> {
    let given = geneve.options.as_deref().unwrap_or_default();
    let options: Vec<u8> = given.iter().flat_map(option).collect();
    let critical = given
        .iter()
        .any(|option| option.ovn.is_some() || option.kind.unwrap_or(0) & 0x80 != 0);
    let opt_len = geneve.opt_len.unwrap_or((options.len() / 4) as u8);
    let mut flags = geneve.reserved.unwrap_or(0) & 0x3f;
    if geneve.oam == Some(true) {
        flags |= CONTROL;
    }
    if geneve.critical.unwrap_or(critical) {
        flags |= CRITICAL;
    }
    let mut bytes = vec![geneve.version.unwrap_or(0) << 6 | opt_len & 0x3f, flags];
    bytes.extend(geneve.protocol.unwrap_or(ETHERNET).to_be_bytes());
    bytes.extend(with_low_byte(
        geneve.vni.unwrap_or(0),
        geneve.reserved2.unwrap_or(0),
    ));
    bytes.extend(options);
    bytes
}

fn option(option: &GeneveOption) -> Vec<u8> {
    let (class, kind, data) = match &option.ovn {
        Some(ovn) => {
            let mut data = ovn.from.unwrap_or(0).to_be_bytes().to_vec();
            data.extend(ovn.to.unwrap_or(0).to_be_bytes());
            (OVN_CLASS, OVN_KIND, data)
        }
        None => (0, 0, Vec::new()),
    };
    let mut data = option.data.clone().map_or(data, |data| data.0);
    data.resize(data.len().next_multiple_of(4), 0);
    let len = option.len.unwrap_or((data.len() / 4) as u8);
    let mut bytes = option.class.unwrap_or(class).to_be_bytes().to_vec();
    bytes.push(option.kind.unwrap_or(kind));
    bytes.push(option.reserved.unwrap_or(0) << 5 | len & 0x1f);
    bytes.extend(data);
    bytes
}
