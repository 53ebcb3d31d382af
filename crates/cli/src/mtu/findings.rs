//! What is wrong, and what to do.

use std::io;

use overlane_host::mtu::audit::{Finding, Severity};
use overlane_host::mtu::facts::HostFacts;

use crate::output::Output;

/// How many of those alike are named.
const NAMED: usize = 3;

/// Findings that say the same of other things are one, in the order of the first.
fn grouped(findings: &[Finding]) -> Vec<Vec<&Finding>> {
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    for finding in findings {
        match groups.iter_mut().find(|group| group[0].is_like(finding)) {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    groups
}

fn so_are(first: &Finding, others: &[&Finding]) -> String {
    let name = |finding: &&Finding| match &finding.host {
        Some(host) if Some(host) != first.host.as_ref() => format!("{} of {host}", finding.what),
        _ => finding.what.clone(),
    };
    let named: Vec<String> = others.iter().take(NAMED).map(name).collect();
    let more = match others.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let count = others.len() + 1;
    format!(
        "{count} alike: so are {}{more} (--json has each)",
        named.join(", ")
    )
}

pub(super) fn show(hosts: &[HostFacts], findings: &[Finding], output: Output) -> io::Result<()> {
    output.line(if findings.is_empty() {
        ""
    } else {
        "\nFINDINGS\n"
    })?;
    for alike in grouped(findings) {
        let [finding, others @ ..] = alike.as_slice() else {
            continue;
        };
        let whose = finding.host.as_ref();
        let whose = whose.map(|host| format!(" of {host}")).unwrap_or_default();
        let (severity, place, what) = (finding.severity, finding.place, &finding.what);
        output.line(format!("{severity}: {place}{whose}, {what}"))?;
        output.line(output.wrapped("  ", &finding.says))?;
        output.line(output.wrapped("  help: ", &finding.remedy))?;
        if !others.is_empty() {
            output.line(output.wrapped("  ", &so_are(finding, others)))?;
        }
        output.line("")?;
    }
    let count = |severity| findings.iter().filter(|it| it.severity == severity).count();
    let (wrong, wasteful) = (count(Severity::Wrong), count(Severity::Wasteful));
    if hosts.is_empty() {
        let none = "no host was looked at: none of the file is applied on this machine, and --host names none";
        return output.line(output.wrapped("", none));
    }
    let missing: usize = hosts.iter().map(|host| host.missing.len()).sum();
    let (with_what, unseen) = match missing {
        0 => ("", String::new()),
        1 => (" with what was seen", "; 1 thing was not seen".to_owned()),
        _ => (
            " with what was seen",
            format!("; {missing} things were not seen"),
        ),
    };
    match (wrong, wasteful) {
        (0, 0) => output.outcome(format!("nothing is wrong{with_what}{unseen}"), true),
        _ => output.outcome(
            format!("{wrong} wrong, {wasteful} wasteful{unseen}"),
            wrong == 0,
        ),
    }
}
