//! The way back. Every change leaves an undo here before the next one is made; on failure they run in
//! reverse. Undos hold what they need open (links, programs, maps), so nothing is gone before the end.

use overlane_net::Netlink;

use crate::HostError;

/// Levers for tests; the default does nothing.
#[doc(hidden)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Testing<'a> {
    /// Fail before this operation (0: the first).
    pub fail_at: Option<usize>,
    /// Die before this operation, as by `kill -9`.
    pub kill_at: Option<usize>,
    /// This device goes before this operation.
    pub lose_at: Option<(usize, &'a str)>,
    /// And another one has its name and its index then.
    pub replace_lost: bool,
    /// The kernel has no room for this thing, in the words of the record.
    pub refused: Option<&'a str>,
    /// Another build of the data path.
    pub object: Option<&'a [u8]>,
}

/// The other end of the device that a test puts in the place of one.
const STRANGER: &str = "ovl-stranger";

type Undo<'a> = Box<dyn FnOnce() -> Result<(), HostError> + 'a>;

/// Undos of what was done so far, and the levers that let a test fail at any operation.
pub(crate) struct Journal<'a> {
    undos: Vec<Undo<'a>>,
    operations: usize,
    testing: Testing<'a>,
}

impl<'a> Journal<'a> {
    pub(crate) fn new(testing: Testing<'a>) -> Self {
        Self {
            undos: Vec::new(),
            operations: 0,
            testing,
        }
    }

    /// Whether a test lets the kernel refuse a thing.
    pub(crate) fn is_refused(&self, thing: &str) -> bool {
        self.testing.refused == Some(thing)
    }

    /// Stands before every operation that changes the machine.
    pub(crate) fn before(&mut self) -> Result<(), HostError> {
        let number = self.operations;
        self.operations += 1;
        if self.testing.kill_at == Some(number) {
            std::process::abort();
        }
        if let Some((_, device)) = self.testing.lose_at.filter(|(at, _)| *at == number) {
            self.lose(device)?;
        }
        if self.testing.fail_at == Some(number) {
            Err(HostError::Injected(number))
        } else {
            Ok(())
        }
    }

    /// Once: on the second try it is gone, or is another one.
    fn lose(&self, device: &str) -> Result<(), HostError> {
        let netlink = Netlink::new()?;
        let index = netlink.link(device).ok().map(|link| link.index);
        let Some(index) = index.filter(|_| netlink.link(STRANGER).is_err()) else {
            return Ok(());
        };
        netlink.delete(device)?;
        if self.testing.replace_lost {
            netlink.add_veth_with_index(device, STRANGER, index)?;
        }
        Ok(())
    }

    /// Registers how to take back what was just done (or is about to be done, if the undo bears it).
    pub(crate) fn push(&mut self, undo: impl FnOnce() -> Result<(), HostError> + 'a) {
        self.undos.push(Box::new(undo));
    }

    /// How many undos there are.
    pub(crate) fn len(&self) -> usize {
        self.undos.len()
    }

    /// Takes back all but so many undos, newest first.
    pub(crate) fn roll_back_to(&mut self, len: usize) -> Result<(), HostError> {
        for undo in self.undos.split_off(len).into_iter().rev() {
            undo()?;
        }
        Ok(())
    }

    /// Everything succeeded: forget the way back.
    pub(crate) fn commit(&mut self) {
        self.undos.clear();
    }

    /// Takes everything back, newest first, and says what resisted together with the cause.
    pub(crate) fn roll_back(&mut self, cause: HostError) -> HostError {
        let mut failures = Vec::new();
        while let Some(undo) = self.undos.pop() {
            if let Err(error) = undo() {
                failures.push(error);
            }
        }
        if failures.is_empty() {
            cause
        } else {
            HostError::RollBack {
                cause: Box::new(cause),
                failures,
            }
        }
    }
}
