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

/// What [`name`] says, back to the number.
pub(crate) fn parse(text: &str) -> Result<u8, String> {
    let named = [1, 6, 17, 58, 132].into_iter().find(|it| name(*it) == text);
    let number = || text.strip_prefix("protocol/")?.parse().ok();
    named.or_else(number).ok_or_else(|| {
        "write tcp, udp, sctp, icmp, icmp6, or protocol/ and a number: protocol/47".to_owned()
    })
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

    #[test]
    fn each_name_is_read_as_its_protocol() {
        for protocol in 0..=255 {
            assert_eq!(parse(&name(protocol)), Ok(protocol));
        }
        assert_eq!(parse("protocol/6"), Ok(6));
        for wrong in ["", "TCP", "47", "protocol/256", "protocol/", "gre"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
