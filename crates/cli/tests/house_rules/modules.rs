//! Which module of a crate uses which: no two need each other, and where a crate has floors, none uses one above it.
//!
//! A module is a file, `lib/ip.rs` is `lib::ip`; or, of some crates, a file of the top level with all that is below it.
//! What is under `cfg(test)` is left out. An arrow is a path, in a `use` or in the code, that leads into another module:
//! to the one that defines the name. So a module that declares its parts and passes their names on by `pub use`
//! needs none of them, and whoever takes a name from it does not need it: the name is followed to its definition.
//! A method that is called needs no path, and is not seen.

mod arrows;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use std::fs;

use super::{root, sources};
use arrows::{Arrows, Crate};

/// Each file is a module.
const FILES: usize = usize::MAX;
/// Each file of the top level is one, with all that is below it.
const TOP: usize = 1;

/// The crates without circles, and how many names deep a module is.
const CRATES: &[(&str, usize)] = &[
    ("guest", FILES),
    ("host", FILES),
    ("lab", TOP),
    ("pipeline", FILES),
    ("wire", FILES),
];

/// Floors, and which of them a file of each may use. "": the files of the top level.
type Floors = &'static [(&'static str, &'static [&'static str])];

/// The floors of `pipeline`, as those of `bpf/`. Stages do not know each other.
const PIPELINE: Floors = &[
    ("", &["stage", "leave", "lib"]),
    ("stage", &["lib"]),
    ("leave", &["leave", "lib"]),
    ("lib", &["lib"]),
];

/// The floors of `host`: what lies in memory and files, what a host should have, and who asks for it.
const HOST: Floors = &[
    (
        "",
        &[
            "apply",
            "calls",
            "conntrack",
            "kinds",
            "lib",
            "live",
            "mtu",
            "observe",
            "report",
            "state",
            "watch",
        ],
    ),
    ("lib", &["lib"]),
    ("state", &["state", "lib"]),
    ("report", &["report", "state", "lib"]),
    ("calls", &["calls", "report", "lib"]),
    ("kinds", &["kinds", "report", "state", "lib"]),
    ("observe", &["observe", "kinds", "state", "lib"]),
    ("conntrack", &["conntrack", "observe", "state", "lib"]),
    ("watch", &["watch", "observe", "state", "lib"]),
    ("mtu", &["mtu", "live", "observe", "kinds", "state", "lib"]),
    (
        "live",
        &["live", "mtu", "observe", "kinds", "report", "state", "lib"],
    ),
    (
        "apply",
        &["apply", "live", "watch", "kinds", "report", "state", "lib"],
    ),
    (
        "agent",
        &[
            "agent", "", "apply", "calls", "live", "mtu", "kinds", "report", "state", "lib",
        ],
    ),
];

/// The firewall is made of two stages, and each copy of a flooded frame is judged for its own port.
const BETWEEN_FLOORS: [(&str, &str); 3] = [
    ("stage::firewall", "stage::conntrack"),
    ("stage::firewall", "stage::acl"),
    ("leave::flood", "stage::firewall"),
];

/// The shortest way from a module back to itself, and the path of each arrow.
fn shortest_circle(arrows: &Arrows) -> Option<String> {
    let circles = arrows.keys().filter_map(|start| {
        let mut came = BTreeMap::new();
        let mut open = VecDeque::from([start]);
        while let Some(from) = open.pop_front() {
            for to in arrows.get(from).into_iter().flat_map(BTreeMap::keys) {
                if !came.contains_key(to) {
                    came.insert(to, from);
                    open.push_back(to);
                }
            }
        }
        let mut circle = vec![start];
        let mut at = *came.get(start)?;
        while at != start {
            circle.push(at);
            at = came[at];
        }
        circle.push(start);
        circle.reverse();
        Some(circle)
    });
    let circle = circles.min_by_key(Vec::len)?;
    let shown = |module: &str| {
        if module.is_empty() {
            "the root".to_owned()
        } else {
            module.to_owned()
        }
    };
    let mut text = shown(circle[0]);
    for pair in circle.windows(2) {
        let _ = write!(
            text,
            " → {} (`{}`)",
            shown(pair[1]),
            arrows[pair[0]][pair[1]]
        );
    }
    Some(text)
}

/// The first two names: a stage with its parts.
fn unit(module: &str) -> Vec<&str> {
    module.split("::").take(2).collect()
}

/// A folder, also what its own file says.
fn floor(floors: Floors, module: &str) -> &str {
    let is_floor = floors.iter().any(|(name, _)| *name == module);
    match module.split_once("::") {
        Some((floor, _)) => floor,
        None if is_floor => module,
        None => "",
    }
}

/// The arrows that floors forbid.
fn between_floors(floors: Floors, arrows: &Arrows) -> BTreeSet<(&str, &str)> {
    let pairs = arrows
        .iter()
        .flat_map(|(from, to)| to.keys().map(move |to| (from.as_str(), to.as_str())));
    let is_allowed = |(from, to): &(&str, &str)| {
        let allowed = floors.iter().find(|(name, _)| *name == floor(floors, from));
        let is_part = !floor(floors, from).is_empty() && unit(from) == unit(to);

        is_part || allowed.is_some_and(|(_, allowed)| allowed.contains(&floor(floors, to)))
    };
    pairs
        .filter(|pair| !is_allowed(pair))
        .filter(|(from, _)| !from.is_empty())
        .collect()
}

fn read_crate(name: &str) -> Crate {
    let folder = root().join("crates").join(name).join("src");
    let files = sources(&[&format!("crates/{name}/src")], &[".rs"])
        .into_iter()
        .map(|path| {
            let below = path
                .strip_prefix(&folder)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            (below, fs::read_to_string(&path).unwrap())
        });
    let files: Vec<(String, String)> = files.collect();
    Crate::read(
        files
            .iter()
            .map(|(file, text)| (file.as_str(), text.as_str())),
    )
}

#[test]
fn no_two_modules_of_a_crate_need_each_other() {
    let mut circles = Vec::new();
    for (name, depth) in CRATES {
        let arrows = read_crate(name).arrows(*depth);
        assert!(arrows.len() > 1, "{name}: no sources");
        circles.extend(shortest_circle(&arrows).map(|circle| format!("{name}: {circle}")));
    }
    assert_eq!(circles, Vec::<String>::new());
}

#[test]
fn the_reference_executor_stands_on_the_floors_of_the_data_path() {
    let arrows = read_crate("pipeline").arrows(FILES);
    assert_eq!(
        between_floors(PIPELINE, &arrows),
        BTreeSet::from(BETWEEN_FLOORS)
    );
}

#[test]
fn a_host_stands_on_its_floors() {
    let arrows = read_crate("host").arrows(FILES);
    assert_eq!(between_floors(HOST, &arrows), BTreeSet::new());
}

/// Made-up sources.
fn arrows_of(files: &[(&str, &str)], depth: usize) -> Arrows {
    Crate::read(files.iter().copied()).arrows(depth)
}

#[test]
fn the_shortest_circle_is_found() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d; pub use a::A;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "use super::c::{self, C}; pub struct B(C);"),
        ("c.rs", "pub struct C; fn f() { crate::d::f(); }"),
        ("d.rs", "use crate::{A, b::B}; pub fn f() -> (A, B) {}"),
    ];
    assert_eq!(
        shortest_circle(&arrows_of(&files, FILES)).unwrap(),
        "b → c (`super::c::C`) → d (`crate::d::f`) → b (`crate::b::B`)"
    );
    assert_eq!(shortest_circle(&arrows_of(&files[..4], FILES)), None);
}

#[test]
fn an_arrow_leads_to_who_defines_the_name() {
    let circle = |a: &str, part: &str, depth| {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", a),
            ("a/part.rs", part),
            ("b.rs", "use crate::a::Part; pub fn b(_: Part) {}"),
        ];
        shortest_circle(&arrows_of(&files, depth)).is_some()
    };
    let face = "mod part; pub use part::Part; pub struct A;";
    for (a, part, in_files, at_top) in [
        (face, "pub struct Part;", false, false),
        // What the parent itself says is an arrow.
        (face, "pub struct Part(super::A);", false, false),
        (
            "mod part; use part::Part; pub struct A(Part);",
            "pub struct Part(super::A);",
            true,
            false,
        ),
        (
            "mod part; pub use part::Part; pub struct A(Part);",
            "pub struct Part(super::A);",
            true,
            false,
        ),
        (face, "pub struct Part(crate::b::B);", true, true),
        // From a part to another module that takes only the parent's own.
        (
            "mod part; pub use part::*; fn a() { crate::b::b(); }",
            "pub struct Part;",
            false,
            true,
        ),
        // Names in comments, texts, and tests are none.
        (face, "pub struct Part; // crate::b::b()\n", false, false),
        (
            face,
            "pub struct Part; const B: &str = \"crate::b::b\";",
            false,
            false,
        ),
        (
            face,
            "pub struct Part; #[cfg(test)] mod tests { use crate::b::b; }",
            false,
            false,
        ),
        (
            face,
            "pub struct Part; #[cfg(test)] use crate::b::b;",
            false,
            false,
        ),
        (face, "pub struct Part<'a>(&'a crate::b::B);", true, true),
        (face, "use crate::b::*; pub struct Part;", true, true),
        (
            face,
            "pub struct Part; fn f() { for _ in crate::b::b() {} }",
            true,
            true,
        ),
        (face, "pub(in crate::b) struct Part;", false, false),
    ] {
        assert_eq!(circle(a, part, FILES), in_files, "{a} {part}");
        assert_eq!(circle(a, part, TOP), at_top, "{a} {part}");
    }
    let files = [
        ("lib.rs", "mod a;"),
        (
            "a.rs",
            "#[cfg(test)] #[path = \"a_test.rs\"] mod tests; #[cfg(test)] mod more; pub fn a() {}",
        ),
        ("a_test.rs", "use super::a;"),
        ("a/more/deep.rs", "use crate::a::a;"),
    ];
    assert_eq!(
        arrows_of(&files, FILES).into_keys().collect::<Vec<_>>(),
        ["", "a"]
    );
}

#[test]
fn an_arrow_between_floors_is_found() {
    let files = |from, to: &str| {
        let text = format!("use crate::{to}::f; fn g() {{ f(); }}");
        let files = [
            (from, text.as_str()),
            ("stage/acl.rs", "pub fn f() {}"),
            ("stage/nat/rules.rs", "pub fn f() {}"),
            ("lib/ip.rs", "pub fn f() {}"),
            ("leave/send.rs", "pub fn f() {}"),
            ("hooks.rs", "pub fn f() {}"),
            ("lib.rs", ""),
        ];
        let files = files.into_iter().rev().collect::<BTreeMap<_, _>>();
        let arrows = arrows_of(&files.into_iter().collect::<Vec<_>>(), FILES);
        between_floors(PIPELINE, &arrows).len()
    };
    for (from, to, found) in [
        ("hooks.rs", "stage::acl", 0),
        ("stage/nat.rs", "stage::nat::rules", 0),
        ("stage/nat.rs", "lib::ip", 0),
        ("stage/nat.rs", "stage::acl", 1),
        ("stage/nat.rs", "leave::send", 1),
        ("leave/port.rs", "leave::send", 0),
        ("leave/port.rs", "stage::acl", 1),
        ("lib/frame.rs", "lib::ip", 0),
        ("lib/frame.rs", "stage::acl", 1),
        ("lib/frame.rs", "hooks", 1),
        ("more/x.rs", "lib::ip", 1),
    ] {
        assert_eq!(files(from, to), found, "{from} → {to}");
    }
}
