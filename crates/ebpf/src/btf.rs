//! Types as the kernel has them, in BTF (Documentation/bpf/btf.rst): where the members of a struct lie. Of another build
//! nothing else is known here. How entries of its maps become entries of ours is in [`conversion`].

pub(crate) mod conversion;
#[cfg(test)]
mod tests;

/// Deeper is no type of ours.
const MOST_NESTED: usize = 16;
/// So are more members than that, those of an array's elements among them.
const MOST_FIELDS: usize = 4096;

/// All types of a build.
#[derive(Debug)]
pub(crate) struct Types {
    /// By their number: 0 is void.
    types: Vec<Type>,
}

#[derive(Debug)]
enum Type {
    Number {
        bytes: usize,
        signed: bool,
    },
    Array {
        element: u32,
        length: usize,
    },
    /// Or a union, whose members lie at the same place.
    Struct {
        bytes: usize,
        members: Vec<Member>,
    },
    /// A name for another, or another with a qualifier.
    Alias {
        name: String,
        of: u32,
    },
    /// Nothing that is in a map of ours.
    Other,
}

#[derive(Debug)]
struct Member {
    /// Empty: its members count as the struct's own.
    name: String,
    bit_offset: usize,
    /// 0: as its type says.
    bits: usize,
    of: u32,
}

/// How a key or a value lies: a number, or the numbers of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    bytes: usize,
    fields: Vec<Field>,
}

/// A number, or an array of them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    /// With the names of all that it is in: `local.end`. Of a lone number empty.
    name: String,
    offset: usize,
    bytes: usize,
    length: usize,
    order: Order,
}

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Unsigned,
    Signed,
    /// As in packets: `__be16`.
    Network,
}

impl Form {
    /// The number with this name, in a key or value of this form.
    pub(crate) fn read(&self, bytes: &[u8], name: &str) -> Option<u64> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        let only = Self {
            bytes: 8,
            fields: vec![Field {
                offset: 0,
                bytes: 8,
                length: 1,
                order: Order::Unsigned,
                ..field.clone()
            }],
        };
        let number = conversion::Conversion::between(self, &only)?.convert(bytes)?;
        Some(u64::from_ne_bytes(number.try_into().ok()?))
    }
}

impl Types {
    /// None: this is no BTF, or of a kind that nobody knew yet.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        const MAGIC: u16 = 0xeb9f;
        let header = Reader { bytes, at: 0 };
        if u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        let word = |at| Reader { at, ..header }.number();
        let behind = word(4)?;
        let section = |offset, length| {
            let begin = behind.checked_add(word(offset)?)?;
            bytes.get(begin..begin.checked_add(word(length)?)?)
        };
        let (types, names) = (section(8, 12)?, section(16, 20)?);
        let mut reader = Reader {
            bytes: types,
            at: 0,
        };
        let mut all = vec![Type::Other];
        while reader.at < types.len() {
            all.push(reader.read_type(names)?);
        }
        Some(Self { types: all })
    }

    /// How the type with this number lies. None: not as a map's entry can.
    pub(crate) fn form(&self, number: u32) -> Option<Form> {
        let mut fields = Vec::new();
        self.add(&mut fields, number, (String::new(), 0), MOST_NESTED)?;
        let bytes = self.bytes(number, MOST_NESTED)?;
        let is_inside = |field: &Field| {
            let all = field.bytes.checked_mul(field.length);
            all.and_then(|all| all.checked_add(field.offset)) <= Some(bytes)
        };
        fields
            .iter()
            .all(is_inside)
            .then_some(Form { bytes, fields })
    }

    fn get(&self, number: u32) -> Option<&Type> {
        self.types.get(number as usize)
    }

    fn bytes(&self, number: u32, depth: usize) -> Option<usize> {
        let deeper = depth.checked_sub(1)?;
        match self.get(number)? {
            Type::Number { bytes, .. } | Type::Struct { bytes, .. } => Some(*bytes),
            Type::Array { element, length } => self.bytes(*element, deeper)?.checked_mul(*length),
            Type::Alias { of, .. } => self.bytes(*of, deeper),
            Type::Other => None,
        }
    }

    /// Adds the numbers of a type that lies at this place and has this name.
    fn add(
        &self,
        fields: &mut Vec<Field>,
        number: u32,
        (name, offset): (String, usize),
        depth: usize,
    ) -> Option<()> {
        let deeper = depth.checked_sub(1)?;
        let mut push = |bytes, length, order| {
            fields.push(Field {
                name: name.clone(),
                offset,
                bytes,
                length,
                order,
            });
            (fields.len() <= MOST_FIELDS).then_some(())
        };
        if let Some((bytes, order)) = self.number(number, deeper) {
            return push(bytes, 1, order);
        }
        match self.get(number)? {
            Type::Alias { of, .. } => self.add(fields, *of, (name, offset), deeper),
            Type::Array { element, length } => {
                if let Some((bytes, order)) = self.number(*element, deeper) {
                    return push(bytes, *length, order);
                }
                let stride = self.bytes(*element, deeper)?;
                (0..*length).try_for_each(|index| {
                    let place = (format!("{name}[{index}]"), offset + index * stride);
                    self.add(fields, *element, place, deeper)
                })
            }
            Type::Struct { members, .. } => members.iter().try_for_each(|member| {
                // Nothing of ours has bit fields: another build's are left out.
                if member.bits != 0 || member.bit_offset % 8 != 0 {
                    return Some(());
                }
                let own = match (name.as_str(), member.name.as_str()) {
                    (outer, "") => outer.to_owned(),
                    ("", own) => own.to_owned(),
                    (outer, own) => format!("{outer}.{own}"),
                };
                let place = (own, offset + member.bit_offset / 8);
                self.add(fields, member.of, place, deeper)
            }),
            Type::Number { .. } | Type::Other => None,
        }
    }

    /// Bytes and order, if it is a number under whatever name.
    fn number(&self, number: u32, depth: usize) -> Option<(usize, Order)> {
        let deeper = depth.checked_sub(1)?;
        match self.get(number)? {
            Type::Number { bytes, signed } => {
                let order = if *signed {
                    Order::Signed
                } else {
                    Order::Unsigned
                };
                matches!(bytes, 1..=8).then_some((*bytes, order))
            }
            Type::Alias { name, of } => {
                let (bytes, order) = self.number(*of, deeper)?;
                let is_network = name.starts_with("__be");
                Some((bytes, if is_network { Order::Network } else { order }))
            }
            _ => None,
        }
    }
}

/// Reads one type after the other.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn number(mut self) -> Option<usize> {
        self.word()
    }

    fn word(&mut self) -> Option<usize> {
        let end = self.at.checked_add(4)?;
        let bytes = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?) as usize)
    }

    fn skip(&mut self, bytes: usize) -> Option<Type> {
        self.at = self.at.checked_add(bytes)?;
        (self.at <= self.bytes.len()).then_some(Type::Other)
    }

    /// `struct btf_type`, and what follows it for its kind.
    fn read_type(&mut self, names: &[u8]) -> Option<Type> {
        let (name, info, size_or_type) = (self.word()?, self.word()?, self.word()?);
        let (kind, count, flag) = (info >> 24 & 31, info & 0xffff, info >> 31 != 0);
        match kind {
            // An integer.
            1 => {
                let signed = self.word()? >> 24 & 1 != 0;
                Some(Type::Number {
                    bytes: size_or_type,
                    signed,
                })
            }
            // An array.
            3 => {
                let (element, _, length) = (self.word()?, self.word()?, self.word()?);
                Some(Type::Array {
                    element: element as u32,
                    length,
                })
            }
            // A struct, a union.
            4 | 5 => {
                let members = (0..count).map(|_| self.read_member(names, flag));
                Some(Type::Struct {
                    bytes: size_or_type,
                    members: members.collect::<Option<_>>()?,
                })
            }
            // Enumerations.
            6 | 19 => {
                self.skip(count * if kind == 6 { 8 } else { 12 })?;
                Some(Type::Number {
                    bytes: size_or_type,
                    signed: flag,
                })
            }
            // typedef, volatile, const, restrict, a tag of a type.
            8..=11 | 18 => Some(Type::Alias {
                name: name_at(names, name)?,
                of: size_or_type as u32,
            }),
            // void, a pointer, a forward declaration, a function, a floating point number.
            0 | 2 | 7 | 12 | 16 => Some(Type::Other),
            // A prototype, a variable, a section, a tag of a declaration.
            13 => self.skip(count * 8),
            14 | 17 => self.skip(4),
            15 => self.skip(count * 12),
            _ => None,
        }
    }

    /// `struct btf_member`. `has_bits`: its place says how many bits it has, too.
    fn read_member(&mut self, names: &[u8], has_bits: bool) -> Option<Member> {
        let (name, of, place) = (self.word()?, self.word()?, self.word()?);
        let (bits, bit_offset) = match has_bits {
            true => (place >> 24, place & 0x00ff_ffff),
            false => (0, place),
        };
        Some(Member {
            name: name_at(names, name)?,
            bit_offset,
            bits,
            of: of as u32,
        })
    }
}

fn name_at(names: &[u8], at: usize) -> Option<String> {
    let name = names.get(at..)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}
