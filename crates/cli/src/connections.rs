//! `overlane connections export|import|forget`: `overlane_host::handover` takes and gives connections, which are
//! written and read here, and `overlane_host::forget` forgets some.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use overlane_host::forget::{self, Which};
use overlane_host::handover::{self, Import};
use overlane_model::MovedConnections;

use crate::apply::wait_note;
use crate::args::{
    Connections, ConnectionsExport, ConnectionsForget, ConnectionsImport, ConnectionsWhat,
};
use crate::failure::Failure;
use crate::output::Output;
use crate::show;

/// More than a full table takes as a file.
const MAX_FILE_BYTES: u64 = 2 << 30;

pub(crate) fn run(args: &Connections, output: Output) -> Result<(), Failure> {
    match &args.what {
        ConnectionsWhat::Export(args) => export(args, output),
        ConnectionsWhat::Import(args) => import(args, output),
        ConnectionsWhat::Forget(args) => forget(args, output),
    }
}

fn export(args: &ConnectionsExport, output: Output) -> Result<(), Failure> {
    let host = show::host(&args.host, output)?;
    let export = handover::export(&host, args.port.as_str())?;
    let bytes = export.moved.to_json()?;
    if is_stream(&args.file) {
        output.raw(&bytes)?;
    } else {
        fs::write(&args.file, &bytes).map_err(|source| Failure::File {
            path: args.file.clone(),
            source,
        })?;
    }
    let port = &args.port;
    output.note(match export.moved.connections.len() {
        0 if !export.has_firewall => {
            format!("port {port} has no firewall on host {host}: no connections to move")
        }
        1 => format!("1 connection of port {port}"),
        count => format!("{count} connections of port {port}"),
    });
    Ok(())
}

fn import(args: &ConnectionsImport, output: Output) -> Result<(), Failure> {
    let host = show::host(&args.host, output)?;
    let moved = MovedConnections::parse(&read(&args.file, output)?)?;
    let on_wait = |holder: &_| wait_note(output, &host, holder);
    let done = handover::import(&host, args.port.as_str(), &moved, &on_wait)?;
    if args.json {
        output.json(&done)?;
    } else {
        output.line(describe(&done))?;
    }
    Ok(())
}

fn forget(args: &ConnectionsForget, output: Output) -> Result<(), Failure> {
    let host = show::host(&args.host, output)?;
    // `--all` stands alone, and then nothing else is said.
    let which = Which {
        of: args.port.as_ref().map(ToString::to_string),
        protocol: args.protocol,
        local: args.local,
        local_port: args.local_port,
        peer: args.peer,
        peer_port: args.peer_port,
    };
    let on_wait = |holder: &_| wait_note(output, &host, holder);
    let done = forget::forget(&host, &which, &on_wait)?;
    if args.json {
        return Ok(output.json(&done)?);
    }
    Ok(output.line(match done.forgotten {
        1 => format!("host {host}: 1 connection forgotten"),
        count => format!("host {host}: {count} connections forgotten"),
    })?)
}

fn is_stream(file: &Path) -> bool {
    file == Path::new("-")
}

fn read(file: &Path, output: Output) -> Result<Vec<u8>, Failure> {
    let failed = |source| Failure::Input {
        name: match is_stream(file) {
            true => "standard input".to_owned(),
            false => file.display().to_string(),
        },
        source,
    };
    let mut bytes = Vec::new();
    let read = if is_stream(file) {
        let input = io::stdin();
        if input.is_terminal() {
            output.note("reading the connections from standard input");
        }
        input
            .lock()
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
    } else {
        let file = File::open(file).map_err(failed)?;
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)
    };
    match read {
        Ok(count) if count as u64 > MAX_FILE_BYTES => Err(failed(io::Error::other(
            "it is larger than the connections of one host could be",
        ))),
        Ok(_) => Ok(bytes),
        Err(source) => Err(failed(source)),
    }
}

/// `port web1: 12 connections taken, 1 was here already`
fn describe(done: &Import) -> String {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let mut text = format!(
        "port {}: {} connection{} taken",
        done.port,
        done.taken,
        plural(done.taken)
    );
    if done.there > 0 {
        let be = if done.there == 1 { "was" } else { "were" };
        text += &format!(", {} {be} here already", done.there);
    }
    if done.expired > 0 {
        text += &format!(", {} had expired", done.expired);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_in_words() {
        let import = |taken, there, expired| Import {
            host: "h2".into(),
            port: "web1".into(),
            taken,
            there,
            expired,
        };
        for (done, expected) in [
            (import(0, 0, 0), "port web1: 0 connections taken"),
            (
                import(1, 1, 0),
                "port web1: 1 connection taken, 1 was here already",
            ),
            (
                import(2, 3, 4),
                "port web1: 2 connections taken, 3 were here already, 4 had expired",
            ),
        ] {
            assert_eq!(describe(&done), expected);
        }
    }
}
