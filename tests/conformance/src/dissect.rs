//! Packet → layers, in words a case can use: the way back of [`compose`]. What composing would compute
//! anyway is left out; bytes that make no sense are `raw` or `payload`.

mod headers;

use overlane_pipeline::{GsoKind, Packet};
use serde_json::{Map, Value};

use crate::compose::compose;
use crate::layers::{GsoName, GsoSpec, Layer, Raw, Tag};
use crate::values::Hex;

/// The layers of a packet: composing them gives the packet again.
pub fn dissect(packet: &Packet) -> Vec<Layer> {
    let mut layers = Vec::new();
    if let Some(tag) = packet.tag {
        layers.push(Layer::Tag(Tag {
            id: Some(tag.tag.vid()),
            pcp: Some(tag.tag.pcp()),
            dei: Some(tag.tag.dei()),
            tpid: Some(tag.ethertype().get()),
            kind: None,
        }));
    }
    let beside = layers.len();
    headers::ethernet(&packet.bytes, &mut layers);
    if let Some(gso) = packet.gso {
        layers.push(Layer::Gso(GsoSpec {
            kind: Some(match gso.kind {
                GsoKind::Tcp => GsoName::Tcp,
                GsoKind::Udp => GsoName::Udp,
                GsoKind::Sctp => GsoName::Sctp,
            }),
            size: Some(gso.size),
            segments: Some(gso.segments),
        }));
    }
    if !gives(&layers, packet) {
        layers.truncate(beside);
        layers.push(Layer::Raw(Raw {
            hex: Some(Hex(packet.bytes.clone())),
        }));
    }
    shorten(&mut layers, packet);
    layers
}

fn gives(layers: &[Layer], packet: &Packet) -> bool {
    compose(layers).is_ok_and(|composed| composed == *packet)
}

/// Leaves out each field without which the packet is the same.
fn shorten(layers: &mut [Layer], packet: &Packet) {
    for index in 0..layers.len() {
        for field in fields(&layers[index]) {
            let Some(shorter) = without(&layers[index], &field) else {
                continue;
            };
            let before = std::mem::replace(&mut layers[index], shorter);
            if !gives(layers, packet) {
                layers[index] = before;
            }
        }
    }
}

fn fields(layer: &Layer) -> Vec<String> {
    let (_, value) = named(layer);
    value
        .as_object()
        .map_or_else(Vec::new, |fields| fields.keys().cloned().collect())
}

fn without(layer: &Layer, field: &str) -> Option<Layer> {
    let (name, mut value) = named(layer);
    value.as_object_mut()?.remove(field);
    serde_json::from_value(Value::Object(Map::from_iter([(name, value)]))).ok()
}

/// The layer's name and its fields.
fn named(layer: &Layer) -> (String, Value) {
    match serde_json::to_value(layer) {
        Ok(Value::Object(object)) => object.into_iter().next(),
        _ => None,
    }
    .unwrap_or_else(|| (String::new(), Value::Null))
}

/// The layers as a case writes them, one a line.
pub fn text(layers: &[Layer], indent: &str) -> String {
    let lines = layers.iter().map(|layer| {
        let (name, value) = named(layer);
        format!("{indent}- {name}: {}\n", flow(&name, "", &value))
    });
    lines.collect()
}

fn flow(layer: &str, key: &str, value: &Value) -> String {
    let list = |items: Vec<String>, open, close| {
        if items.is_empty() {
            format!("{open}{close}")
        } else {
            format!("{open} {} {close}", items.join(", "))
        }
    };
    match value {
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(key, value)| format!("{key}: {}", flow(layer, key, value)));
            list(fields.collect(), '{', '}')
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| flow(layer, key, item));
            list(items.collect(), '[', ']')
        }
        Value::Number(number) if is_hexadecimal(layer, key) => {
            format!("0x{:02x}", number.as_u64().unwrap_or_default())
        }
        Value::String(text) if text.chars().all(|c| c.is_ascii_lowercase()) && !text.is_empty() => {
            text.clone()
        }
        other => other.to_string(),
    }
}

/// Fields that people know in hexadecimal.
fn is_hexadecimal(layer: &str, key: &str) -> bool {
    match key {
        "tpid" | "checksum" | "class" | "ptype" | "rest" | "flow_label" => true,
        "type" => !layer.starts_with("icmp"),
        "flags" => layer == "vxlan" || layer == "ra",
        "protocol" => layer == "geneve",
        _ => key.starts_with("reserved"),
    }
}

/// Two packets side by side: the layers in which they differ, then the bytes.
pub fn difference(expected: &Packet, found: &Packet) -> String {
    let lines = |packet: &Packet| text(&dissect(packet), "");
    let (wanted, got) = (lines(expected), lines(found));
    let mut out = String::new();
    let count = wanted.lines().count().max(got.lines().count());
    for index in 0..count {
        match (wanted.lines().nth(index), got.lines().nth(index)) {
            (Some(wanted), Some(got)) if wanted == got => out += &format!("    {wanted}\n"),
            (wanted, got) => {
                out += &wanted.map_or_else(String::new, |line| format!("  - {line}\n"));
                out += &got.map_or_else(String::new, |line| format!("  + {line}\n"));
            }
        }
    }
    out + &hex_difference(&expected.bytes, &found.bytes)
}

/// The rows of 16 bytes that differ.
fn hex_difference(expected: &[u8], found: &[u8]) -> String {
    const ROW: usize = 16;
    let row = |bytes: &[u8], at: usize| {
        let end = bytes.len().min(at + ROW);
        let bytes = bytes.get(at..end).unwrap_or_default();
        let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.join(" ")
    };
    let mut out = String::new();
    for at in (0..expected.len().max(found.len())).step_by(ROW) {
        let (wanted, got) = (row(expected, at), row(found, at));
        if wanted != got {
            out += &format!("  {at:04x} - {wanted}\n       + {got}\n");
        }
    }
    if expected.len() != found.len() {
        out += &format!("  length {} and not {}\n", found.len(), expected.len());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is composed can be read back, and needs no more fields than were given.
    #[test]
    fn there_and_back() {
        let layers = r#"
- tag: { id: 10, pcp: 3 }
- eth: { src: "02:00:00:00:00:01", dst: "02:00:00:00:00:02" }
- ip4: { src: "198.18.0.1", dst: "198.18.0.2", ecn: 2 }
- udp: { src: 50000 }
- geneve: { vni: 5001, options: [ { ovn: { from: 1, to: 0x8000 } }, { class: 0x0103, type: 1, data: "01020304" } ] }
- eth: { src: "02:00:00:00:00:0a", dst: "33:33:00:00:00:01" }
- vlan: { id: 7 }
- ip6: { src: "fe80::1", dst: "ff02::1" }
- ext6: { kind: hop }
- ns: { target: "2001:2::1", slla: "02:00:00:00:00:0a" }
"#;
        let layers: Vec<Layer> = serde_saphyr::from_str(layers).unwrap();
        let packet = compose(&layers).unwrap();
        let back = dissect(&packet);
        assert!(gives(&back, &packet));
        let printed = text(&back, "");
        assert!(
            !printed.contains("checksum") && !printed.contains("len"),
            "{printed}"
        );
        let again: Vec<Layer> = serde_saphyr::from_str(&printed).unwrap();
        assert_eq!(again, back);
        assert_eq!(printed.lines().count(), 10, "{printed}");
    }

    #[test]
    fn any_bytes_come_back() {
        let mut seed = 1u64;
        let mut random = move || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize
        };
        let whole: Vec<Layer> = serde_saphyr::from_str(
            "[ { eth: {} }, { ip4: { src: 198.18.0.1 } }, { udp: { dst: 4789 } }, { vxlan: { vni: 1 } }, \
             { eth: {} }, { ip6: {} }, { ext6: { kind: dest } }, { tcp: {} }, { payload: { size: 5 } } ]",
        )
        .unwrap();
        let whole = compose(&whole).unwrap().bytes;
        for _ in 0..500 {
            let mut bytes = whole.clone();
            for _ in 0..random() % 4 {
                let at = random() % bytes.len();
                bytes[at] = random() as u8;
            }
            bytes.truncate(random() % (bytes.len() + 1));
            let packet = Packet::new(bytes);
            assert!(gives(&dissect(&packet), &packet), "{packet:?}");
        }
    }
}
