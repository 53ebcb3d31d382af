//! Names as checked values: what the fabric file calls things ([`Name`]) and what the kernel calls
//! devices ([`DeviceName`]).

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a text is no name.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum NameError {
    /// Not a [`Name`].
    #[error("`{0}` is not a name")]
    Name(String),
    /// Not a [`DeviceName`].
    #[error("`{0}` is not a device name")]
    Device(String),
    /// A device that `apply` creates for itself.
    #[error("`{0}` is reserved: Overlane names its own devices `{OWN_DEVICES}…`")]
    OwnDevice(String),
    /// The device by which each network namespace speaks to itself.
    #[error(
        "`{LOOPBACK}` is the loopback device: all that the host says to itself would be lost there"
    )]
    Loopback,
}

impl NameError {
    /// What would be right.
    pub const fn help(&self) -> &'static str {
        match self {
            Self::Name(_) => {
                "a name has 1 to 63 letters, digits, `.`, `_` or `-`, and begins with a letter or digit"
            }
            Self::Device(_) => {
                "a device name has 1 to 15 bytes, without `/`, `:` and white space, as `ip link` shows it"
            }
            Self::OwnDevice(_) => "name the device in another way",
            Self::Loopback => "name the device that leads to the guest or to the network",
        }
    }
}

/// Beginning of the names of devices that `apply` creates.
pub const OWN_DEVICES: &str = "ovl-";

/// The kernel gives each network namespace a device of this name.
const LOOPBACK: &str = "lo";

macro_rules! text_type {
    ($name:ident) => {
        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.into()
            }
        }

        // Sound for map look-ups: Eq, Ord and Hash are those of the text.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

/// What the fabric file calls a host, a logical switch, port or router, a rule, a set of ports or addresses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Box<str>);
text_type!(Name);

impl Name {
    /// The rule as a regular expression, for the JSON Schema.
    pub const PATTERN: &'static str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$";

    /// Checks the rule.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let alnum_first = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if alnum_first && text.len() <= 63 && text.chars().all(rest) {
            Ok(Self(text.into()))
        } else {
            Err(NameError::Name(text.to_owned()))
        }
    }
}

/// The name of a network device. Not yet known to exist on the machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceName(Box<str>);
text_type!(DeviceName);

impl DeviceName {
    /// The rule as a regular expression, for the JSON Schema (which counts characters, not bytes).
    pub const PATTERN: &'static str = r"^[^/:\s]{1,15}$";

    /// Checks what the kernel would (net/core/dev.c, `dev_valid_name`), control characters, and that
    /// the device is neither one of our own nor loopback.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let refused = |c: char| matches!(c, '/' | ':') || c.is_whitespace() || c.is_control();
        if !(1..=15).contains(&text.len())
            || matches!(text, "." | "..")
            || text.chars().any(refused)
        {
            return Err(NameError::Device(text.to_owned()));
        }
        if text.starts_with(OWN_DEVICES) {
            return Err(NameError::OwnDevice(text.to_owned()));
        }
        if text == LOOPBACK {
            return Err(NameError::Loopback);
        }
        Ok(Self(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for right in ["a", "9", "web-1.blue_x", &"x".repeat(63)] {
            assert_eq!(Name::new(right).unwrap().as_str(), right);
        }
        for wrong in ["", "-a", ".a", "a b", "ä", "a/b", &"x".repeat(64)] {
            assert_eq!(Name::new(wrong), Err(NameError::Name(wrong.to_owned())));
        }
    }

    #[test]
    fn the_loopback_device_is_nobodys_port() {
        assert_eq!(DeviceName::new("lo"), Err(NameError::Loopback));
        DeviceName::new("lo0").unwrap();
    }

    #[test]
    fn device_names() {
        for right in ["e", "eth0", "veth-a.100", "fifteen-bytes-x", "a@b"] {
            assert_eq!(DeviceName::new(right).unwrap().as_str(), right);
        }
        for wrong in [
            "",
            ".",
            "..",
            "a/b",
            "a:1",
            "a b",
            "a\u{a0}",
            "a\0",
            "sixteen-bytes-xx",
            "ääääääää",
        ] {
            assert_eq!(
                DeviceName::new(wrong),
                Err(NameError::Device(wrong.to_owned()))
            );
        }
        assert!(matches!(
            DeviceName::new("ovl-seg0"),
            Err(NameError::OwnDevice(_))
        ));
    }
}
