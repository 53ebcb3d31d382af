//! Every file, command, option, key, counter and rule that a document names exists, and every command and option is named
//! in docs/cli.md. (That docs/ names every key and counter is tested beside these, in the crates that have them.)
//!
//! [`markdown`] reads a page, [`vocabulary`] knows the names, and [`faults`] holds one against the other.
//! [`rules`] knows the rules of docs/semantics.md by their IDs.

mod faults;
mod markdown;
mod rules;
mod vocabulary;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use faults::{Fault, faults};
use markdown::Page;
use vocabulary::Vocabulary;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All names of the tree: read once, for all tests.
static NAMES: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::of_the_tree(&root()));

/// Every document.
static PAGES: LazyLock<Vec<Page>> = LazyLock::new(pages);

fn pages() -> Vec<Page> {
    let root = root();
    let mut paths: Vec<PathBuf> = fs::read_dir(root.join("docs/adr"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.extend(vocabulary::tree(&root));
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    paths.sort();
    let page = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_default();
        Page::read(path.strip_prefix(&root).unwrap_or(path), &text)
    };
    paths.iter().map(page).collect()
}

#[test]
fn every_name_in_a_document_exists() {
    assert!(PAGES.len() > 30, "{} pages were found", PAGES.len());
    let found: Vec<String> = PAGES
        .iter()
        .flat_map(|page| faults(page, &PAGES, &NAMES))
        .map(|fault| fault.to_string())
        .collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn a_wrong_name_is_found() {
    let of = |text: &str| -> Vec<Fault> {
        faults(&Page::read(Path::new("docs/new.md"), text), &PAGES, &NAMES)
    };
    for wrong in [
        // Files and places.
        "[a](nowhere.md)",
        "[a](cli.md#no-such-heading)",
        "![a](nothing.svg)",
        "`crates/cli/src/nothing.rs`",
        "`docs/nothing.md`",
        "`scripts/setupp`",
        "`test_nothing_at_all.py`",
        "`nothing-at-all.yaml`",
        // Commands.
        "`overlane aply fabric.yaml`",
        "`overlane show portz`",
        "`lab rum`",
        "`show fdbs`",
        "```console\n$ overlane lab rnu jumbo-vxlan\n```",
        "```console\n# sudo overlane chek fabric.yaml\n```",
        "`make tests-all`",
        // Options.
        "`--dry-runn`",
        "`overlane apply fabric.yaml --dryrun`",
        "`overlane check fabric.yaml --host h1`",
        "`lab run --quickly`",
        "`capture web1 -q`",
        "```console\n$ overlane apply fabric.yaml --hots h1 | head\n```",
        // Keys.
        "`securty`",
        "`securty: mac`",
        "`security: macc`",
        "`tunnel: { encapsulatoin: geneve }`",
        "`options: nonne`",
        "```yaml\nswitches:\n  blue: { vnii: 5001 }\n```",
        "```json\n{ \"goodput_gbpss\": 1 }\n```",
        "`goodput_gbpss`",
        // Counters.
        "`pkt_to_big`",
        "`spoofd_mac`",
        "`from_prot`",
        // Networks and studies.
        "`overlane-vxlann`",
        "`kernal-geneve`",
        "`jumbo-vxlans`",
        // In longer text, and in forms.
        "`overllane lab doctor`",
        "`cass/route/echo`",
        "`cases/route/eccho`",
        "`/run/overllane/<host>.lock`",
        "`{\"packets_ppps\", \"segments_pps\"}`",
        // Beginnings of names.
        "`prase-`",
    ] {
        let found = of(wrong);
        assert_eq!(found.len(), 1, "{wrong}: {found:?}");
    }
    // In the tables of a page, the keys of its own file and the options of its own command.
    for (page, wrong) in [
        (
            "docs/fabric.md",
            "| key | type |\n|---|---|\n| `ttl` | number |",
        ),
        (
            "docs/studies.md",
            "| key | content |\n|---|---|\n| `sampels` | number |",
        ),
        (
            "docs/lab-method.md",
            "| key | content |\n|---|---|\n| `goodput` | number |",
        ),
        (
            "docs/cli.md",
            "## overlane check\n| option | meaning |\n|---|---|\n| `--host NAME` | x |",
        ),
    ] {
        let page = Page::read(Path::new(page), wrong);
        let found = faults(&page, &PAGES, &NAMES);
        assert_eq!(found.len(), 1, "{wrong}: {found:?}");
    }
    for right in [
        "[a](cli.md#overlane-check) [b](https://example.org/x#y) [c](../README.md)",
        "`overlane apply fabric.yaml --host h1 --dry-run` `lab run --quick` `show fdb` `--json`",
        "`crates/cli/src/main.rs` `test_ecn.py` `/sys/fs/bpf` `make test`",
        "`security: mac` `pkt_too_big` `overlane-vxlan` `goodput_gbps` `geneve-` `cases/route/echo-cut-off`",
        "```console\n$ overlane capture web1 -w - | wireshark -k -i -\n```",
    ] {
        let found = of(right);
        assert!(found.is_empty(), "{right}: {found:?}");
    }
}

#[test]
fn every_key_in_a_fabric_file_of_a_page_exists() {
    let of_all = |pages: &[Page]| -> Vec<String> {
        let found = pages.iter().flat_map(faults::fabric_faults);
        found.map(|fault| fault.to_string()).collect()
    };
    assert_eq!(of_all(&PAGES), [""; 0]);
    // A part of a file, with a key that belongs elsewhere.
    let wrong = "Text.\n```yaml\nswitches:\n  blue: { vni: 5001, samples: 3 }\n```\n";
    let found = of_all(&[Page::read(Path::new("docs/new.md"), wrong)]);
    assert_eq!(
        found,
        ["docs/new.md:4: unknown key `samples` in switch `blue`"]
    );
}

/// One thought a sentence, one sentence a line: a line has at most 160 characters.
#[test]
fn no_line_of_prose_is_long() {
    let of_all = |pages: &[Page]| -> Vec<String> {
        pages
            .iter()
            .flat_map(faults::long_lines)
            .map(|fault| fault.to_string())
            .collect()
    };
    let found = of_all(&PAGES);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    let long = "x".repeat(161);
    let page = |text: String| Page::read(Path::new("docs/new.md"), &text);
    let found = of_all(&[
        page(format!("{long}\n")),
        page(format!("| {long} |\n```\n{long}\n```\n")),
    ]);
    assert_eq!(found, ["docs/new.md:1: 161 characters in a line"]);
}

#[test]
fn readme_can_be_read_in_a_minute() {
    let text = fs::read_to_string(root().join("README.md")).unwrap_or_default();
    let lines = text.lines().count();
    assert!((40..=120).contains(&lines), "README.md has {lines} lines");
}

#[test]
fn every_command_and_option_is_documented() {
    let manual = fs::read_to_string(root().join("docs/cli.md")).unwrap_or_default();
    let missing = faults::undocumented(&manual, &NAMES);
    assert_eq!(missing, [""; 0]);
    // Without its section a command is missed, and an option without its name.
    let without = manual.replace("## overlane lab chart", "## the chart");
    assert_eq!(
        faults::undocumented(&without, &NAMES)
            .first()
            .map(String::as_str),
        Some("overlane lab chart has no section")
    );
    let without = manual.replace("--against-itself", "--against itself");
    let missing = faults::undocumented(&without, &NAMES);
    assert!(
        missing.iter().any(|text| text.contains("--against-itself")),
        "{missing:?}"
    );
}

#[test]
fn every_size_of_a_host_is_documented() {
    use overlane_model::sizes::{MAX_FLOOD_MEMBERS, Size};
    let page = fs::read_to_string(root().join("docs/limits.md")).unwrap_or_default();
    let (_, sizes) = page.split_once("\n## Sizes\n").unwrap_or_default();
    let of_rules = [Size::Rules, Size::RuleSets, Size::RulePeers];
    let all = Size::COUNTED.into_iter().chain(of_rules).map(Size::most);
    for most in all.chain([MAX_FLOOD_MEMBERS]) {
        let digits = most.to_string();
        let thousands: Vec<&str> = digits
            .as_bytes()
            .rchunks(3)
            .rev()
            .filter_map(|part| std::str::from_utf8(part).ok())
            .collect();
        let written = thousands.join(" ");
        assert!(
            sizes.contains(&written),
            "docs/limits.md does not name {written}"
        );
    }
}

#[test]
fn every_rule_has_an_id_of_its_own() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_default();
    let page = read("docs/semantics.md");
    let all = rules::rules(&page);
    assert!(all.len() > 200, "{} rules were found", all.len());
    assert_eq!(rules::wrong_ids(&all), [""; 0]);
    let wrong = |from: &str, to: &str| {
        assert!(page.contains(from), "{from}");
        rules::wrong_ids(&rules::rules(&page.replacen(from, to, 1))).join(", ")
    };
    assert_eq!(wrong("**CT-3** ", "**CT-2** "), "CT-2 is two rules");
    assert_eq!(wrong("**ECN-1** ", "**ECN-9** "), "ECN-1 is no rule");
    assert_eq!(
        wrong("**LEARN-12** ", "**PARSE-99** "),
        "PARSE-99 is not in section ## parse"
    );
}

#[test]
fn every_drop_reason_has_its_rules() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap_or_default();
    let all = rules::rules(&read("docs/semantics.md"));
    let manual = read("docs/counters.md");
    assert_eq!(rules::wrong_rows(&manual, &all), [""; 0]);
    for (from, to) in [
        ("| PARSE-6 |", "| PARSE-5 |"),
        ("| PARSE-6 |", "| PARSE-6, PARSE-5 |"),
        ("| L2-4, ", "| "),
        ("| VTEP-6 |", "| none: nobody knows |"),
        ("| none: the tables are not filled |", "| none |"),
    ] {
        let other = manual.replacen(from, to, 1);
        assert_eq!(rules::wrong_rows(&other, &all).len(), 1, "{from} {to}");
    }
}

#[test]
fn every_rule_that_a_document_names_exists() {
    let all =
        rules::rules(&fs::read_to_string(root().join("docs/semantics.md")).unwrap_or_default());
    let pages = PAGES.iter().map(|page| &page.path);
    let found: Vec<String> = pages
        .flat_map(|path| {
            let text = fs::read_to_string(root().join(path)).unwrap_or_default();
            let unknown = rules::unknown(&text, &all).into_iter();
            unknown.map(|id| format!("{}: there is no rule {id}", path.display()))
        })
        .collect();
    assert_eq!(found, [""; 0]);
    let wrong = rules::unknown("PARSE-1, (CT-99) and `NAT-0`, UTF-8", &all);
    assert_eq!(wrong, ["CT-99", "NAT-0"]);
}
