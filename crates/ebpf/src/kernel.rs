//! What the programs read of the kernel's own structures (`bpf/lib/kernel.h`): where the kernel has their members, by
//! its BTF, and the number of the one kernel function that they call.

use aya::Btf;
use aya_obj::btf::BtfKind;

/// `call bpf_cast_to_kern_ctx`, as the compiler leaves it: what stands for the number is the last word.
const CALL: [u8; 8] = [0x85, 0x20, 0, 0, 0x7c, 0x7c, 0xa5, 0x7c];
const CALLED: &str = "bpf_cast_to_kern_ctx";
/// `r0 = 0`, for programs that do not come to the call.
const NO_CALL: [u8; 8] = [0xb7, 0, 0, 0, 0, 0, 0, 0];

/// The kernel that runs.
#[derive(Debug)]
pub(crate) struct Kernel {
    types: Btf,
    cast: u32,
}

impl Kernel {
    /// None: the kernel does not show its types (`CONFIG_DEBUG_INFO_BTF`), or this system does not (no sysfs).
    pub(crate) fn look() -> Option<Self> {
        let types = Btf::from_sys_fs().ok()?;
        let cast = types.id_by_type_name_kind(CALLED, BtfKind::Func).ok()?;
        Some(Self { types, cast })
    }

    pub(crate) const fn types(&self) -> &Btf {
        &self.types
    }

    fn call(&self) -> [u8; 8] {
        let mut call = CALL;
        call[4..].copy_from_slice(&self.cast.to_ne_bytes());
        call
    }
}

/// The object file for this kernel; without one, for programs that look at none.
pub(crate) fn fit(object: &[u8], kernel: Option<&Kernel>) -> Vec<u8> {
    let call = kernel.map_or(NO_CALL, Kernel::call);
    let mut fitted = object.to_vec();
    // Instructions are as long as their alignment.
    for instruction in fitted.chunks_exact_mut(CALL.len()) {
        if instruction == CALL {
            instruction.copy_from_slice(&call);
        }
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataPath;

    #[test]
    fn no_call_is_left_without_its_number() {
        let object = DataPath::embedded_bytes();
        let calls = |bytes: &[u8]| bytes.chunks_exact(8).filter(|it| *it == CALL).count();
        let asked = calls(object);
        assert!(asked > 0);
        let fitted = fit(object, None);
        assert_eq!((calls(&fitted), fitted.len()), (0, object.len()));
        let differs = object.chunks_exact(8).zip(fitted.chunks_exact(8));
        assert_eq!(differs.filter(|(a, b)| a != b).count(), asked);
    }
}
