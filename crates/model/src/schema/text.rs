//! The texts of the fabric file that have a form: what each is, and its pattern.

use schemars::{JsonSchema, SchemaGenerator, json_schema};

use crate::{names, netns};

/// A text type of the schema: description and pattern.
macro_rules! text {
    ($name:ident, $description:literal, $pattern:expr) => {
        #[derive(PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
        pub(super) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
                json_schema!({
                    "type": "string",
                    "description": $description,
                    "pattern": $pattern,
                })
            }
        }
    };
}

text!(Name, "A name.", names::Name::PATTERN);
text!(
    Device,
    "The name of a network device.",
    names::DeviceName::PATTERN
);
text!(
    NetnsText,
    "The name of a network namespace, or the absolute path of its file.",
    netns::Netns::PATTERN
);
text!(
    MacText,
    "A MAC address: six hexadecimal octets. Put it in quotes.",
    "^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$"
);
text!(
    Address,
    "An IPv4 or IPv6 address without prefix length. Put IPv6 in quotes.",
    "^([0-9]{1,3}(\\.[0-9]{1,3}){3}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)$"
);
text!(
    NetworkText,
    "A network, like 198.18.1.0/24, without bits behind its prefix; or one address. Put IPv6 in quotes.",
    "^([0-9]{1,3}(\\.[0-9]{1,3}){3}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)(/[0-9]{1,3})?$"
);
text!(
    InterfaceAddress,
    "An address with the length of its network's prefix, like 198.18.1.254/24. Put IPv6 in quotes.",
    "^([0-9]{1,3}(\\.[0-9]{1,3}){3}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)/[0-9]{1,3}$"
);
text!(
    Socket,
    "An address and a port, like 198.18.1.10:80 or [2001:2::1]:80. Put it in quotes.",
    "^([0-9]{1,3}(\\.[0-9]{1,3}){3}|\\[[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*\\]):[0-9]{1,5}$"
);
text!(
    Peer,
    "A network or address, or the name of a network, group, port or switch.",
    "^([A-Za-z0-9][A-Za-z0-9._-]{0,62}|([0-9]{1,3}(\\.[0-9]{1,3}){3}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)(/[0-9]{1,3})?)$"
);
text!(
    Service,
    "A protocol, or a part of it: tcp, tcp/80, udp/8000-8100, sctp/2905, icmp/8, icmp/3/4, icmp6/128, protocol/47.",
    "^((tcp|udp|sctp)(/[0-9]{1,5}(-[0-9]{1,5})?)?|icmp6?(/[0-9]{1,3}(/[0-9]{1,3})?)?|protocol/[0-9]{1,3})$"
);
text!(
    PortRange,
    "A first and a last port.",
    "^[0-9]{1,5}-[0-9]{1,5}$"
);
