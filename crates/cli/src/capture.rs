//! `overlane capture …`: packets as our path sees them, with what became of each. `overlane_host::capture`
//! brings them; here they are chosen and written: as lines, as JSON, or as a capture file.

pub(crate) mod filter;
mod frame;
mod pcapng;
mod summary;
pub(crate) mod text;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use overlane_host::capture::{End, Packet, Session, Target};
use overlane_model::Verdict;

use crate::args::Capture;
use crate::failure::Failure;
use crate::output::{Output, json_line};
use crate::show;
use filter::Filter;
use frame::{Frame, Headers};
use pcapng::{Record, Writer};

/// Kept of each packet for a capture file, and where only headers are looked at.
const SNAP_FILE: u32 = 2048;
const SNAP_TEXT: u32 = 256;
/// Packets between two looks at the signals.
const BATCH: usize = 256;

/// What to capture, and when to stop.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) host: &'a str,
    pub(crate) target: Target<'a>,
    pub(crate) filter: Filter,
    /// Packets.
    pub(crate) count: Option<u64>,
    pub(crate) time: Option<Duration>,
    pub(crate) snap: u32,
}

/// Where packets go.
pub(crate) struct Sink {
    form: Form,
    /// `None`: standard output. Nobody needs more when its reader has gone.
    path: Option<PathBuf>,
}

enum Form {
    /// A line each.
    Text {
        out: BufWriter<io::Stdout>,
        macs: bool,
        colour: bool,
    },
    /// A line of JSON each.
    Json(BufWriter<io::Stdout>),
    /// A capture file.
    File(Writer<Box<dyn Write>>),
}

pub(crate) fn run(args: &Capture, output: Output) -> Result<(), Failure> {
    let filter = Filter::parse(&args.filter.join(" "))?;
    let host = show::host(&args.host, output)?;
    let snap = args.snap.unwrap_or(match args.write {
        Some(_) => SNAP_FILE,
        None => SNAP_TEXT,
    });
    let sink = match &args.write {
        Some(path) => Sink::file(path, snap)?,
        None if args.json => Sink::json(),
        None => Sink::text(args.ethernet, output),
    };
    let request = Request {
        host: &host,
        target: match args.what.as_str() {
            "all" => Target::All,
            "drops" => Target::Drops,
            name => Target::Named(name),
        },
        filter,
        count: args.count,
        time: args.seconds.map(Duration::from_secs),
        snap,
    };
    let what = format!("{} on host {host}", args.what);
    live(&request, sink, &what, output)
}

/// Writes packets until one of the ends comes.
pub(crate) fn live(
    request: &Request<'_>,
    mut sink: Sink,
    what: &str,
    output: Output,
) -> Result<(), Failure> {
    let mut session = Session::open(request.host, request.target, request.snap)?;
    output.note(format!("capturing {what}; Ctrl-C ends it"));
    sink.flush()?;
    let until = request.time.map(|time| Instant::now() + time);
    let mut shown = 0;
    let end = loop {
        let reader = io::stdout();
        let watched = sink.path.is_none().then(|| reader.as_fd());
        if let Some(end) = session.wait(until, watched)? {
            break Some(end);
        }
        take(&mut session, request, &mut sink, &mut shown, BATCH)?;
        if request.count.is_some_and(|count| shown >= count) {
            break None;
        }
    };
    let lost = session.stop()?;
    if !matches!(end, None | Some(End::ReaderGone)) {
        // What came before the end; the ring holds no more than this.
        take(&mut session, request, &mut sink, &mut shown, usize::MAX)?;
    }
    if end == Some(End::HostGone) {
        output.note(format!(
            "host {} was removed or applied by another version: the capture ended",
            request.host
        ));
    }
    output.note(format!("{shown} packets"));
    if lost > 0 {
        output.note(format!(
            "{lost} more came faster than they could be written: choose fewer packets, or a smaller --snap"
        ));
    }
    Ok(())
}

/// Writes what waits, at most `most` packets of the ring.
fn take(
    session: &mut Session,
    request: &Request<'_>,
    sink: &mut Sink,
    shown: &mut u64,
    most: usize,
) -> Result<(), Failure> {
    for _ in 0..most {
        if request.count.is_some_and(|count| *shown >= count) {
            break;
        }
        let Some(packet) = session.next() else { break };
        let frame = Frame::new(&packet.bytes, packet.len);
        let headers = frame.headers(session.outer_ports(&packet));
        if request.wants(&packet, &headers) {
            sink.write(&packet, &headers)?;
            *shown += 1;
        }
    }
    sink.flush()
}

impl Request<'_> {
    fn wants(&self, packet: &Packet, headers: &Headers<'_>) -> bool {
        // The host's own traffic is none of ours; and a line sent to a terminal by it would be the next one.
        let ours = packet.verdict != Verdict::ToHost || self.filter.names_verdict();
        ours && self.filter.matches(packet, headers.inner())
    }
}

impl Sink {
    /// Lines on standard output; `macs` for Ethernet addresses in each.
    pub(crate) fn text(macs: bool, output: Output) -> Self {
        let form = Form::Text {
            out: BufWriter::new(io::stdout()),
            macs,
            colour: output.colour_out(),
        };
        Self { form, path: None }
    }

    /// Lines of JSON on standard output.
    pub(crate) fn json() -> Self {
        Self {
            form: Form::Json(BufWriter::new(io::stdout())),
            path: None,
        }
    }

    /// A capture file at `path`, `-` being standard output.
    fn file(path: &Path, snap: u32) -> Result<Self, Failure> {
        let path = Some(path.to_owned()).filter(|path| path != Path::new("-"));
        let failed = |source| cannot_write(path.as_deref(), source);
        let out: Box<dyn Write> = match &path {
            Some(path) => Box::new(BufWriter::new(File::create(path).map_err(failed)?)),
            None => Box::new(BufWriter::new(io::stdout())),
        };
        let program = concat!("overlane ", env!("OVERLANE_VERSION"));
        let writer = Writer::new(out, snap, program).map_err(failed)?;
        let form = Form::File(writer);
        Ok(Self { form, path })
    }

    fn write(&mut self, packet: &Packet, headers: &Headers<'_>) -> Result<(), Failure> {
        let written = self.form.write(packet, headers);
        written.map_err(|source| cannot_write(self.path.as_deref(), source))
    }

    /// After each batch: what was captured can be read.
    fn flush(&mut self) -> Result<(), Failure> {
        let flushed = self.form.flush();
        flushed.map_err(|source| cannot_write(self.path.as_deref(), source))
    }
}

/// `None`: to standard output.
fn cannot_write(path: Option<&Path>, source: io::Error) -> Failure {
    match path {
        Some(path) => Failure::File {
            path: path.to_owned(),
            source,
        },
        None => Failure::Output(source),
    }
}

impl Form {
    fn write(&mut self, packet: &Packet, headers: &Headers<'_>) -> io::Result<()> {
        match self {
            Self::Text { out, macs, colour } => {
                let line = text::line(packet, headers, *macs, *colour);
                writeln!(out, "{line}")
            }
            Self::Json(out) => {
                let line = json_line(&text::Json::of(packet, headers))?;
                writeln!(out, "{line}")
            }
            Self::File(writer) => writer.write(&Record {
                interface: &packet.interface,
                time_unix_ns: packet.time_unix_ns,
                outbound: text::is_outbound(packet),
                len: packet.len,
                bytes: &packet.bytes,
                comment: &text::comment(packet),
            }),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Text { out, .. } | Self::Json(out) => out.flush(),
            Self::File(writer) => writer.flush(),
        }
    }
}

#[cfg(test)]
mod tests;
