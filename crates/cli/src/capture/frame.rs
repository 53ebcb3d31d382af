//! The headers of a captured frame, of which perhaps only the first bytes were kept. Before it: the
//! session. After it: [`summary`](super::summary) and [`filter`](super::filter).

use overlane_wire::packet::{self, Header, TunnelPorts};
use overlane_wire::{WireError, arp, icmp, udp, vxlan};

/// Of a neighbour discovery message, what is shown.
const ND_LEN: usize = 24;

/// A frame as long as it was, zeros where nothing was kept: so that its lengths add up.
pub(crate) struct Frame {
    bytes: Vec<u8>,
    kept: usize,
}

/// What was found in it.
pub(crate) struct Headers<'a> {
    /// Outermost first.
    pub(crate) all: Vec<Header<'a>>,
    /// The next one was not kept whole.
    pub(crate) cut: bool,
    /// Why the next one is none.
    pub(crate) error: Option<WireError>,
}

impl Frame {
    pub(crate) fn new(kept: &[u8], len: u32) -> Self {
        let mut bytes = kept.to_vec();
        bytes.resize(kept.len().max(len as usize), 0);
        Self {
            bytes,
            kept: kept.len(),
        }
    }

    /// Reads the headers. A tunnel is only looked into where it may be ours: else it is a guest's own.
    pub(crate) fn headers(&self, tunnel: Option<TunnelPorts>) -> Headers<'_> {
        let walked = packet::walk(&self.bytes, tunnel.unwrap_or_default());
        let mut headers = Headers {
            all: Vec::with_capacity(walked.headers.len()),
            cut: false,
            error: None,
        };
        let mut end = 0;
        for header in walked.headers {
            end += len(&header);
            if tunnel.is_none() && is_tunnel(&header) {
                return headers;
            }
            if end > self.kept {
                headers.cut = true;
                return headers;
            }
            headers.all.push(header);
        }
        // What stands where nothing was kept says nothing about the packet.
        if walked.error.is_some() && end + ND_LEN > self.kept && self.kept < self.bytes.len() {
            headers.cut = true;
        } else {
            headers.error = walked.error;
        }
        headers
    }
}

impl<'a> Headers<'a> {
    /// Those of the frame inside the tunnel, or all when there is none.
    pub(crate) fn inner(&self) -> &[Header<'a>] {
        match self.all.iter().position(is_tunnel) {
            Some(tunnel) => self.all.get(tunnel + 1..).unwrap_or_default(),
            None => &self.all,
        }
    }
}

fn is_tunnel(header: &Header<'_>) -> bool {
    matches!(header, Header::Vxlan(_) | Header::Geneve(_))
}

fn len(header: &Header<'_>) -> usize {
    match header {
        Header::Ethernet(view) => view.header_len(),
        Header::Arp(_) => arp::LEN,
        Header::Ipv4(view) => view.header_len(),
        Header::Ipv6(view) => view.header_len(),
        Header::Udp(_) => udp::LEN,
        Header::Tcp(view) => view.header_len(),
        Header::Icmp(_) => icmp::LEN,
        Header::Nd(_) => ND_LEN,
        Header::Vxlan(_) => vxlan::LEN,
        Header::Geneve(view) => view.header_len(),
    }
}
