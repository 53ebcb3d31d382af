//! Names of IP protocols, as rules of the fabric file have them, and of ICMP's requests.

/// `tcp`, `icmp6`, …, or the number.
pub(crate) fn name(protocol: u8) -> String {
    match protocol {
        1 => "icmp",
        6 => "tcp",
        17 => "udp",
        58 => "icmp6",
        132 => "sctp",
        other => return format!("protocol/{other}"),
    }
    .to_owned()
}

/// The same with the message of ICMP: `icmp/8`.
pub(crate) fn with_type(protocol: u8, icmp_type: Option<u8>) -> String {
    match icmp_type {
        Some(kind) => format!("{}/{kind}", name(protocol)),
        None => name(protocol),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_named_as_in_rules() {
        assert_eq!(with_type(6, None), "tcp");
        assert_eq!(with_type(47, None), "protocol/47");
        assert_eq!(with_type(1, Some(8)), "icmp/8");
        assert_eq!(with_type(58, Some(128)), "icmp6/128");
    }
}
