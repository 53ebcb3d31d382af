//! Sentences for people, made from rows.

use std::fmt;

use super::row::{ChangeKind, Difference, MISSING, Object, PROGRAM, Row};

/// Up to so many things of one kind are listed, more are counted.
const LISTED_MAX: usize = 8;

impl Object {
    /// What one is called, and what several are.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Port => ("port", "ports"),
            Self::Switch => ("switch", "switches"),
            Self::Remote => ("remote", "remotes"),
            Self::Rule => ("rule", "rules"),
            Self::Router => ("router", "routers"),
            Self::FdbEntry => ("FDB entry", "FDB entries"),
            Self::Neighbour => ("neighbour", "neighbours"),
            Self::AllowedAddress => ("allowed address", "allowed addresses"),
            Self::AllowedMac => ("allowed MAC", "allowed MACs"),
            Self::Setting => ("setting", "settings"),
            Self::Guard => ("guard", "guards"),
            Self::Leg => ("leg", "legs"),
            Self::Uplink => ("uplink", "uplinks"),
            Self::Device => ("device", "devices"),
            Self::Promiscuous => ("promiscuous mode of", "promiscuous modes"),
            Self::NextHop => ("next hop", "next hops"),
            Self::MulticastGroup => ("multicast group of", "multicast groups"),
            Self::DataPath => ("data path", "data paths"),
            Self::Namespace => ("namespace", "namespaces"),
            Self::Link => ("link", "links"),
            Self::Maps => ("maps", "maps"),
            Self::Announcement => ("announcements", "announcements"),
            Self::Connections => ("connections of", "connections"),
            Self::File => ("file", "files"),
            Self::State => ("state", "states"),
            Self::Kernel => ("kernel", "kernels"),
            Self::Host => ("host", "hosts"),
            Self::Source => ("source", "sources"),
            Self::Agent => ("agent", "agents"),
        }
    }

    /// `port`, `next hop`.
    pub fn word(self) -> &'static str {
        let (one, _) = self.words();
        one.strip_suffix(" of").unwrap_or(one)
    }

    /// Many of them are counted, not listed.
    const fn is_counted(self) -> bool {
        matches!(
            self,
            Self::Rule
                | Self::Router
                | Self::FdbEntry
                | Self::Neighbour
                | Self::AllowedAddress
                | Self::AllowedMac
        )
    }
}

impl Row {
    /// Without its sign.
    pub fn sentence(&self) -> String {
        let subject = self.subject();
        if self.change.is_none() {
            return self.finding_words(&subject);
        }
        if self.differs.is_empty() {
            return subject;
        }
        let separator = if self.object == Object::Setting {
            ""
        } else {
            ":"
        };
        let differs: Vec<_> = self.differs.iter().map(ToString::to_string).collect();
        let differs = differs.join(", ");
        format!("{subject}{separator} {differs}")
            .trim_start()
            .to_owned()
    }

    /// What it is about: `port web1 (device web1, key 7)`.
    pub fn subject(&self) -> String {
        let name = &self.name;
        let mut words = match self.object {
            Object::Setting if self.change.is_some() => String::new(),
            Object::DataPath | Object::Announcement | Object::Agent => {
                self.object.words().0.to_owned()
            }
            Object::Guard => {
                let table = self.of.as_ref().map_or("", |(_, table)| table);
                return match self.change {
                    Some(_) => format!("guard: nftables table {table} ({name})"),
                    None => format!("guard {table} ({name})"),
                };
            }
            _ => format!("{} {name}", self.object.words().0),
        };
        match &self.of {
            Some((Object::Device, device)) => words.push_str(&format!(" on {device}")),
            Some((Object::Switch, switch)) => words.push_str(&format!(" on switch {switch}")),
            Some((object, of)) => words.push_str(&format!(" of {} {of}", object.words().0)),
            None => {}
        }
        if let Some(detail) = &self.detail {
            words.push_str(&format!(" ({detail})"));
        }
        words
    }

    /// How the thing is now, for who looks at it: `program is missing, should be attached`.
    pub fn condition(&self) -> String {
        let differs = self.differs.iter().map(|it| match (&it.have, &it.wanted) {
            (Some(have), Some(wanted)) => format!("{} is {have}, should be {wanted}", it.what),
            _ => format!("{} differs", it.what),
        });
        let differs: Vec<_> = differs.collect();
        let differs = match (self.change, differs.is_empty()) {
            (Some(ChangeKind::Add), true) => "is missing".to_owned(),
            (Some(ChangeKind::Remove), true) => "should not be there".to_owned(),
            (Some(ChangeKind::Modify), true) => "differs".to_owned(),
            (None, _) if self.meaning.is_some() => String::new(),
            _ => differs.join(", "),
        };
        let meaning = self.meaning.iter().cloned();
        let parts = (!differs.is_empty()).then_some(differs).into_iter();
        parts.chain(meaning).collect::<Vec<_>>().join(": ")
    }

    /// What it means, and what helps.
    fn finding_words(&self, subject: &str) -> String {
        let subject = match self.object {
            // There is one of them, and what it means names it.
            Object::Host | Object::Kernel | Object::Announcement => None,
            _ => Some(subject),
        };
        let words = subject.into_iter().chain(self.meaning.as_deref());
        let mut words = words.collect::<Vec<_>>().join(": ");
        if let Some(remedy) = &self.remedy {
            words.push_str(&format!("; {}", remedy.words()));
        }
        words
    }
}

impl ChangeKind {
    /// `+`, `~` or `-`.
    pub const fn sign(self) -> char {
        match self {
            Self::Add => '+',
            Self::Modify => '~',
            Self::Remove => '-',
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.what == PROGRAM && self.have.as_deref() == Some(MISSING) {
            return f.write_str("attached to its device again");
        }
        f.write_str(&self.what)?;
        match (&self.have, &self.wanted) {
            (Some(have), Some(wanted)) => write!(f, " {have} → {wanted}"),
            (None, Some(wanted)) => write!(f, " {wanted}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = self.change.map(ChangeKind::sign);
        match sign {
            Some(sign) => write!(f, "{sign} {}", self.sentence()),
            None => f.write_str(&self.sentence()),
        }
    }
}

/// A line for each row, and one for many of a kind.
pub fn lines(rows: &[Row]) -> Vec<String> {
    let is_plain = |row: &Row| row.differs.is_empty();
    let alike = rows.chunk_by(|one, two| {
        (one.change, one.object) == (two.change, two.object) && is_plain(one) && is_plain(two)
    });
    alike.flat_map(together).collect()
}

/// Of rows of one kind.
fn together(rows: &[Row]) -> Vec<String> {
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let sign = first.change.map_or(' ', ChangeKind::sign);
    let many = first.object.words().1;
    match first.object {
        object if object.is_counted() && first.change.is_some() && rows.len() > LISTED_MAX => {
            vec![format!("{sign} {} {many}", rows.len())]
        }
        Object::Guard => {
            let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
            let name = names.join(", ");
            vec![
                Row {
                    name,
                    ..first.clone()
                }
                .to_string(),
            ]
        }
        Object::MulticastGroup => {
            let of_device = rows.chunk_by(|one, two| one.of == two.of);
            let line = |rows: &[Row]| match rows {
                [one] => one.to_string(),
                _ => {
                    let of = rows.first().and_then(|row| row.of.as_ref());
                    let device = of.map_or("", |(_, device)| device);
                    format!("{sign} {many} of {} addresses on {device}", rows.len())
                }
            };
            of_device.map(line).collect()
        }
        _ => rows.iter().map(ToString::to_string).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_row_and_one_for_many() {
        let guard = |family| Row::add(Object::Guard, family).of(Object::Guard, "overlane-h1");
        let group =
            |device, address| Row::add(Object::MulticastGroup, address).of(Object::Device, device);
        let fdb = |number| Row::remove(Object::FdbEntry, number).of(Object::Switch, "blue");
        let mut rows = vec![
            Row::add(Object::Port, "web1").detail("device web1, key 7"),
            Row::modify(Object::Setting, "").has("tunnel port", 4789, 4790),
            guard("inet"),
            guard("arp"),
            Row::modify(Object::Uplink, "eth1").differs("attached to its device again"),
            Row::add(Object::Promiscuous, "eth1"),
            group("phys0", "2001:2::1"),
            group("phys1", "2001:2::2"),
            group("phys1", "2001:2::3"),
            Row::modify(Object::DataPath, "")
                .has("programs", 1, 2)
                .differs("maps"),
        ];
        rows.extend((0..9).map(fdb));
        let expected = [
            "+ port web1 (device web1, key 7)",
            "~ tunnel port 4789 → 4790",
            "+ guard: nftables table overlane-h1 (inet, arp)",
            "~ uplink eth1: attached to its device again",
            "+ promiscuous mode of eth1",
            "+ multicast group of 2001:2::1 on phys0",
            "+ multicast groups of 2 addresses on phys1",
            "~ data path: programs 1 → 2, maps",
            "- 9 FDB entries",
        ];
        assert_eq!(lines(&rows), expected);
        assert_eq!(fdb(1).to_string(), "- FDB entry 1 on switch blue");
    }

    #[test]
    fn a_finding_says_what_it_means_and_what_helps() {
        let row = Row::finding("port_down", Object::Port, "web1")
            .means("its device is down")
            .ip("link set web1 up");
        let said = "port web1: its device is down; run `ip link set web1 up`";
        assert_eq!(row.to_string(), said);
    }
}
