//! A small reader of BTF (Documentation/bpf/btf.rst of the kernel): structs, enums, and the key and value
//! types of maps in section `.maps`.

use std::collections::{BTreeMap, BTreeSet};

use object::{Object, ObjectSection};

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;

struct Type {
    name: String,
    kind: u32,
    /// Size, or the type this one refers to.
    size_or_type: u32,
    /// Words behind the common part.
    words: Vec<u32>,
}

pub struct Btf {
    types: Vec<Type>,
    strings: Vec<u8>,
}

impl Btf {
    pub fn of(elf: &[u8]) -> Self {
        let file = object::File::parse(elf).unwrap();
        let data = file
            .section_by_name(".BTF")
            .unwrap()
            .data()
            .unwrap()
            .to_vec();
        let word = |at: usize| u32::from_ne_bytes(data[at..at + 4].try_into().unwrap());
        let header = word(4) as usize;
        let (types_at, types_len) = (header + word(8) as usize, word(12) as usize);
        let (strings_at, strings_len) = (header + word(16) as usize, word(20) as usize);
        let mut btf = Self {
            // Type 0 is void.
            types: vec![Type {
                name: String::new(),
                kind: 0,
                size_or_type: 0,
                words: Vec::new(),
            }],
            strings: data[strings_at..strings_at + strings_len].to_vec(),
        };
        let mut at = types_at;
        while at < types_at + types_len {
            let info = word(at + 4);
            let (kind, entries) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let extra = match kind {
                INT | VAR | DECL_TAG => 1,
                ARRAY => 3,
                STRUCT | UNION | DATASEC | ENUM64 => 3 * entries,
                ENUM | FUNC_PROTO => 2 * entries,
                _ => 0,
            };
            let words = (0..extra).map(|n| word(at + 12 + 4 * n)).collect();
            let name = btf.text(word(at));
            btf.types.push(Type {
                name,
                kind,
                size_or_type: word(at + 8),
                words,
            });
            at += 12 + 4 * extra;
        }
        btf
    }

    /// Type of `key` or `value` of a map: a pointer member of the anonymous struct of its variable. A ring
    /// has neither.
    pub fn map_part(&self, map: &str, part: &str) -> Option<u32> {
        let variable = self
            .types
            .iter()
            .find(|t| t.kind == VAR && t.name == map)
            .unwrap();
        let definition = &self.types[self.resolve(variable.size_or_type) as usize];
        let member = definition
            .words
            .chunks(3)
            .find(|member| self.text(member[0]) == part)?;
        let pointer = &self.types[self.resolve(member[1]) as usize];
        assert_eq!(pointer.kind, PTR);
        Some(self.resolve(pointer.size_or_type))
    }

    /// Names of a struct and of all structs in it.
    pub fn collect_structs(&self, id: u32, names: &mut BTreeSet<String>) {
        let found = &self.types[self.resolve(id) as usize];
        match found.kind {
            STRUCT => {
                names.insert(found.name.clone());
                for member in found.words.chunks(3) {
                    self.collect_structs(member[1], names);
                }
            }
            ARRAY => self.collect_structs(found.words[0], names),
            _ => {}
        }
    }

    /// Size of a struct, and its members: name, offset, size in bytes.
    pub fn layout(&self, name: &str) -> (usize, Vec<(String, usize, usize)>) {
        let found = self
            .types
            .iter()
            .find(|t| t.kind == STRUCT && t.name == name)
            .unwrap();
        let member = |member: &[u32]| {
            (
                self.name_of(member),
                member[2] as usize / 8,
                self.size(member[1]),
            )
        };
        (
            found.size_or_type as usize,
            found.words.chunks(3).map(member).collect(),
        )
    }

    /// A union without a name has that of its first member.
    fn name_of(&self, member: &[u32]) -> String {
        let found = &self.types[self.resolve(member[1]) as usize];
        match found.kind {
            UNION if member[0] == 0 => self.text(found.words[0]),
            _ => self.text(member[0]),
        }
    }

    /// Constants of an enum.
    pub fn enumeration(&self, name: &str) -> BTreeMap<String, u32> {
        let found = self
            .types
            .iter()
            .find(|t| t.kind == ENUM && t.name == name)
            .unwrap();
        found
            .words
            .chunks(2)
            .map(|constant| (self.text(constant[0]), constant[1]))
            .collect()
    }

    fn size(&self, id: u32) -> usize {
        let found = &self.types[self.resolve(id) as usize];
        match found.kind {
            ARRAY => self.size(found.words[0]) * found.words[2] as usize,
            PTR => 8,
            _ => found.size_or_type as usize,
        }
    }

    /// Through typedefs and qualifiers (kinds 8 to 11).
    fn resolve(&self, id: u32) -> u32 {
        let found = &self.types[id as usize];
        if (8..=11).contains(&found.kind) {
            self.resolve(found.size_or_type)
        } else {
            id
        }
    }

    fn text(&self, at: u32) -> String {
        let bytes = &self.strings[at as usize..];
        let end = bytes.iter().position(|byte| *byte == 0).unwrap();
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}
