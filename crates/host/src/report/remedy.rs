//! What helps: a command where one does.

use std::fmt;

use serde::{Serialize, Serializer};

/// What helps against a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// `ip` with these words, in a network namespace; none: in that of the host, which nobody has named yet.
    Ip(Option<String>, String),
    /// A command.
    Command(String),
    /// What to do where no command does it.
    Advice(String),
}

impl Remedy {
    /// Repairs what differs from the tables that were applied last.
    pub(crate) fn apply_again(host: &str) -> Self {
        Self::Command(format!("overlane apply --last --host {host}"))
    }

    /// The same where only the file says what was applied.
    pub(crate) fn apply_file(host: &str) -> Self {
        Self::Command(format!("overlane apply FILE --host {host}"))
    }

    /// In this network namespace; none: in that of its reader.
    pub(crate) fn in_namespace(self, namespace: Option<&str>) -> Self {
        match self {
            Self::Ip(_, words) => Self::Ip(namespace.map(str::to_owned), words),
            other => other,
        }
    }

    /// For a sentence: a command is set off from the words around it.
    pub fn words(&self) -> String {
        match self {
            Self::Advice(_) => self.to_string(),
            Self::Ip(..) | Self::Command(_) => format!("run `{self}`"),
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(Some(namespace), words) => write!(f, "ip -n {namespace} {words}"),
            Self::Ip(None, words) => write!(f, "ip {words}"),
            Self::Command(text) | Self::Advice(text) => f.write_str(text),
        }
    }
}

impl Serialize for Remedy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_namespace_that_it_is_for() {
        let up = || Remedy::Ip(None, "link set a up".to_owned());
        let there = up().in_namespace(Some("blue"));
        assert_eq!(there.words(), "run `ip -n blue link set a up`");
        assert_eq!(up().in_namespace(None).words(), "run `ip link set a up`");
        let command = Remedy::Command("ovs-vsctl x".to_owned());
        assert_eq!(
            command.in_namespace(Some("blue")).to_string(),
            "ovs-vsctl x"
        );
        let advice = Remedy::Advice("look".to_owned());
        assert_eq!(advice.words(), "look");
    }
}
