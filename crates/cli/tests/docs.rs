//! What docs/rfc.md says is tested is tested: every test, golden case and file named there exists, and
//! no row of its tables goes without one unless it says why. Golden cases name the rows of some RFCs that name them.
//! The checks are shown to be able to fail.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What a row without a test has to say.
const REASONS: [&str; 2] = ["**not yet**", "*does not apply*"];

/// The RFCs whose rows have names, `RFC 5382 REQ-4`, which golden cases mention.
const MENTIONED: [&str; 8] = [
    "4787", "4861", "5227", "5382", "5508", "5961", "6146", "7857",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What is wrong with a page; empty when nothing.
fn faults(page: &str, root: &Path) -> Vec<String> {
    let mut faults: Vec<String> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| !exists(word, root))
        .map(|word| format!("`{word}` is not there"))
        .collect();
    for row in rows(page) {
        match row.as_slice() {
            [_, asked, here, tests] => {
                let reasoned = REASONS.iter().any(|reason| row.concat().contains(reason));
                if !tests.contains("`") && !reasoned {
                    faults.push(format!("without a test: {asked}"));
                }
                if here.is_empty() {
                    faults.push(format!("without our behaviour: {asked}"));
                }
            }
            other => faults.push(format!("not four cells: {other:?}")),
        }
    }
    faults
}

/// The rows of every table, without their heads.
fn rows(page: &str) -> impl Iterator<Item = Vec<&str>> {
    page.lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|row| row.split(" | ").map(str::trim).collect::<Vec<_>>())
        .filter(|cells| cells[0] != "section" && !cells[0].starts_with("---"))
}

/// Is what a word in backquotes names there? Words that name no test are none of our business.
fn exists(word: &str, root: &Path) -> bool {
    let (path, name) = word.split_once("::").unwrap_or((word, ""));
    if path.contains('…') || word.contains(' ') || path.ends_with("/x") || path == "test_x.py" {
        return true; // the page's own explanation of the names
    }
    if let Some(case) = path.strip_prefix("cases/") {
        return root.join(format!("tests/cases/{case}.yaml")).is_file();
    }
    if path.starts_with("test_") && path.ends_with(".py") {
        return defines(&root.join("tests/system").join(path), "def ", name);
    }
    if path.starts_with("crates/") {
        return match name {
            "" => root.join(path).exists(),
            name => defines(&root.join(path), "fn ", name),
        };
    }
    true
}

/// A row, and a golden case that is of it: `RFC 5382 REQ-4`, `nat/unsolicited-syn`.
type Mention = (String, String);

/// The cases that a page's rows name.
fn named(page: &str) -> BTreeSet<Mention> {
    let mut named = BTreeSet::new();
    for cells in rows(page).filter(|cells| cells[0].starts_with("RFC ")) {
        let words = cells.iter().flat_map(|cell| cell.split('`'));
        let cases = words.filter_map(|word| word.strip_prefix("cases/"));
        named.extend(cases.map(|case| (cells[0].to_owned(), case.to_owned())));
    }
    named
}

/// The rows that a case's text mentions.
fn mentioned(case: &str, text: &str) -> BTreeSet<Mention> {
    let line = text.lines().find_map(|line| line.strip_prefix("rfc: ["));
    let rows = line.and_then(|line| line.strip_suffix(']')).into_iter();
    rows.flat_map(|rows| rows.split(", "))
        .map(|row| (row.to_owned(), case.to_owned()))
        .collect()
}

/// Where one of the two does not say what the other one says.
fn one_sided(named: &BTreeSet<Mention>, mentioned: &BTreeSet<Mention>) -> Vec<String> {
    let silent = named.difference(mentioned);
    let silent = silent.map(|(row, case)| {
        format!("docs/rfc.md, {row} names {case}: write `{row}` under `rfc` of that case")
    });
    let strange = mentioned.difference(named);
    let strange = strange.map(|(row, case)| {
        format!("{case} mentions {row}: no such row of docs/rfc.md names the case")
    });
    silent.chain(strange).collect()
}

/// Rows of one of these RFCs without its name, and names in other places.
fn misnamed(page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for section in page.split("\n## ") {
        let heading = section.lines().next().unwrap_or_default();
        let is_of = |number: &&&str| heading.contains(&format!("RFC {number}"));
        let prefix = MENTIONED
            .iter()
            .find(is_of)
            .map(|number| format!("RFC {number} "));
        for cells in rows(section) {
            let is_right = match &prefix {
                Some(prefix) => cells[0].starts_with(prefix),
                None => !cells[0].starts_with("RFC "),
            };
            if !is_right {
                wrong.push(format!("{heading}: the first cell is {}", cells[0]));
            }
        }
    }
    wrong
}

fn folder(path: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(path).unwrap();
    entries.map(|entry| entry.unwrap().path())
}

#[test]
fn rows_and_golden_cases_name_each_other() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/rfc.md")).unwrap();
    let cases = root.join("tests/cases");
    let mut mentions = BTreeSet::new();
    let stages = folder(&cases).filter(|path| path.is_dir());
    for file in stages.flat_map(|stage| folder(&stage).collect::<Vec<_>>()) {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(&cases).unwrap().with_extension("");
        mentions.extend(mentioned(name.to_str().unwrap(), &text));
    }
    let named = named(&page);
    assert!(named.len() > 80, "{} are read", named.len());
    let mut wrong = one_sided(&named, &mentions);
    wrong.extend(misnamed(&page));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_one_side_does_not_say_is_found() {
    let page =
        "## RFC 5382: TCP\n\n| RFC 5382 REQ-4 | a | b | `cases/nat/one`, `cases/nat/two` |\n";
    let row = "RFC 5382 REQ-4";
    let text = |rows: &str| format!("title: t\nrules: [NAT-1]\nrfc: [{rows}]\nfabric: nat\n");
    let wrong_after = |one: &str, two: &str| {
        let mut mentions = mentioned("nat/one", &text(one));
        mentions.extend(mentioned("nat/two", two));
        one_sided(&named(page), &mentions)
    };
    assert_eq!(wrong_after(row, &text(row)), [""; 0]);
    assert_eq!(
        wrong_after(row, "title: t\nrules: [NAT-1]\nfabric: nat\n").len(),
        1
    );
    assert_eq!(wrong_after(row, &text("RFC 5382 REQ-5")).len(), 2);
    let both = format!("{row}, RFC 5382 REQ-5");
    assert_eq!(wrong_after(&both, &text(row)).len(), 1);

    assert_eq!(misnamed(page), [""; 0]);
    for wrong in [
        "## RFC 5382: TCP\n\n| REQ-4 | a | b | `cases/nat/one` |\n",
        "## RFC 5382: TCP\n\n| RFC 5508 REQ-4 | a | b | `cases/nat/one` |\n",
        "## RFC 1812: routers\n\n| RFC 1812 4 | a | b | `cases/nat/one` |\n",
    ] {
        assert_eq!(misnamed(&format!("# Page\n\n{wrong}")).len(), 1, "{wrong}");
    }
}

fn defines(file: &Path, keyword: &str, name: &str) -> bool {
    let wanted = format!("{keyword}{name}(");
    fs::read_to_string(file).is_ok_and(|text| {
        text.lines()
            .any(|line| line.trim_start().starts_with(&wanted))
    })
}

#[test]
fn every_requirement_of_the_rfcs_has_its_test_or_its_reason() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/rfc.md")).unwrap();
    assert!(rows(&page).count() > 80, "the tables are read");
    let faults = faults(&page, &root);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_wrong_page_is_found() {
    let head = "| section | what it asks | here | test |\n|---|---|---|---|\n";
    let wrong = [
        "| 1 | a | b | |",
        "| 1 | a | | `test_ecn.py::test_tcp_with_ecn_negotiated_crosses_whole` |",
        "| 1 | a | b | `test_ecn.py::test_of_nothing` |",
        "| 1 | a | b | `test_nothing.py::test_of_nothing` |",
        "| 1 | a | b | `cases/route/no-such-case` |",
        "| 1 | a | b | `cases/echo` |",
        "| 1 | a | b | `crates/cli/tests/docs.rs::no_such_test` |",
        "| 1 | a | b | `crates/no/such/file.yaml` |",
        "| 1 | a | b |",
    ];
    for row in wrong {
        assert_eq!(faults(&format!("{head}{row}\n"), &root()).len(), 1, "{row}");
    }
    let right = [
        "| 1 | a | **not yet** | |",
        "| 1 | a | b | `crates/cli/tests/docs.rs::a_wrong_page_is_found` |",
        "| 1 | a | b | `cases/route/echo` |",
        "| 1 | a | `vlan_tag` | `test_ecn.py::test_tcp_with_ecn_negotiated_crosses_whole` |",
    ];
    for row in right {
        assert_eq!(faults(&format!("{head}{row}\n"), &root()), [""; 0], "{row}");
    }
}

/// The oldest kernel that is promised is the oldest one that the tests boot, wherever it is named.
#[test]
fn the_oldest_kernel_is_named_alike_everywhere() {
    let oldest = overlane_ebpf::preflight::OLDEST_TESTED.to_string();
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let kernels = read("tests/kernels/kernels.toml");
    let series = kernels.lines().find(|line| line.starts_with("series"));
    assert_eq!(series, Some(format!("series = \"{oldest}\"").as_str()));
    for (file, words) in [
        ("README.md", format!("**Linux ≥ {oldest}**")),
        ("docs/cli.md", format!("Linux {oldest} is the oldest")),
        ("scripts/setup", format!("kernel_wanted={oldest}\n")),
        ("crates/cli/src/args.rs", format!("Linux {oldest} or newer")),
        (
            "crates/lab/src/doctor.rs",
            format!(
                "OLDEST_TESTED: (u32, u32) = ({})",
                oldest.replace('.', ", ")
            ),
        ),
    ] {
        assert!(read(file).contains(&words), "{file} does not say: {words}");
    }
}
