//! `overlane mtu FILE`: what fits, and where this machine is set otherwise. The sizes are `overlane_model::mtu`'s, the facts
//! and what is wrong with them `overlane_host::mtu`'s; here they are printed.

mod findings;
mod machine;
mod probe;
mod sizes;
mod watch;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use overlane_host::mtu::audit;
use overlane_host::mtu::audit::{Finding, Severity};
use overlane_host::mtu::facts::HostFacts;
use overlane_host::mtu::gather;
use overlane_host::mtu::probe::Probed;
use overlane_model::{CompileError, Fabric, Host, Name};
use serde::{Deserialize, Serialize};

use self::sizes::Sizes;
use crate::args::Mtu;
use crate::check;
use crate::failure::Failure;
use crate::output::Output;

/// The facts of some thousand hosts.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    sizes: &'a Sizes,
    hosts: &'a [HostFacts],
    #[serde(skip_serializing_if = "Option::is_none")]
    probes: Option<&'a [Probed]>,
    findings: &'a [Finding],
}

/// What is read of that on another host.
#[derive(Deserialize)]
#[serde(expecting = "a map with the key `hosts`")]
struct Elsewhere {
    hosts: Vec<HostFacts>,
}

pub(crate) fn run(args: &Mtu, output: Output) -> Result<(), Failure> {
    let fabric = check::load(&args.file)?;
    check::warn(&fabric, output);
    if args.watch {
        return watch::run(args, &fabric, output);
    }
    let mut facts = Vec::new();
    for host in hosts(&fabric, &args.hosts)? {
        facts.push(gather::facts(&fabric, host, args.netns.as_deref())?);
    }
    let here = facts.len();
    for file in &args.others {
        for host in elsewhere(file, &fabric)? {
            // What is looked at now is newer than what was written down.
            if facts.iter().all(|known| known.host != host.host) {
                facts.push(host);
            }
        }
    }
    let probed = match args.probe {
        true => Some(probe::probe(&fabric, &args.hosts, output)?),
        false => None,
    };
    let sizes = Sizes::of(&fabric, &facts, args.underlay_mtu);
    let judged = probe::without_old(&facts, probed.as_deref().unwrap_or_default());
    let mut findings = audit(&fabric, &judged, args.underlay_mtu);
    if let Some(probed) = &probed {
        findings.extend(overlane_host::mtu::probe::findings(probed));
        findings.sort_by_key(|finding| (finding.severity, finding.place));
    }
    if args.json {
        output.json(&Answer {
            sizes: &sizes,
            hosts: &facts,
            probes: probed.as_deref(),
            findings: &findings,
        })?;
    } else {
        sizes.show(output)?;
        for host in &facts[..here] {
            machine::show(&fabric, host, &sizes, output)?;
        }
        if let Some(probed) = &probed {
            probe::show(probed, output)?;
        }
        findings::show(&facts, &findings, output)?;
    }
    let is_wrong = |finding: &Finding| finding.severity == Severity::Wrong;
    if findings.iter().any(is_wrong) {
        return Err(Failure::Findings);
    }
    Ok(())
}

/// The hosts to look at: those that are named, each once, else those of the file that are applied on this machine.
fn hosts<'f>(fabric: &'f Fabric, named: &[Name]) -> Result<Vec<&'f Host>, Failure> {
    if !named.is_empty() {
        let named: BTreeSet<&str> = named.iter().map(Name::as_str).collect();
        return named.into_iter().map(|name| find(fabric, name)).collect();
    }
    // Who may not see what is applied sees what fits.
    let applied = overlane_host::applied_hosts().unwrap_or_default();
    let declared = applied
        .iter()
        .filter_map(|it| fabric.hosts().get(it.host.as_str()));
    Ok(declared.collect())
}

fn find<'f>(fabric: &'f Fabric, name: &str) -> Result<&'f Host, Failure> {
    fabric.hosts().get(name).ok_or_else(|| {
        Failure::Compile(CompileError::UnknownHost {
            host: name.to_owned(),
            known: fabric.hosts().keys().cloned().collect(),
        })
    })
}

fn elsewhere(file: &Path, fabric: &Fabric) -> Result<Vec<HostFacts>, Failure> {
    let input = |source| Failure::Input {
        name: file.display().to_string(),
        source,
    };
    let wrong = |text| input(io::Error::new(io::ErrorKind::InvalidData, text));
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(input)?;
    opened
        .take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(input)?;
    let read: Result<Elsewhere, _> = serde_json::from_slice(&bytes);
    let other = |error| wrong(format!("not what `overlane mtu --json` prints: {error}"));
    let hosts = read.map_err(other)?.hosts;
    for host in &hosts {
        find(fabric, &host.host).map_err(|error| wrong(format!("of another fabric: {error}")))?;
        host.check()
            .map_err(|error| wrong(format!("host {}: {error}", host.host)))?;
    }
    Ok(hosts)
}
