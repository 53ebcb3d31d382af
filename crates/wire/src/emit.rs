//! Writing headers: every value type of this crate emits itself through this trait.

use crate::WireError;

/// A value that can write itself as the bytes of its header.
pub trait Emit {
    /// Bytes the header takes, its options included.
    fn emit_len(&self) -> usize;

    /// Fills `out`, which is exactly [`emit_len`](Self::emit_len) bytes long. Callers use
    /// [`emit`](Self::emit) or [`emit_to`](Self::emit_to), which see to that.
    fn fill(&self, out: &mut [u8]);

    /// Writes the header at the start of `out` and returns its length.
    fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let needed = self.emit_len();
        let room = out.len();
        let out = out
            .get_mut(..needed)
            .ok_or(WireError::Buffer { needed, room })?;
        self.fill(out);
        Ok(needed)
    }

    /// Appends the header to `out`.
    fn emit_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.emit_len(), 0);
        self.fill(&mut out[start..]);
    }

    /// The header as new bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.emit_len());
        self.emit_to(&mut out);
        out
    }
}
