//! Every fabric of `examples/` does what the file of statements beside it says: on the reference executor over all
//! hosts, and each packet at each hook on the eBPF programs too.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use overlane_conformance::case::Machine;
use overlane_conformance::compare::with_reference;
use overlane_conformance::say;
use overlane_conformance::statements::{Proof, Statements, prove};
use overlane_conformance::test_runner::{TestRunner, obstacle};
use overlane_model::Fabric;

const STATEMENTS: &str = ".statements.yaml";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Each fabric file, and where its statements must be.
fn examples() -> Vec<(PathBuf, PathBuf)> {
    let files = fs::read_dir(folder()).unwrap();
    let mut fabrics: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        .filter(|path| !path.to_string_lossy().ends_with(STATEMENTS))
        .collect();
    fabrics.sort();
    assert!(!fabrics.is_empty(), "no example in {}", folder().display());
    let beside =
        |path: &PathBuf| PathBuf::from(path.to_string_lossy().replace(".yaml", STATEMENTS));
    fabrics
        .into_iter()
        .map(|path| (path.clone(), beside(&path)))
        .collect()
}

fn proofs() -> Vec<Proof> {
    let proof = |(path, beside): (PathBuf, PathBuf)| {
        let fabric = Fabric::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let text = fs::read_to_string(&beside).unwrap_or_else(|error| {
            panic!("{}: {error}: an example needs statements", beside.display())
        });
        let statements = Statements::read(&beside, &text, &fabric);
        let statements = statements.unwrap_or_else(|error| panic!("{error}"));
        prove(&fabric, &statements).unwrap()
    };
    examples().into_iter().map(proof).collect()
}

#[test]
fn every_example_does_what_its_statements_say() {
    let failures: Vec<_> = proofs()
        .into_iter()
        .flat_map(|proof| proof.failures)
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_ebpf_programs_do_the_same() {
    if let Some(obstacle) = obstacle() {
        say(&format!(
            "SKIPPED the_ebpf_programs_do_the_same: {obstacle}"
        ));
        return;
    }
    let mut runner = TestRunner::load().unwrap_or_else(|error| panic!("{error}: {error:#?}"));
    let mut failures = Vec::new();
    for proof in proofs() {
        for (place, hosts) in &proof.seen {
            for (name, packets) in hosts {
                let tables = &proof.tables[name];
                runner.set_host(tables, Machine::default()).unwrap();
                for seen in packets {
                    let observed = runner.run(seen.now_ns, &seen.entry, &seen.packet).unwrap();
                    let found = with_reference(tables, &seen.packet, &seen.outcome, &observed);
                    if !found.is_empty() {
                        failures.push(format!("{place}: on {name}: {}", found.join("; ")));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What must not pass: a statement that does not hold, a name that is nobody's, a port or a rule that is in none.
#[test]
fn statements_that_are_wrong_are_refused() {
    let fabric = Fabric::load(&folder().join("two-hosts.yaml")).unwrap();
    let read = |text: &str| Statements::read(Path::new("wrong.yaml"), text, &fabric);
    for (text, words) in [
        ("statements: []", "there are no statements"),
        (
            "statements: [{ from: web9, to: web2, reaches: web2 }]",
            "`web9`",
        ),
        (
            "statements: [{ from: web1, to: web9, reaches: web2 }]",
            "`web9`",
        ),
        (
            "statements: [{ from: web1, to: web2, reaches: web9 }]",
            "`web9`",
        ),
        ("statements: [{ from: web1, to: web2 }]", "one of `reaches`"),
        (
            "statements: [{ from: web1, to: web2, stopped: spoofed_ip }]",
            "needs a `host`",
        ),
        (
            "statements: [{ from: web1, to: web2, stopped: spoofed_ip, host: h9 }]",
            "no host `h9`",
        ),
        (
            "statements: [{ from: web1, to: web2, stopped: to_port, host: h1 }]",
            "no drop reason",
        ),
        (
            "statements: [{ from: web1, to: web2, on: tcp, reaches: web2 }]",
            "not ping",
        ),
        (
            "stations: { pc: { addresses: [198.18.100.9] } }\nstatements: [{ from: pc, to: web1, reaches: web1 }]",
            "no port",
        ),
        (
            "stations: { pc: { vlan_of: blue, addresses: [198.18.100.9] } }\nstatements: [{ from: pc, to: web1, reaches: web1 }]",
            "no VLAN",
        ),
    ] {
        let error = read(text).err().map(|error| error.to_string());
        assert!(
            error.as_ref().is_some_and(|it| it.contains(words)),
            "{text}: {error:?}"
        );
    }
    for (text, words) in [
        (
            "statements: [{ from: web1, to: web2, reaches: web1 }]",
            "reaches web2, and not web1",
        ),
        (
            "statements: [{ from: web1, to: web2, stopped: spoofed_ip, host: h1 }]",
            "is not spoofed_ip on h1",
        ),
        (
            "statements: [{ from: web1, to: web2, answered_by: h1 }]",
            "h1 does not answer",
        ),
        (
            "statements: [{ from: web1, to: 198.18.100.9, reaches: web2 }]",
            "nobody answers for 198.18.100.9",
        ),
        (
            "statements: [{ from: web1, to: web2, unanswered: true }]",
            "somebody answers",
        ),
        (
            "statements: [{ from: web1, to: web2, reaches: web2, seen_as: 198.18.100.9 }]",
            "web2 sees 198.18.100.1",
        ),
        (
            "statements: [{ from: web1, to: 198.18.100.1, unanswered: true }]",
            "no statement is about port web2",
        ),
    ] {
        let proof = prove(&fabric, &read(text).unwrap()).unwrap();
        let found = proof.failures.join("\n");
        assert!(found.contains(words), "{text}: {found}");
    }
}
