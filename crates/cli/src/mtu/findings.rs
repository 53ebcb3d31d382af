//! What is wrong, and what to do.

use std::io;

use overlane_host::mtu::audit::{Finding, Severity};
use overlane_host::mtu::facts::HostFacts;

use crate::output::Output;

pub(super) fn show(hosts: &[HostFacts], findings: &[Finding], output: Output) -> io::Result<()> {
    output.line(if findings.is_empty() {
        ""
    } else {
        "\nFINDINGS\n"
    })?;
    for finding in findings {
        let whose = finding.host.as_ref();
        let whose = whose.map(|host| format!(" of {host}")).unwrap_or_default();
        let (severity, place, what) = (finding.severity, finding.place, &finding.what);
        output.line(format!("{severity}: {place}{whose}, {what}"))?;
        output.line(output.wrapped("  ", &finding.says))?;
        output.line(output.wrapped("  help: ", &finding.remedy))?;
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
