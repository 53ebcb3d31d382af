//! What `check` says of broken studies, and that the shape is the types'.

mod mistakes;

use self::mistakes::{BROKEN, SHOWN};
use super::shape::{Field, STUDY, Shape};
use super::*;
use crate::error::AnalysisError;
use crate::study::Overrides;
use std::collections::BTreeSet;

/// The smallest study.
const SMALL: &str = r#"name: mine
title: Mine
question: What is it?
matrix: &m
  samples: 6
  seconds: 1
  warm_up_seconds: 0.5
  networks: [bridge, overlane-vxlan]
  groups:
    - { tests: [tcp_stream], bytes: [1024] }
quick: *m
"#;

fn mistakes(text: &str) -> Vec<Mistake> {
    match Study::parse("mine.yaml", text) {
        Err(AnalysisError::Mistakes { mistakes }) => mistakes,
        other => panic!("{other:?}"),
    }
}

/// `SMALL` with one line changed, and what is said of it.
fn changed(from: &str, to: &str) -> Vec<String> {
    assert!(SMALL.contains(from), "{from}");
    let list = mistakes(&SMALL.replacen(from, to, 1));
    list.iter().map(Mistake::to_string).collect()
}

#[test]
fn a_small_study_needs_little() {
    let study = Study::parse("mine.yaml", SMALL).unwrap();
    assert_eq!(study.matrix, study.quick);
    let group = &study.matrix.groups[0];
    assert_eq!(
        (group.instances.clone(), group.hosts.clone()),
        (vec![1], vec![2])
    );
    assert_eq!((group.samples, group.search), (None, None));
}

#[test]
fn words_that_nobody_knows_are_pointed_out_with_what_was_meant() {
    let said = changed("  samples: 6", "  sample: 6");
    assert_eq!(
        said,
        [
            "mine.yaml:5:3: matrix.sample: there is no key `sample` here; did you mean `samples`?",
            "mine.yaml:5:3: matrix: the key `samples` is missing; docs/studies.md shows every key",
        ]
    );
    let said = changed("bytes: [1024] }", "bytes: [1024], streams: [4] }");
    let wanted = "mine.yaml:10:45: matrix.groups[0].streams: there is no key `streams` here; did you mean `instances`?";
    assert_eq!(said[0], wanted);
    let said = changed("overlane-vxlan]", "overlane-vxlna]");
    let wanted = "mine.yaml:8:22: matrix.networks[1]: there is no `overlane-vxlna`; did you mean `overlane-vxlan`?";
    assert_eq!(said[0], wanted);
    let said = changed("bytes: [1024] }", "bytes: [1024], guests: [tap, vm] }");
    let wanted = "mine.yaml:10:59: matrix.groups[0].guests[1]: there is no `vm`; known: veth, tap";
    assert_eq!(said[0], wanted);
    let said = changed("[tcp_stream]", "[banana]");
    assert!(
        said[0].contains("known: tcp_stream, tcp_reverse"),
        "{said:?}"
    );
}

#[test]
fn every_mistake_of_form_is_found_at_once() {
    let text = SMALL
        .replace("samples: 6", "samples: six")
        .replace("bytes: [1024]", "bytes: 1024")
        .replace("title: Mine", "title: 7");
    let lines: BTreeSet<u64> = mistakes(&text)
        .iter()
        .map(|one| one.at.unwrap().0)
        .collect();
    assert_eq!(lines, [2, 5, 10].into());
}

#[test]
fn a_file_of_mistakes_and_control_characters_is_told_briefly() {
    let mut text = SMALL.to_owned();
    (0..500).for_each(|n| text.push_str(&format!("key{n}: 1\n")));
    text.push_str(&format!("\"{}\\e[2J\": 1\n", "x".repeat(2)));
    let list = mistakes(&text);
    assert_eq!(list.len(), 51);
    assert_eq!(list[50].message, "and 451 more mistakes");
    let text = SMALL.replace("title: Mine", "\"a\\e[2J\": 1");
    assert!(!mistakes(&text)[0].to_string().contains('\u{1b}'));
}

#[test]
fn broken_yaml_has_a_place() {
    let said = mistakes("name: mine\n title: [a\n");
    assert_eq!(said.len(), 1);
    assert!(said[0].at.is_some_and(|(line, _)| line >= 2), "{said:?}");
    assert!(!said[0].message.contains("line"), "{said:?}");
    let empty = mistakes("");
    assert_eq!(empty.len(), 1, "{empty:?}");
    let twice = mistakes(&SMALL.replace("title: Mine", "title: Mine\ntitle: Mine"));
    assert!(twice[0].message.contains("title"), "{twice:?}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_key_and_value() {
    for (from, to, parts) in BROKEN {
        let said = changed(from, to).remove(0);
        for part in parts {
            assert!(said.contains(part), "{to}: {said}");
        }
    }
}

#[test]
fn a_product_that_explodes_is_refused_before_it_is_made() {
    let many: Vec<_> = (1..=256).map(|n| n.to_string()).collect();
    let many = format!("[{}]", many.join(", "));
    let to = format!("bytes: {many}, instances: {many}, vnis: [1] }}");
    let said = changed("bytes: [1024] }", &to).remove(0);
    assert!(said.contains("131072 cells"), "{said}");
}

#[test]
fn what_is_shown_has_to_find_its_cells() {
    for (line, parts) in SHOWN {
        let said = mistakes(&format!("{SMALL}{line}\n")).remove(0).to_string();
        for part in parts {
            assert!(said.contains(part), "{line}: {said}");
        }
    }
}

/// Every key of every mapping, as paths without list positions.
fn keys_of_shape(shape: &Shape, path: &str, keys: &mut BTreeSet<String>) {
    let fields = |fields: &[Field], keys: &mut BTreeSet<String>| {
        for field in fields {
            let path = format!("{path}/{}", field.name);
            keys.insert(path.clone());
            keys_of_shape(&field.shape, &path, keys);
        }
    };
    match shape {
        Shape::List(of) => keys_of_shape(of, path, keys),
        Shape::Map(of) => fields(of, keys),
        Shape::Tagged(tag, variants) => {
            keys.insert(format!("{path}/{tag}"));
            variants.iter().for_each(|(_, of)| fields(of, keys));
        }
        _ => {}
    }
}

fn keys_of_json(value: &serde_json::Value, path: &str, keys: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Array(items) => {
            items.iter().for_each(|item| keys_of_json(item, path, keys));
        }
        serde_json::Value::Object(entries) => {
            for (key, value) in entries {
                let path = format!("{path}/{key}");
                keys.insert(path.clone());
                keys_of_json(value, &path, keys);
            }
        }
        _ => {}
    }
}

#[test]
fn the_shape_has_the_keys_of_the_types_and_the_manual_names_them() {
    let mut shape = BTreeSet::new();
    keys_of_shape(&STUDY, "", &mut shape);
    // The shipped studies and the manual's example use, and write out, every key there is.
    let mut types = BTreeSet::new();
    let mut studies = Study::all_shipped().unwrap();
    studies.push(manual_example());
    for study in studies {
        keys_of_json(&serde_json::to_value(&study).unwrap(), "", &mut types);
    }
    // The quick matrix has the whole one's keys, of which the studies use fewer there.
    let same = |keys: &BTreeSet<String>| -> BTreeSet<String> {
        let one = |key: &String| key.replacen("/quick/", "/matrix/", 1);
        keys.iter().map(one).collect()
    };
    assert_eq!(same(&shape), same(&types));
    for metric in crate::results::Metric::ALL {
        assert!(
            MANUAL.contains(&format!("`{}`", metric.key())),
            "docs/studies.md lacks {}",
            metric.key()
        );
    }
    for feature in Feature::ALL {
        assert!(
            MANUAL.contains(&format!("| `{feature}`"))
                || MANUAL.contains(&format!(", `{feature}` |"))
        );
    }
    for path in &shape {
        let key = path.rsplit('/').next().unwrap();
        assert!(
            MANUAL.contains(&format!("`{key}`")),
            "docs/studies.md lacks {path}"
        );
    }
}

const MANUAL: &str = include_str!("../../../../docs/studies.md");

fn manual_example() -> Study {
    let (_, from) = MANUAL.split_once("```yaml\n").unwrap();
    let (example, _) = from.split_once("```").unwrap();
    Study::parse("docs/studies.md", example).unwrap()
}

#[test]
fn the_manual_shows_a_study_that_reads_and_what_check_says() {
    let study = manual_example();
    assert!(study.source.is_none());
    for backend in &study.matrix.backends {
        assert!(MANUAL.contains(backend.as_str()));
    }
    // The mistake that the manual shows is the one that is found.
    let broken = SMALL.replace("overlane-vxlan]", "overlane-vxlna]");
    let said = mistakes(&broken)[0].to_string();
    let (_, tail) = said.split_once("matrix.networks[1]: ").unwrap();
    assert!(MANUAL.contains(tail), "{tail}");
}

#[test]
fn errors_name_the_study() {
    let unknown = Study::shipped("none").unwrap_err().to_string();
    assert!(unknown.contains("jumbo-vxlan"), "{unknown}");
    let missing = Study::load(&"./no-such.yaml".into())
        .unwrap_err()
        .to_string();
    assert!(missing.contains("./no-such.yaml"), "{missing}");
}

fn altered(name: &str, overrides: &Overrides) -> Result<Study, AnalysisError> {
    let mut study = Study::shipped(name).unwrap();
    study.change(overrides).map(|()| study)
}

#[test]
fn a_file_with_the_old_word_for_networks_is_read_and_its_mistakes_have_their_places() {
    let old = SMALL.replace("networks:", "backends:");
    let read = |text: &str| Study::parse("mine.yaml", text).unwrap();
    assert_eq!(read(&old), read(SMALL));
    let wrong = old.replace("[bridge, overlane-vxlan]", "[bridge, bridge]");
    assert_eq!(mistakes(&wrong)[0].at, Some((8, 22)));
}

#[test]
fn other_backends_come_once_and_in_the_order_of_tables() {
    let (vlan, ovs) = (BackendName::OverlaneVlan, BackendName::OvsVlan);
    let overrides = Overrides {
        backends: Some(vec![vlan, ovs, vlan]),
        ..Overrides::default()
    };
    let study = altered("jumbo-vxlan", &overrides).unwrap();
    assert_eq!(study.matrix.backends, [ovs, vlan]);
    assert_eq!(study.quick.backends, [ovs, vlan]);
    // Groups of one kind of network keep their kind, or go.
    let study = altered("frame-sweep", &overrides).unwrap();
    for group in &study.matrix.groups {
        assert_eq!(group.far_end, [FarEnd::Tester]);
        assert_eq!(group.backends.as_deref(), Some(&[ovs, vlan][..]));
    }
    // So do groups with routers and firewalls: those are Overlane's.
    let overrides = Overrides {
        backends: Some(vec![BackendName::OvsVxlan, BackendName::OverlaneGeneve]),
        ..Overrides::default()
    };
    let study = altered("cpu-cost", &overrides).unwrap();
    let services: Vec<_> = (study.quick.groups.iter())
        .filter(|group| group.feature.iter().any(|feature| feature.is_service()))
        .collect();
    assert!(!services.is_empty());
    for group in services {
        assert_eq!(
            group.backends.as_deref(),
            Some(&[BackendName::OverlaneGeneve][..])
        );
    }
    let none = Overrides {
        backends: Some(Vec::new()),
        ..Overrides::default()
    };
    let said = altered("jumbo-vxlan", &none).unwrap_err().to_string();
    assert!(
        said.contains("command line") && said.contains("networks"),
        "{said}"
    );
}

#[test]
fn the_command_line_changes_every_group_and_is_checked() {
    let overrides = Overrides {
        hosts: Some(3),
        pairs: Some(4),
        guests: Some(vec![GuestKind::Tap]),
        inner: Some(Family::Ipv6),
        underlay: Some(Family::Ipv6),
        samples: Some(7),
        seconds: Some(0.5),
        ..Overrides::default()
    };
    // 64 bytes are no frame of IPv6 with a number.
    let study = altered("cpu-cost", &overrides).unwrap();
    assert_eq!(study.matrix.groups[2].bytes, [82, 1518]);
    assert_eq!(study.matrix.groups[1].bytes, [1]);
    for group in study.matrix.groups.iter().chain(&study.quick.groups) {
        let gateway = group.feature.contains(&Feature::Gateway);
        let (hosts, pairs) = if gateway { (2, 1) } else { (3, 4) };
        assert_eq!(
            (&group.hosts[..], &group.pairs[..]),
            (&[hosts][..], &[pairs][..])
        );
    }
    let study = altered("geneve-vs-vxlan", &overrides).unwrap();
    for matrix in [&study.matrix, &study.quick] {
        assert_eq!((matrix.samples, matrix.seconds), (7, 0.5));
        for group in &matrix.groups {
            assert_eq!((&group.hosts[..], &group.pairs[..]), (&[3][..], &[4][..]));
            assert_eq!(group.guests, [GuestKind::Tap]);
            assert_eq!(group.inner, [Family::Ipv6]);
            assert_eq!(group.underlay, [Family::Ipv6]);
        }
    }
    let model_a = &altered(
        "frame-sweep",
        &Overrides {
            pairs: Some(2),
            ..Overrides::default()
        },
    );
    assert_eq!(model_a.as_ref().unwrap().quick.groups[0].pairs, [1]);
    let too_many = Overrides {
        pairs: Some(101),
        ..Overrides::default()
    };
    let said = altered("cpu-cost", &too_many).unwrap_err().to_string();
    assert!(said.contains("matrix.groups[0].pairs[0]: `101`"), "{said}");
    assert!(
        said.starts_with("cpu-cost with the changes of the command line"),
        "{said}"
    );
}

#[test]
fn machines_that_move_keep_what_is_theirs() {
    let text = SMALL.replace(
        "    - { tests: [tcp_stream], bytes: [1024] }",
        "    - { tests: [migration], bytes: [64] }\n    - { tests: [tcp_stream], bytes: [1024] }",
    );
    let change = |overrides: Overrides| {
        let mut study = Study::parse("mine.yaml", &text).unwrap();
        study.change(&overrides).map(|()| study.quick.groups)
    };
    let groups = change(Overrides {
        hosts: Some(3),
        guests: Some(vec![GuestKind::Tap]),
        inner: Some(Family::Ipv6),
        mtu: Some(vec![MtuClass::Standard, MtuClass::Jumbo]),
        guest_memory_mib: Some(vec![256, 512]),
        dirty_mib_per_second: Some(vec![5]),
        postcopy: true,
        ..Overrides::default()
    })
    .unwrap();
    let (machines, guests) = (&groups[0], &groups[1]);
    assert_eq!(
        (&machines.hosts[..], &machines.guests[..]),
        (&[2][..], &[GuestKind::Veth][..])
    );
    assert_eq!(machines.inner, [Family::Ipv4]);
    assert_eq!(machines.guest_memory_mib, [256, 512]);
    assert_eq!(
        (&machines.dirty_mib_per_second[..], &machines.links[..]),
        (&[5][..], &[1][..])
    );
    assert_eq!(machines.postcopy, [true]);
    assert_eq!((&guests.hosts[..], &guests.links[..]), (&[3][..], &[1][..]));
    assert_eq!(
        (&guests.guests[..], &guests.inner[..]),
        (&[GuestKind::Tap][..], &[Family::Ipv6][..])
    );
    for group in &groups {
        assert_eq!(group.mtu, [MtuClass::Standard, MtuClass::Jumbo]);
    }
    for (overrides, parts) in [
        (
            Overrides {
                links: Some(vec![3]),
                ..Overrides::default()
            },
            ["matrix.groups[0].links[0]: `3`", "1 to 2"],
        ),
        (
            Overrides {
                guest_memory_mib: Some(vec![100]),
                ..Overrides::default()
            },
            ["matrix.groups[0].guest_memory_mib[0]: `100`", "128 to 4096"],
        ),
        (
            Overrides {
                pairs: Some(5),
                ..Overrides::default()
            },
            ["5 machines at once", "moves 1 to 4"],
        ),
    ] {
        let said = change(overrides).unwrap_err().to_string();
        for part in parts {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

#[test]
fn options_of_machines_are_refused_where_none_moves() {
    let overrides = Overrides {
        links: Some(vec![2]),
        postcopy: true,
        ..Overrides::default()
    };
    let said = altered("jumbo-vxlan", &overrides).unwrap_err().to_string();
    for option in ["--links", "--postcopy"] {
        let part = format!("command line: {option}: no test of this study moves a machine");
        assert!(said.contains(&part), "{said}");
    }
    assert!(!said.contains("--dirty-rate"), "{said}");
}
