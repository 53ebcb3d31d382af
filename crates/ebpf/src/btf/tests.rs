use super::conversion::Conversion;
use super::*;

/// Writes BTF as a compiler does.
#[derive(Default)]
struct Build {
    names: Vec<u8>,
    types: Vec<u8>,
    count: u32,
}

/// Name, type, offset in bits.
type M<'a> = (&'a str, u32, u32);

impl Build {
    fn name(&mut self, name: &str) -> u32 {
        if self.names.is_empty() {
            self.names.push(0);
        }
        if name.is_empty() {
            return 0;
        }
        let at = self.names.len() as u32;
        self.names.extend(name.as_bytes());
        self.names.push(0);
        at
    }

    fn add(&mut self, name: &str, info: (u32, u32), size_or_type: u32, more: &[u32]) -> u32 {
        let name = self.name(name);
        let words = [name, (info.0 << 24) | info.1, size_or_type];
        for word in words.iter().chain(more) {
            self.types.extend(word.to_ne_bytes());
        }
        self.count += 1;
        self.count
    }

    fn int(&mut self, bytes: u32) -> u32 {
        self.add("int", (1, 0), bytes, &[bytes * 8])
    }

    fn signed(&mut self, bytes: u32) -> u32 {
        self.add("int", (1, 0), bytes, &[(1 << 24) | (bytes * 8)])
    }

    fn array(&mut self, element: u32, length: u32) -> u32 {
        self.add("", (3, 0), 0, &[element, element, length])
    }

    fn alias(&mut self, name: &str, of: u32) -> u32 {
        self.add(name, (8, 0), of, &[])
    }

    fn all(&mut self, kind: u32, name: &str, bytes: u32, members: &[M<'_>]) -> u32 {
        let mut more = Vec::new();
        for (name, of, offset) in members {
            more.extend([self.name(name), *of, *offset]);
        }
        self.add(name, (kind, members.len() as u32), bytes, &more)
    }

    fn record(&mut self, bytes: u32, members: &[M<'_>]) -> u32 {
        self.all(4, "record", bytes, members)
    }

    fn union(&mut self, bytes: u32, members: &[M<'_>]) -> u32 {
        self.all(5, "", bytes, members)
    }

    fn bytes(&self) -> Vec<u8> {
        let (types, names) = (self.types.len() as u32, self.names.len() as u32);
        let mut bytes = 0xeb9f_u16.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, types, types, names] {
            bytes.extend(u32::to_ne_bytes(word));
        }
        [bytes, self.types.clone(), self.names.clone()].concat()
    }

    fn form(&self, number: u32) -> Form {
        Types::read(&self.bytes()).unwrap().form(number).unwrap()
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn members_are_found_by_name_wherever_they_lie() {
    let mut build = Build::default();
    let word = build.int(4);
    let old = build.record(12, &[("a", word, 0), ("gone", word, 32), ("b", word, 64)]);
    let new = build.record(
        16,
        &[
            ("fresh", word, 0),
            ("b", word, 32),
            ("a", word, 64),
            ("more", word, 96),
        ],
    );
    let (old, new) = (build.form(old), build.form(new));
    let there = Conversion::between(&old, &new).unwrap();
    assert_eq!(
        there.convert(&words(&[1, 2, 3])),
        Some(words(&[0, 3, 1, 0]))
    );
    let back = Conversion::between(&new, &old).unwrap();
    assert_eq!(back.convert(&words(&[9, 3, 1, 9])), Some(words(&[1, 0, 3])));
    assert_eq!(old.read(&words(&[1, 2, 3]), "b"), Some(3));
    assert_eq!(old.read(&words(&[1, 2, 3]), "c"), None);
    assert!(there.has_all(&["a", "b"]) && !there.has_all(&["fresh"]));
    // Not of another size than the types say.
    assert_eq!(there.convert(&words(&[1, 2])), None);
}

#[test]
fn a_member_with_another_name_begins_at_zero() {
    let mut build = Build::default();
    let word = build.int(4);
    let old = build.record(8, &[("a", word, 0), ("before", word, 32)]);
    let new = build.record(8, &[("a", word, 0), ("after", word, 32)]);
    let there = Conversion::between(&build.form(old), &build.form(new)).unwrap();
    assert_eq!(there.convert(&words(&[1, 2])), Some(words(&[1, 0])));
    let other = build.record(4, &[("none", word, 0)]);
    assert!(Conversion::between(&build.form(old), &build.form(other)).is_none());
}

#[test]
fn numbers_of_another_width_keep_their_value_or_are_refused() {
    let mut build = Build::default();
    let (short, word, long) = (build.int(2), build.int(4), build.int(8));
    let narrow = build.record(4, &[("a", short, 0), ("b", short, 16)]);
    let wide = build.record(16, &[("a", word, 0), ("b", long, 64)]);
    let (narrow, wide) = (build.form(narrow), build.form(wide));
    let there = Conversion::between(&narrow, &wide).unwrap();
    let few = [7u16, 0xfffe].map(u16::to_ne_bytes).concat();
    let many = [words(&[7, 0]), 0xfffe_u64.to_ne_bytes().to_vec()].concat();
    assert_eq!(there.convert(&few), Some(many.clone()));
    let back = Conversion::between(&wide, &narrow).unwrap();
    assert_eq!(back.convert(&many), Some(few));
    let large = [words(&[0x1_0000, 0]), vec![0; 8]].concat();
    assert_eq!(back.convert(&large), None);
}

#[test]
fn signs_and_the_order_of_the_network_are_kept() {
    let mut build = Build::default();
    let (short, word) = (build.signed(2), build.signed(4));
    let (port, ports) = (build.int(2), build.int(4));
    let (port, ports) = (build.alias("__be16", port), build.alias("__be32", ports));
    let narrow = build.record(4, &[("a", short, 0), ("port", port, 16)]);
    let wide = build.record(8, &[("a", word, 0), ("port", ports, 32)]);
    let (narrow, wide) = (build.form(narrow), build.form(wide));
    let few = [(-2i16).to_ne_bytes(), 80u16.to_be_bytes()].concat();
    let many = [(-2i32).to_ne_bytes(), 80u32.to_be_bytes()].concat();
    let there = Conversion::between(&narrow, &wide).unwrap();
    assert_eq!(there.convert(&few), Some(many.clone()));
    let back = Conversion::between(&wide, &narrow).unwrap();
    assert_eq!(back.convert(&many), Some(few));
    // It would be negative.
    let large = [40_000i32.to_ne_bytes(), [0; 4]].concat();
    assert_eq!(back.convert(&large), None);
}

#[test]
fn structs_in_structs_and_arrays_are_followed() {
    let mut build = Build::default();
    let (byte, word) = (build.int(1), build.int(4));
    let address = build.array(byte, 4);
    let end = build.record(8, &[("at", address, 0), ("seen", word, 32)]);
    let longer = build.record(
        12,
        &[("first", word, 0), ("seen", word, 32), ("at", address, 64)],
    );
    let (ends, longer_ends) = (build.array(end, 2), build.array(longer, 2));
    let old = build.record(20, &[("ends", ends, 0), ("last", word, 128)]);
    let inner = build.record(28, &[("last", word, 0), ("ends", longer_ends, 32)]);
    let (old, new) = (build.form(old), build.form(inner));
    let there = Conversion::between(&old, &new).unwrap();
    let at = u32::from_ne_bytes([1, 2, 3, 4]);
    let converted = there.convert(&words(&[at, 5, at, 6, 7]));
    assert_eq!(converted, Some(words(&[7, 0, 5, at, 0, 6, at])));
    assert!(there.has_all(&["ends[1].seen", "ends[0].at"]));
}

#[test]
fn an_array_of_another_length_loses_nothing_but_zeros() {
    let mut build = Build::default();
    let word = build.int(4);
    let (few, many) = (build.array(word, 2), build.array(word, 3));
    let few = build.record(8, &[("all", few, 0)]);
    let many = build.record(12, &[("all", many, 0)]);
    let (few, many) = (build.form(few), build.form(many));
    let there = Conversion::between(&few, &many).unwrap();
    assert_eq!(there.convert(&words(&[1, 2])), Some(words(&[1, 2, 0])));
    let back = Conversion::between(&many, &few).unwrap();
    assert_eq!(back.convert(&words(&[1, 2, 0])), Some(words(&[1, 2])));
    assert_eq!(back.convert(&words(&[1, 2, 3])), None);
}

#[test]
fn members_of_a_nameless_union_are_the_structs_own() {
    let mut build = Build::default();
    let (short, word) = (build.int(2), build.int(4));
    let either = build.union(4, &[("owner", word, 0), ("port", short, 0)]);
    let old = build.record(8, &[("a", word, 0), ("", either, 32)]);
    let new = build.record(12, &[("", either, 32), ("a", word, 64)]);
    let there = Conversion::between(&build.form(old), &build.form(new)).unwrap();
    assert_eq!(
        there.convert(&words(&[1, 0x0102_0304])),
        Some(words(&[0, 0x0102_0304, 1]))
    );
}

#[test]
fn values_of_each_cpu_begin_on_a_border() {
    let mut build = Build::default();
    let word = build.int(4);
    let few = build.record(4, &[("a", word, 0)]);
    let many = build.record(12, &[("fresh", word, 0), ("a", word, 64)]);
    let (few, many) = (build.form(few), build.form(many));
    let there = Conversion::between(&few, &many).unwrap();
    assert_eq!(
        there.convert_each(&words(&[1, 0, 2, 0])),
        Some(words(&[0, 0, 1, 0, 0, 0, 2, 0]))
    );
    let back = Conversion::between(&many, &few).unwrap();
    assert_eq!(
        back.convert_each(&words(&[0, 0, 1, 0, 0, 0, 2, 0])),
        Some(words(&[1, 0, 2, 0]))
    );
}

#[test]
fn a_lone_number_is_a_form_and_damage_is_none() {
    let mut build = Build::default();
    let word = build.int(4);
    let there = Conversion::between(&build.form(word), &build.form(word)).unwrap();
    assert_eq!(there.convert(&words(&[5])), Some(words(&[5])));
    let loops = build.count + 1;
    build.record(4, &[("itself", loops, 0)]);
    let outside = build.record(4, &[("beyond", word, 8)]);
    let bytes = build.bytes();
    let types = Types::read(&bytes).unwrap();
    assert!(types.form(loops).is_none() && types.form(outside).is_none());
    assert!(types.form(99).is_none() && types.form(0).is_none());
    for length in 0..bytes.len() {
        let _ = Types::read(&bytes[..length]).map(|types| types.form(outside));
    }
}
