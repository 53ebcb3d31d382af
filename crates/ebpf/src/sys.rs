//! bpf(2) where aya 0.14 has no call for it: the device behind a tcx link, replacing a link's program
//! by one that another process loaded (the way back of a failed apply), and map entries as bytes.
//!
//! The only unsafe code of the crate. Structs are prefixes of `union bpf_attr` (linux/bpf.h); the kernel
//! takes a shorter attribute than it knows and reads zeros for the rest.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const MAP_GET_NEXT_KEY: libc::c_int = 4;
const OBJ_PIN: libc::c_int = 6;
const OBJ_GET: libc::c_int = 7;
const PROG_TEST_RUN: libc::c_int = 10;
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const PROG_QUERY: libc::c_int = 16;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BTF_GET_FD_BY_ID: libc::c_int = 19;
const MAP_LOOKUP_BATCH: libc::c_int = 24;
const LINK_CREATE: libc::c_int = 28;
const LINK_UPDATE: libc::c_int = 29;

/// `BPF_TCX_INGRESS` of `enum bpf_attach_type`.
const TCX_INGRESS: u32 = 46;
/// `BPF_LINK_TYPE_TCX` of `enum bpf_link_type`.
const LINK_TYPE_TCX: u32 = 11;

/// Where pins live; the magic number of that file system is in linux/magic.h.
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// What a map is; two maps with the same layout can stand in for each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layout {
    /// `enum bpf_map_type`.
    pub kind: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value (of one CPU).
    pub value_size: u32,
    /// Capacity.
    pub max_entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
}

/// An open map. Its layout came from the kernel, so buffers can be checked against it.
#[derive(Debug)]
pub(crate) struct RawMap {
    fd: OwnedFd,
    pub(crate) layout: Layout,
    /// Bytes of a value as user space sees it: of all CPUs for a per-CPU map.
    pub(crate) stride: usize,
    pub(crate) types: MapTypes,
}

/// Where the kernel has the types of a map's keys and values: the number of its BTF, 0: it has none, and numbers of types
/// in there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MapTypes {
    pub(crate) btf: u32,
    pub(crate) key: u32,
    pub(crate) value: u32,
}

/// What the kernel says about a tcx link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkInfo {
    /// The kernel's number of the link.
    pub id: u32,
    /// The attached program.
    pub program_id: u32,
    /// The device; none when it is gone.
    pub ifindex: Option<u32>,
}

#[repr(C)]
struct ElemAttr {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct TestRunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

#[repr(C)]
struct ObjAttr {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}

#[repr(C)]
struct IdAttr {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

#[repr(C)]
struct InfoAttr {
    fd: u32,
    len: u32,
    info: u64,
}

#[repr(C)]
struct LinkCreateAttr {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    pad: u32,
    expected_revision: u64,
}

#[repr(C)]
struct QueryAttr {
    target_ifindex: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    program_ids: u64,
    count: u32,
    pad: u32,
    program_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

#[repr(C)]
struct LinkUpdateAttr {
    link_fd: u32,
    new_prog_fd: u32,
    flags: u32,
    old_prog_fd: u32,
}

/// Start of `struct bpf_map_info`.
#[repr(C)]
#[derive(Default)]
struct MapInfo {
    kind: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    name: [u8; 16],
    not_asked: [u32; 2],
    nor_that: [u64; 2],
    btf: u32,
    key_type: u32,
    value_type: u32,
    pad: u32,
}

/// Start of `struct bpf_btf_info`.
#[repr(C)]
#[derive(Default)]
struct BtfInfo {
    bytes: u64,
    size: u32,
    id: u32,
}

/// `struct bpf_prog_info` up to the number of verified instructions.
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    jited_len: u32,
    xlated_len: u32,
    not_asked: [u64; 5],
    name: [u8; 16],
    nor_that: [u64; 17],
    verified_insns: u32,
    pad: u32,
}

/// A program at a tcx ingress hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hooked {
    /// The program.
    pub program_id: u32,
    /// The link that holds it there; 0: it is attached without one.
    pub link_id: u32,
}

/// How large a loaded program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramSize {
    /// Instructions the verifier went through.
    pub verified_instructions: u32,
    /// Bytes of eBPF instructions.
    pub translated_bytes: u32,
    /// Bytes of machine code; 0: not compiled.
    pub jited_bytes: u32,
}

/// Start of `struct bpf_link_info`, with the tcx member of its union.
#[repr(C)]
#[derive(Default)]
struct TcxLinkInfo {
    kind: u32,
    id: u32,
    program_id: u32,
    pad: u32,
    ifindex: u32,
    attach_type: u32,
}

impl RawMap {
    pub(crate) fn new(fd: OwnedFd, cpus: usize) -> io::Result<Self> {
        let mut info = MapInfo::default();
        object_info(&fd, &mut info)?;
        let per_cpu = matches!(
            info.kind,
            KIND_PERCPU_HASH | KIND_PERCPU_ARRAY | KIND_LRU_PERCPU_HASH
        );
        let value = info.value_size as usize;
        let stride = if per_cpu {
            value.next_multiple_of(8) * cpus
        } else {
            value
        };
        let layout = Layout {
            kind: info.kind,
            key_size: info.key_size,
            value_size: info.value_size,
            max_entries: info.max_entries,
            flags: match info.kind {
                // The kernel sets it itself: programs do not write there.
                KIND_DEVMAP_HASH => info.flags & !MAP_READ_ONLY_FOR_PROGRAMS,
                _ => info.flags,
            },
        };
        let types = MapTypes {
            btf: info.btf,
            key: info.key_type,
            value: info.value_type,
        };
        Ok(Self {
            fd,
            layout,
            stride,
            types,
        })
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The value of `key`, if there is one.
    pub(crate) fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.stride];
        self.check(key, &value)?;
        let mut attr = self.elem(key);
        attr.value = value.as_mut_ptr() as u64;
        // SAFETY: `check` made sure that key and value have the lengths the kernel reads and writes.
        match unsafe { bpf(MAP_LOOKUP_ELEM, &mut attr) } {
            Ok(_) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes one entry, whether it was there or not.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        const ANY: u64 = 0;
        self.update(key, value, ANY)
    }

    /// Writes an entry that is there; it is no error when there is none any more.
    pub(crate) fn replace(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        const EXIST: u64 = 2;
        match self.update(key, value, EXIST) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }

    fn update(&self, key: &[u8], value: &[u8], flags: u64) -> io::Result<()> {
        self.check(key, value)?;
        let mut attr = self.elem(key);
        attr.value = value.as_ptr() as u64;
        attr.flags = flags;
        // SAFETY: `check` made sure that key and value have the lengths the kernel reads.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut attr) }.map(drop)
    }

    /// Deletes one entry; it is no error when there was none.
    pub(crate) fn delete(&self, key: &[u8]) -> io::Result<()> {
        self.check_key(key)?;
        let mut attr = self.elem(key);
        // SAFETY: `check_key` made sure that the key has the length the kernel reads.
        match unsafe { bpf(MAP_DELETE_ELEM, &mut attr) } {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }

    /// All values of an array, in the order of their index, in one call.
    pub(crate) fn array(&self) -> io::Result<Vec<u8>> {
        let entries = self.layout.max_entries as usize;
        let mut keys = vec![0u8; entries * self.layout.key_size as usize];
        let mut values = vec![0u8; entries * self.stride];
        let mut next = [0u8; 8];
        let mut attr = BatchAttr {
            in_batch: 0,
            out_batch: next.as_mut_ptr() as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: self.layout.max_entries,
            map_fd: raw(&self.fd),
            elem_flags: 0,
            flags: 0,
        };
        // SAFETY: the buffers have room for `count` keys and values; `next` for a key of an array, 4 bytes.
        match unsafe { bpf(MAP_LOOKUP_BATCH, &mut attr) } {
            // ENOENT: the end was reached, which the kernel says besides having copied all.
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ if attr.count == self.layout.max_entries => Ok(values),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Shows all entries, many with each call. Of a hash map that changes meanwhile, an entry that comes or goes
    /// may be missed; none is seen twice.
    pub(crate) fn walk(&self, mut each: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
        const FIRST_ROOM: u32 = 256;
        let (key_size, capacity) = (self.layout.key_size as usize, self.layout.max_entries);
        let mut room = FIRST_ROOM.min(capacity);
        // The kernel's bookmark: of a hash map the number of a bucket, else a key.
        let mut bookmark: Option<Vec<u8>> = None;
        loop {
            let mut keys = vec![0u8; room as usize * key_size];
            let mut values = vec![0u8; room as usize * self.stride];
            let mut next = vec![0u8; key_size.max(size_of::<u64>())];
            let mut attr = BatchAttr {
                in_batch: bookmark.as_ref().map_or(0, |mark| mark.as_ptr() as u64),
                out_batch: next.as_mut_ptr() as u64,
                keys: keys.as_mut_ptr() as u64,
                values: values.as_mut_ptr() as u64,
                count: room,
                map_fd: raw(&self.fd),
                elem_flags: 0,
                flags: 0,
            };
            // SAFETY: the buffers have room for `count` keys and values, both bookmarks for a key or a bucket.
            let is_over = match unsafe { bpf(MAP_LOOKUP_BATCH, &mut attr) } {
                // One bucket has more than that.
                Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && room < capacity => {
                    room = room.saturating_mul(2).min(capacity);
                    continue;
                }
                Err(error) if error.raw_os_error() != Some(libc::ENOENT) => return Err(error),
                outcome => outcome.is_err() || attr.count == 0,
            };
            let entries = keys.chunks(key_size).zip(values.chunks(self.stride));
            for (key, value) in entries.take(attr.count as usize) {
                each(key, value);
            }
            if is_over {
                return Ok(());
            }
            bookmark = Some(next);
        }
    }

    /// All keys, one with each call: for maps that the kernel does not show in batches. One that comes or goes meanwhile
    /// may be missed.
    pub(crate) fn keys(&self) -> io::Result<BTreeSet<Vec<u8>>> {
        let mut keys = BTreeSet::new();
        let (mut last, mut again): (Option<Vec<u8>>, u32) = (None, 0);
        // The kernel begins anew where the last key has gone meanwhile.
        while again < self.layout.max_entries {
            let mut next = vec![0u8; self.layout.key_size as usize];
            let mut attr = self.elem(last.as_deref().unwrap_or_default());
            if last.is_none() {
                attr.key = 0;
            }
            attr.value = next.as_mut_ptr() as u64;
            // SAFETY: both keys have the length of a key of this map, or the first is null.
            match unsafe { bpf(MAP_GET_NEXT_KEY, &mut attr) } {
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(keys),
                other => other.map(drop)?,
            }
            again += u32::from(!keys.insert(next.clone()));
            last = Some(next);
        }
        Ok(keys)
    }

    fn elem(&self, key: &[u8]) -> ElemAttr {
        ElemAttr {
            map_fd: raw(&self.fd),
            pad: 0,
            key: key.as_ptr() as u64,
            value: 0,
            flags: 0,
        }
    }

    fn check(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.check_key(key)?;
        if value.len() == self.stride {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    }

    fn check_key(&self, key: &[u8]) -> io::Result<()> {
        if key.len() == self.layout.key_size as usize {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    }
}

pub(crate) const KIND_PERCPU_HASH: u32 = 5;
pub(crate) const KIND_PERCPU_ARRAY: u32 = 6;
const KIND_LRU_PERCPU_HASH: u32 = 10;
const KIND_DEVMAP_HASH: u32 = 25;
/// `BPF_F_RDONLY_PROG`.
const MAP_READ_ONLY_FOR_PROGRAMS: u32 = 1 << 7;

/// Opens a pinned object.
pub(crate) fn pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attr = ObjAttr {
        pathname: path.as_ptr() as u64,
        bpf_fd: 0,
        file_flags: 0,
    };
    // SAFETY: the path is a nul-terminated string that outlives the call; the answer is a new descriptor.
    unsafe { bpf(OBJ_GET, &mut attr).map(|fd| owned(fd)) }
}

/// Pins an object.
pub(crate) fn pin(fd: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attr = ObjAttr {
        pathname: path.as_ptr() as u64,
        bpf_fd: fd.as_raw_fd() as u32,
        file_flags: 0,
    };
    // SAFETY: the path is a nul-terminated string that outlives the call.
    unsafe { bpf(OBJ_PIN, &mut attr) }.map(drop)
}

/// The types that the kernel has under a number of its own, as BTF (Documentation/bpf/btf.rst).
pub(crate) fn btf_by_id(id: u32) -> io::Result<Vec<u8>> {
    let mut attr = IdAttr {
        id,
        next_id: 0,
        open_flags: 0,
    };
    // SAFETY: no pointers; the answer is a new descriptor.
    let fd = unsafe { bpf(BTF_GET_FD_BY_ID, &mut attr).map(|fd| owned(fd)) }?;
    // What a number stands for never changes, and so its size does not.
    let mut size = BtfInfo::default();
    object_info(&fd, &mut size)?;
    let mut bytes = vec![0u8; size.size as usize];
    let mut info = BtfInfo {
        bytes: bytes.as_mut_ptr() as u64,
        size: size.size,
        id: 0,
    };
    // The kernel writes at most `size` bytes there.
    object_info(&fd, &mut info)?;
    Ok(bytes)
}

/// Opens a loaded program by its id.
pub(crate) fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    let mut attr = IdAttr {
        id,
        next_id: 0,
        open_flags: 0,
    };
    // SAFETY: no pointers; the answer is a new descriptor.
    unsafe { bpf(PROG_GET_FD_BY_ID, &mut attr).map(|fd| owned(fd)) }
}

/// The id of a loaded program.
pub(crate) fn program_id(fd: &OwnedFd) -> io::Result<u32> {
    let mut info = ProgramInfo::default();
    object_info(fd, &mut info)?;
    Ok(info.id)
}

/// The name of a loaded program, up to 15 bytes.
pub(crate) fn program_name(fd: &OwnedFd) -> io::Result<String> {
    let mut info = ProgramInfo::default();
    object_info(fd, &mut info)?;
    let name = info
        .name
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// How large a loaded program is.
pub(crate) fn program_size(fd: &OwnedFd) -> io::Result<ProgramSize> {
    let mut info = ProgramInfo::default();
    object_info(fd, &mut info)?;
    Ok(ProgramSize {
        verified_instructions: info.verified_insns,
        translated_bytes: info.xlated_len,
        jited_bytes: info.jited_len,
    })
}

/// Nanoseconds that one run of a program on a packet took, by the kernel's clock.
pub(crate) fn test_run_ns(program: &OwnedFd, data: &[u8]) -> io::Result<u32> {
    let mut attr = TestRunAttr {
        prog_fd: raw(program),
        data_size_in: data.len() as u32,
        data_in: data.as_ptr() as u64,
        repeat: 1,
        ..TestRunAttr::default()
    };
    // SAFETY: the kernel reads `data_size_in` bytes and writes none.
    unsafe { bpf(PROG_TEST_RUN, &mut attr) }?;
    Ok(attr.duration)
}

/// Runs a program once on a packet, which is on no device; returns what the program returned, and what it made
/// of the bytes.
pub(crate) fn test_run(program: &OwnedFd, data: &[u8], room: usize) -> io::Result<(i32, Vec<u8>)> {
    let mut out = vec![0u8; room];
    let mut attr = TestRunAttr {
        prog_fd: raw(program),
        data_size_in: data.len() as u32,
        data_size_out: out.len() as u32,
        data_in: data.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        repeat: 1,
        ..TestRunAttr::default()
    };
    // SAFETY: the kernel reads `data_size_in` bytes and writes at most `data_size_out`.
    unsafe { bpf(PROG_TEST_RUN, &mut attr) }?;
    out.truncate(attr.data_size_out as usize);
    Ok((attr.retval as i32, out))
}

/// This thread runs on one CPU from now on.
pub(crate) fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    // SAFETY: all zeros is a set of no CPU.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a CPU that the set has no bit for is left out.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the kernel reads the set.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Attaches a program to the tcx ingress hook of a device in the namespace of this thread, last in line.
pub(crate) fn tcx_attach(program: BorrowedFd<'_>, ifindex: u32) -> io::Result<OwnedFd> {
    let mut attr = LinkCreateAttr {
        prog_fd: program.as_raw_fd() as u32,
        target_ifindex: ifindex,
        attach_type: TCX_INGRESS,
        flags: 0,
        relative: 0,
        pad: 0,
        expected_revision: 0,
    };
    // SAFETY: no pointers; the answer is a new descriptor.
    unsafe { bpf(LINK_CREATE, &mut attr).map(|fd| owned(fd)) }
}

/// The programs at the tcx ingress hook of a device in the namespace of this thread, in the order in which they run.
pub(crate) fn tcx_query(ifindex: u32) -> io::Result<Vec<Hooked>> {
    /// `BPF_MPROG_MAX` of kernel/bpf/mprog.c.
    const MOST: usize = 64;
    let (mut programs, mut links) = ([0u32; MOST], [0u32; MOST]);
    let mut attr = QueryAttr {
        target_ifindex: ifindex,
        attach_type: TCX_INGRESS,
        query_flags: 0,
        attach_flags: 0,
        program_ids: programs.as_mut_ptr() as u64,
        count: MOST as u32,
        pad: 0,
        program_attach_flags: 0,
        link_ids: links.as_mut_ptr() as u64,
        link_attach_flags: 0,
        revision: 0,
    };
    // SAFETY: both arrays have room for `count` numbers.
    unsafe { bpf(PROG_QUERY, &mut attr) }?;
    let found = programs.into_iter().zip(links);
    let found = found.map(|(program_id, link_id)| Hooked {
        program_id,
        link_id,
    });
    Ok(found.take(attr.count as usize).collect())
}

/// Swaps the program of a link; no packet sees none.
pub(crate) fn link_update(link: &OwnedFd, program: BorrowedFd<'_>) -> io::Result<()> {
    let mut attr = LinkUpdateAttr {
        link_fd: raw(link),
        new_prog_fd: program.as_raw_fd() as u32,
        flags: 0,
        old_prog_fd: 0,
    };
    // SAFETY: no pointers.
    unsafe { bpf(LINK_UPDATE, &mut attr) }.map(drop)
}

/// What is behind a link descriptor; none when it is no tcx link.
pub(crate) fn link_info(link: &OwnedFd) -> io::Result<Option<LinkInfo>> {
    let mut info = TcxLinkInfo::default();
    object_info(link, &mut info)?;
    if info.kind != LINK_TYPE_TCX {
        return Ok(None);
    }
    let ifindex = (info.ifindex != 0 && info.attach_type == TCX_INGRESS).then_some(info.ifindex);
    Ok(Some(LinkInfo {
        id: info.id,
        program_id: info.program_id,
        ifindex,
    }))
}

/// Whether `path` lies on a BPF file system.
pub(crate) fn is_bpffs(path: &Path) -> io::Result<bool> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: statfs is plain data; all zeros is a value of it.
    let mut fs: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a nul-terminated path and a buffer of the right type.
    if unsafe { libc::statfs(path.as_ptr(), &raw mut fs) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fs.f_type as i64 == BPF_FS_MAGIC)
}

/// Returns when no program runs any more that ran at the call (`synchronize_rcu`, kernel/sched/membarrier.c).
pub(crate) fn wait_for_programs() -> io::Result<()> {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: no pointers.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `T`: the start of the kernel's info struct of that kind of object, plain integers only; what they point to has as many
/// bytes as they say.
fn object_info<T>(fd: &OwnedFd, info: &mut T) -> io::Result<()> {
    let mut attr = InfoAttr {
        fd: raw(fd),
        len: size_of_val(info) as u32,
        info: std::ptr::from_mut(info) as u64,
    };
    // SAFETY: the kernel writes at most `len` bytes of integers into `info`.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attr) }.map(drop)
}

fn raw(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd() as u32
}

/// # Safety
/// `fd` must be a descriptor that nothing else owns.
unsafe fn owned(fd: i64) -> OwnedFd {
    // SAFETY: as promised by the caller.
    unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) }
}

/// # Safety
/// `A` must be the attribute of `command`, and its pointers must be valid for what the command reads and writes.
unsafe fn bpf<A>(command: libc::c_int, attr: &mut A) -> io::Result<i64> {
    // SAFETY: as promised by the caller; the size is that of the attribute.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attr),
            size_of::<A>(),
        )
    };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}
