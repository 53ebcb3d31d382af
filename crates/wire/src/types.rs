//! Numbers with a meaning: each is a newtype whose constructor checks the range once, so that the
//! rest of the program cannot hold a wrong one. The headers of this crate and the fabric's model
//! both speak in these types.

use std::fmt;
use std::net::Ipv6Addr;
use std::num::{NonZeroU16, NonZeroU32};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A value outside the range of its type; carries the value that was offered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ValueError {
    /// Text that is not six colon-separated octets.
    #[error("`{0}` is not a MAC address (six hexadecimal octets, like 02:00:00:00:00:01)")]
    Mac(String),
    /// A network identifier outside 1..=2^24-1.
    #[error("VNI {0} is out of range (1 to 16777215)")]
    Vni(u32),
    /// Text that is not a VNI.
    #[error("`{0}` is not a VNI (a number from 1 to 16777215)")]
    VniText(String),
    /// A logical port key outside 1..=32767.
    #[error("port key {0} is out of range (1 to 32767)")]
    PortKey(u32),
    /// Text that is not a port key.
    #[error("`{0}` is not a port key (a number from 1 to 32767)")]
    PortKeyText(String),
    /// A VLAN identifier above 4095.
    #[error("VLAN identifier {0} is out of range (0 to 4095)")]
    VlanId(u16),
    /// A VLAN priority above 7.
    #[error("VLAN priority {0} is out of range (0 to 7)")]
    VlanPriority(u8),
}

/// An Ethernet (MAC-48) address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac([u8; 6]);

impl Mac {
    /// Of an IPv6 multicast group (RFC 2464 section 7).
    pub const fn of_ipv6_group(group: Ipv6Addr) -> Self {
        let [.., a, b, c, d] = group.octets();
        Self::new([0x33, 0x33, a, b, c, d])
    }

    /// ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// 00:00:00:00:00:00, which names no station.
    pub const ZERO: Self = Self([0; 6]);

    /// Every six octets are an address; whether it may name a station is asked with
    /// [`is_group`](Self::is_group) and [`is_zero`](Self::is_zero).
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// The six octets in the order of transmission.
    pub const fn get(self) -> [u8; 6] {
        self.0
    }

    /// The six octets in the order of transmission.
    pub const fn bytes(&self) -> &[u8; 6] {
        &self.0
    }

    /// Broadcast or multicast: the I/G bit, the first on the wire (IEEE 802 §8.2.2).
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// ff:ff:ff:ff:ff:ff.
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// All octets are zero.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// fe80::/64 and the modified EUI-64 of the MAC (RFC 4291 appendix A).
    pub fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0;
        let eui = [a ^ 2, b, c, 0xff, 0xfe, d, e, f];
        Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(u64::from_be_bytes(eui)))
    }
}

impl From<[u8; 6]> for Mac {
    fn from(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

impl TryFrom<&str> for Mac {
    type Error = ValueError;

    fn try_from(text: &str) -> Result<Self, ValueError> {
        text.parse()
    }
}

impl TryFrom<String> for Mac {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Self, ValueError> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.to_string()
    }
}

impl FromStr for Mac {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong = || ValueError::Mac(text.to_owned());
        let mut bytes = [0u8; 6];
        let mut octets = text.split(':');
        for byte in &mut bytes {
            let octet = octets.next().ok_or_else(wrong)?;
            // from_str_radix alone would take "+1".
            if octet.len() != 2 || !octet.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            *byte = u8::from_str_radix(octet, 16).map_err(|_| wrong())?;
        }
        match octets.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(wrong()),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The 24-bit identifier of a logical switch on the wire. 0 is refused: peers give it meanings of
/// their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Vni(NonZeroU32);

impl Vni {
    /// The largest VNI, 2^24-1.
    pub const MAX: u32 = 0x00ff_ffff;

    /// Checks 1 ≤ `value` ≤ 2^24-1.
    pub const fn new(value: u32) -> Result<Self, ValueError> {
        match NonZeroU32::new(value) {
            Some(vni) if value <= Self::MAX => Ok(Self(vni)),
            _ => Err(ValueError::Vni(value)),
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The three octets of the header field.
    pub const fn bytes(self) -> [u8; 3] {
        let [_, a, b, c] = self.get().to_be_bytes();
        [a, b, c]
    }
}

impl From<Vni> for u32 {
    fn from(vni: Vni) -> Self {
        vni.get()
    }
}

impl TryFrom<u32> for Vni {
    type Error = ValueError;

    fn try_from(value: u32) -> Result<Self, ValueError> {
        Self::new(value)
    }
}

impl FromStr for Vni {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let value = text
            .parse()
            .map_err(|_| ValueError::VniText(text.to_owned()))?;
        Self::new(value)
    }
}

impl fmt::Display for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The number of a logical port inside its logical switch, the same on every host. 15 bits, because
/// that is what the OVN Geneve option carries; 0 is reserved there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct PortKey(NonZeroU16);

impl PortKey {
    /// The largest key, 2^15-1.
    pub const MAX: u16 = 0x7fff;

    /// Checks 1 ≤ `value` ≤ 32767.
    pub const fn new(value: u16) -> Result<Self, ValueError> {
        match NonZeroU16::new(value) {
            Some(key) if value <= Self::MAX => Ok(Self(key)),
            _ => Err(ValueError::PortKey(value as u32)),
        }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl From<PortKey> for u16 {
    fn from(key: PortKey) -> Self {
        key.get()
    }
}

impl TryFrom<u16> for PortKey {
    type Error = ValueError;

    fn try_from(value: u16) -> Result<Self, ValueError> {
        Self::new(value)
    }
}

impl TryFrom<u32> for PortKey {
    type Error = ValueError;

    fn try_from(value: u32) -> Result<Self, ValueError> {
        let key = u16::try_from(value).map_err(|_| ValueError::PortKey(value))?;
        Self::new(key)
    }
}

impl FromStr for PortKey {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let value: u32 = text
            .parse()
            .map_err(|_| ValueError::PortKeyText(text.to_owned()))?;
        Self::try_from(value)
    }
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What follows the Ethernet header, or a VLAN tag (IEEE 802 numbers).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// An 802.1Q tag.
    pub const VLAN: Self = Self(0x8100);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// An 802.1ad service tag.
    pub const SERVICE_VLAN: Self = Self(0x88a8);
    /// "Transparent Ethernet bridging": an Ethernet frame inside Geneve.
    pub const TEB: Self = Self(0x6558);

    /// Below 0x0600 the field is a length (IEEE 802.3), not a type.
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }

    /// 802.1Q or 802.1ad.
    pub const fn is_vlan(self) -> bool {
        self.0 == Self::VLAN.0 || self.0 == Self::SERVICE_VLAN.0
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Tag control information of one VLAN tag: PCP(3) DEI(1) VID(12).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VlanTag {
    vid: u16,
    pcp: u8,
    dei: bool,
}

impl VlanTag {
    /// Checks the ranges of identifier (12 bits) and priority (3 bits).
    pub const fn new(vid: u16, pcp: u8, dei: bool) -> Result<Self, ValueError> {
        if vid > 0x0fff {
            return Err(ValueError::VlanId(vid));
        }
        if pcp > 7 {
            return Err(ValueError::VlanPriority(pcp));
        }
        Ok(Self { vid, pcp, dei })
    }

    /// From the 16 bits on the wire; every value is a tag.
    pub const fn from_tci(tci: u16) -> Self {
        Self {
            vid: tci & 0x0fff,
            pcp: (tci >> 13) as u8,
            dei: tci & 0x1000 != 0,
        }
    }

    /// The 16 bits on the wire.
    pub const fn tci(self) -> u16 {
        self.vid | (self.dei as u16) << 12 | (self.pcp as u16) << 13
    }

    /// VLAN identifier; 0 marks a tag that carries only a priority, 4095 is reserved.
    pub const fn vid(self) -> u16 {
        self.vid
    }

    /// Priority code point.
    pub const fn pcp(self) -> u8 {
        self.pcp
    }

    /// Drop eligible indicator.
    pub const fn dei(self) -> bool {
        self.dei
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_address_of_a_mac() {
        // RFC 4291 appendix A: the universal/local bit is inverted.
        let mac = Mac::new([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(mac.link_local().to_string(), "fe80::3656:78ff:fe9a:bcde");
        let mac = Mac::new([0x02, 0, 0, 0, 0, 0x11]);
        assert_eq!(mac.link_local().to_string(), "fe80::ff:fe00:11");
    }

    #[test]
    fn mac_text() {
        let mac: Mac = "02:00:00:0A:ff:01".parse().unwrap();
        assert_eq!(mac.get(), [2, 0, 0, 0x0a, 0xff, 1]);
        assert_eq!(mac.to_string(), "02:00:00:0a:ff:01");
        for wrong in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "02:00:00:00:00:+1",
            "2:0:0:0:0:1",
            "02-00-00-00-00-01",
        ] {
            assert_eq!(wrong.parse::<Mac>(), Err(ValueError::Mac(wrong.to_owned())));
        }
        assert!(Mac::BROADCAST.is_group() && Mac::BROADCAST.is_broadcast());
        assert!(Mac::ZERO.is_zero() && !Mac::ZERO.is_group());
        assert!(Mac::new([0x33, 0x33, 0, 0, 0, 1]).is_group());
        assert!(!Mac::new([0x02, 0, 0, 0, 0, 1]).is_group());
    }

    #[test]
    fn vni_range() {
        assert_eq!(Vni::new(0), Err(ValueError::Vni(0)));
        assert_eq!(Vni::new(1 << 24), Err(ValueError::Vni(1 << 24)));
        assert_eq!(Vni::new(0x12_3456).unwrap().bytes(), [0x12, 0x34, 0x56]);
        assert_eq!("16777215".parse::<Vni>().unwrap().get(), Vni::MAX);
        assert_eq!("x".parse::<Vni>(), Err(ValueError::VniText("x".to_owned())));
    }

    #[test]
    fn port_key_range() {
        assert_eq!(PortKey::new(0), Err(ValueError::PortKey(0)));
        assert_eq!(PortKey::new(0x8000), Err(ValueError::PortKey(0x8000)));
        assert_eq!("70000".parse::<PortKey>(), Err(ValueError::PortKey(70000)));
        assert_eq!(PortKey::new(32767).unwrap().to_string(), "32767");
        assert!(PortKey::new(1).unwrap() < PortKey::new(2).unwrap());
    }

    #[test]
    fn vlan_tag_bits() {
        let tag = VlanTag::new(100, 5, true).unwrap();
        assert_eq!(tag.tci(), 0xb064);
        assert_eq!(VlanTag::from_tci(0xb064), tag);
        assert_eq!(VlanTag::new(4096, 0, false), Err(ValueError::VlanId(4096)));
        assert_eq!(VlanTag::new(1, 8, false), Err(ValueError::VlanPriority(8)));
    }
}
