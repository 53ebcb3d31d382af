//! Names on the command line, parsed once: what is no name is wrong usage. A name becomes a part of paths, and it is
//! printed, so nothing else may come through.

use std::ops::Deref;

use overlane_model::{Name, NameError};

/// What the fabric file calls a host, a port, a switch or a router.
pub(super) fn name(text: &str) -> Result<Name, &'static str> {
    Name::new(text).map_err(|error: NameError| error.help())
}

/// The name of a network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetnsName(String);

impl Deref for NetnsName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// What `ip netns` takes, and a reader sees.
pub(super) fn netns(text: &str) -> Result<NetnsName, &'static str> {
    if overlane_host::is_netns_name(text) && text.chars().all(overlane_model::is_printable) {
        Ok(NetnsName(text.to_owned()))
    } else {
        Err(
            "the name of a network namespace has 1 to 255 printable bytes, without `/`, and does not begin with `.`",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_its_folder_or_changes_the_terminal() {
        for wrong in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "/a",
            "a\u{1b}[31m",
            "a\u{202e}",
            "a\nb",
        ] {
            assert!(name(wrong).is_err() && netns(wrong).is_err(), "{wrong:?}");
        }
        assert!(name("h1.example").is_ok() && name("h 1").is_err());
        assert_eq!(&*netns("ns 1").unwrap(), "ns 1");
        assert!(netns(&"n".repeat(256)).is_err());
    }
}
