//! Tables of nftables in a namespace of the test's own, compared with what `nft` says of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::collections::BTreeSet;

use common::TestNetns;
use overlane_net::nftables::{self, DropTable, Family, Nftables};

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Without handles and counters.
fn ruleset(netns: &TestNetns) -> String {
    netns.output("nft", &["--stateless", "list", "ruleset"])
}

fn inside<T: Send>(netns: &TestNetns, work: impl FnOnce(&Nftables) -> T + Send) -> T {
    netns.0.run(|| work(&Nftables::new().unwrap())).unwrap()
}

#[test]
fn nft_shows_the_table_as_it_was_meant() {
    let netns = TestNetns::new();
    let foreign =
        "add table inet other; add chain inet other c { type filter hook prerouting priority 0; }";
    netns.output("nft", &[foreign]);
    let others = ruleset(&netns);
    inside(&netns, |tables| {
        for family in Family::ALL {
            assert_eq!(tables.read(family, "ours").unwrap(), None);
            let devices = names(&["web1", "a-name.of15byte"]);
            tables.write(family, "ours", "why it is", &devices).unwrap();
            let found = tables.read(family, "ours").unwrap().unwrap();
            let expected = DropTable {
                devices,
                is_whole: true,
                ..DropTable::default()
            };
            assert_eq!(found, expected, "{family:?}");
        }
    });
    let shown = ruleset(&netns);
    for part in [
        "table inet ours {\n\tcomment \"why it is\"\n\tset ports {\n\t\ttype ifname\n\t\tsize 16384\n",
        "\"web1\"",
        "\"a-name.of15byte\"",
        "type filter hook prerouting priority -500; policy accept;\n\t\tiifname @ports counter drop\n",
        "chain postrouting {\n\t\ttype filter hook postrouting priority -500; policy accept;\n\t\toifname @ports counter drop\n",
        "table arp ours {",
        "type filter hook input priority -500; policy accept;\n\t\tiifname @ports counter drop\n",
        "type filter hook output priority -500; policy accept;\n\t\toifname @ports counter drop\n",
        "table bridge ours {",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    // Each chain of the three families.
    for (rule, count) in [
        ("iifname @ports counter drop", 4),
        ("oifname @ports counter drop", 4),
    ] {
        assert_eq!(shown.matches(rule).count(), count, "{shown}");
    }
    assert!(shown.starts_with(&others));
    inside(&netns, |tables| {
        for family in Family::ALL {
            tables
                .replace_devices(family, "ours", &names(&["web2"]))
                .unwrap();
            let found = tables.read(family, "ours").unwrap().unwrap();
            assert!(found.is_whole && found.devices == names(&["web2"]));
            for _ in 0..2 {
                tables.destroy(family, "ours").unwrap();
            }
        }
    });
    assert_eq!(ruleset(&netns), others);
}

#[test]
fn what_somebody_changed_is_noticed() {
    let netns = TestNetns::new();
    let read = || {
        inside(&netns, |tables| {
            tables.read(Family::Bridge, "ours").unwrap()
        })
    };
    for change in [
        "flush chain bridge ours input",
        "add rule bridge ours prerouting accept",
        "flush chain bridge ours input; add rule bridge ours input iifname @ports counter accept",
        "flush chain bridge ours input; add rule bridge ours input oifname @ports counter drop",
        "flush chain bridge ours input; add rule bridge ours input iifname != @ports counter drop",
        "flush chain bridge ours postrouting",
        "flush chain bridge ours postrouting; add rule bridge ours postrouting iifname @ports counter drop",
        "flush chain bridge ours output; add rule bridge ours output oifname @ports counter accept",
        "flush chain bridge ours output; delete chain bridge ours output",
        "add table bridge ours { flags dormant; }",
        "flush table bridge ours; delete chain bridge ours prerouting",
    ] {
        inside(&netns, |tables| {
            tables
                .write(Family::Bridge, "ours", "", &names(&["web1"]))
                .unwrap();
        });
        assert!(read().unwrap().is_whole);
        netns.output("nft", &[change]);
        assert!(!read().unwrap().is_whole, "{change}");
    }
    netns.output("nft", &["delete element bridge ours ports { web1 }"]);
    assert_eq!(read().unwrap().devices, names(&[]));
    netns.output("nft", &["flush ruleset"]);
    assert_eq!(read(), None);
}

#[test]
fn thousands_of_devices_are_one_batch() {
    let netns = TestNetns::new();
    let many = |name| -> BTreeSet<_> { (0..16_384).map(|n| format!("{name}{n}")).collect() };
    inside(&netns, |tables| {
        let read = || tables.read(Family::Inet, "ours").unwrap().unwrap();
        let (first, second) = (many("port"), many("other"));
        tables.write(Family::Inet, "ours", "", &first).unwrap();
        // Read at once: a table that the kernel is still enlarging would miss some.
        assert!(read().devices == first);
        // Full, and all of them others.
        tables
            .replace_devices(Family::Inet, "ours", &second)
            .unwrap();
        assert!(read().devices == second);
        let more = &second | &names(&["one-more"]);
        tables
            .replace_devices(Family::Inet, "ours", &more)
            .unwrap_err();
        assert!(read().devices == second);
        tables
            .replace_devices(Family::Inet, "ours", &names(&[]))
            .unwrap();
        assert!(read().is_whole && read().devices.is_empty());
    });
}

#[test]
fn a_refusal_changes_nothing_and_says_why() {
    let netns = TestNetns::new();
    inside(&netns, |tables| {
        let error = tables
            .replace_devices(Family::Arp, "none", &names(&["web1"]))
            .unwrap_err();
        assert!(
            error.to_string().starts_with(
                "cannot write the devices of table none of nftables, family arp (namespace "
            ),
            "{error}"
        );
        assert!(nftables::is_unsupported(&error));
    });
    assert_eq!(ruleset(&netns), "");
}
