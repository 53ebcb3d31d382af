//! An entry of another build's map as this build has it: members of the same name are the same, whatever their place and
//! their width. What only this build has is zero, and what only the other one had is left out.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{Field, Form, Order, Types};
use crate::EbpfError;
use crate::sys::{self, RawMap};

/// How keys or values of one map become those of another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    from: usize,
    to: usize,
    is_same: bool,
    steps: Vec<Step>,
}

/// One number, or an array of them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    from: Field,
    to: Field,
}

impl Conversion {
    /// None: they have nothing in common.
    pub(crate) fn between(from: &Form, to: &Form) -> Option<Self> {
        let fields: BTreeMap<_, _> = from.fields.iter().map(|it| (&it.name, it)).collect();
        let pairs = to.fields.iter().filter_map(|to| {
            let from = fields.get(&to.name)?;
            Some(Step {
                from: (*from).clone(),
                to: to.clone(),
            })
        });
        let steps: Vec<_> = pairs.collect();
        (!steps.is_empty()).then_some(Self {
            from: from.bytes,
            to: to.bytes,
            is_same: from == to,
            steps,
        })
    }

    /// Whether the members with these names are converted.
    pub(crate) fn has_all(&self, names: &[&str]) -> bool {
        let mut names = names.iter();
        names.all(|name| self.steps.iter().any(|step| step.to.name == *name))
    }

    /// The same of these members alone; the others are zero.
    pub(crate) fn only(&self, names: &[&str]) -> Self {
        let steps = self
            .steps
            .iter()
            .filter(|it| names.contains(&it.to.name.as_str()));
        Self {
            is_same: false,
            steps: steps.cloned().collect(),
            ..*self
        }
    }

    /// None: a number is larger than this build has room for.
    pub(crate) fn convert(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if bytes.len() != self.from {
            return None;
        }
        if self.is_same {
            return Some(bytes.to_vec());
        }
        let mut converted = vec![0; self.to];
        for step in &self.steps {
            step.carry_out(bytes, &mut converted)?;
        }
        Some(converted)
    }

    /// The same of a value of a per-CPU map, where that of each CPU begins on an 8-byte border.
    pub(crate) fn convert_each(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut converted = Vec::new();
        for of_cpu in bytes.chunks(self.from.next_multiple_of(8)) {
            converted.extend(self.convert(of_cpu.get(..self.from)?)?);
            converted.resize(converted.len().next_multiple_of(8), 0);
        }
        Some(converted)
    }
}

impl Step {
    fn carry_out(&self, from: &[u8], to: &mut [u8]) -> Option<()> {
        let shape = |field: &Field| (field.bytes, field.length);
        if shape(&self.from) == shape(&self.to) {
            let bytes = self.from.bytes * self.from.length;
            let source = from.get(self.from.offset..self.from.offset + bytes)?;
            let target = to.get_mut(self.to.offset..self.to.offset + bytes)?;
            target.copy_from_slice(source);
            return Some(());
        }
        for index in 0..self.from.length {
            let at = self.from.offset + index * self.from.bytes;
            let source = from.get(at..at + self.from.bytes)?;
            if index >= self.to.length {
                // What there is no room for must be nothing.
                source.iter().all(|byte| *byte == 0).then_some(())?;
                continue;
            }
            let at = self.to.offset + index * self.to.bytes;
            let target = to.get_mut(at..at + self.to.bytes)?;
            write(target, source, self.from.order)?;
        }
        Some(())
    }
}

/// Writes a number with another width.
fn write(target: &mut [u8], source: &[u8], order: Order) -> Option<()> {
    let is_big = order == Order::Network || cfg!(target_endian = "big");
    // From the lowest digit on.
    let digit = |bytes: &[u8], index: usize| {
        let at = if is_big {
            bytes.len().checked_sub(index + 1)
        } else {
            Some(index)
        };
        at.and_then(|at| bytes.get(at).copied())
    };
    let highest = digit(source, source.len().checked_sub(1)?)?;
    let is_negative = order == Order::Signed && highest & 0x80 != 0;
    let beyond = if is_negative { 0xff } else { 0 };
    let length = target.len();
    for index in 0..length {
        let at = if is_big { length - 1 - index } else { index };
        target[at] = digit(source, index).unwrap_or(beyond);
    }
    let mut left_out = (length..source.len()).map(|index| digit(source, index));
    let sign = target[if is_big { 0 } else { length - 1 }] & 0x80 != 0;
    let keeps_sign = order != Order::Signed || length >= source.len() || sign == is_negative;
    (keeps_sign && left_out.all(|it| it == Some(beyond))).then_some(())
}

/// Keys and values of a map.
#[derive(Debug)]
pub(crate) struct Conversions {
    pub(crate) key: Conversion,
    pub(crate) value: Conversion,
}

/// The types of builds, read once each.
#[derive(Debug, Default)]
pub(crate) struct Known {
    builds: BTreeMap<u32, Option<Types>>,
}

impl Known {
    /// How entries of one map become those of the other. None: the kernel has no types of one, or they have nothing in
    /// common.
    pub(crate) fn between(
        &mut self,
        from: &RawMap,
        to: &RawMap,
    ) -> Result<Option<Conversions>, EbpfError> {
        let key = self.conversion((from, from.types.key), (to, to.types.key))?;
        let value = self.conversion((from, from.types.value), (to, to.types.value))?;
        let fits = |it: &Conversions| {
            let sizes =
                |map: &RawMap| (map.layout.key_size as usize, map.layout.value_size as usize);
            (it.key.from, it.value.from) == sizes(from) && (it.key.to, it.value.to) == sizes(to)
        };
        let both = key.zip(value);
        Ok(both
            .map(|(key, value)| Conversions { key, value })
            .filter(fits))
    }

    fn conversion(
        &mut self,
        from: (&RawMap, u32),
        to: (&RawMap, u32),
    ) -> Result<Option<Conversion>, EbpfError> {
        let (from, to) = (self.form(from)?, self.form(to)?);
        Ok(from
            .zip(to)
            .and_then(|(from, to)| Conversion::between(&from, &to)))
    }

    /// How a key or value of a map lies, by the number of its type.
    pub(crate) fn form(
        &mut self,
        (map, number): (&RawMap, u32),
    ) -> Result<Option<Form>, EbpfError> {
        let id = map.types.btf;
        if id == 0 || number == 0 {
            return Ok(None);
        }
        let types = match self.builds.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let bytes = sys::btf_by_id(id);
                let failed = EbpfError::call("BPF_BTF_GET_FD_BY_ID", id.to_string());
                unknown.insert(Types::read(&bytes.map_err(failed)?))
            }
        };
        Ok(types.as_ref().and_then(|types| types.form(number)))
    }
}
