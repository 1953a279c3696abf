//! Benches are used again: making one takes the kernel longer than all that a test does with it.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use ebpf_bridge_lab::bpf::Bench;

use super::CONFIG;

static FREE: Mutex<Vec<Bench>> = Mutex::new(Vec::new());

/// A bench for one test, with [`CONFIG`] and nothing learned; its notes go on from those of the test before.
pub(super) struct Borrowed(Option<Bench>);

/// Takes a free bench, or makes one.
pub(super) fn bench() -> Result<Borrowed> {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut bench = free.map_or_else(Bench::new, Ok)?;
    bench.configure(CONFIG)?;
    bench.forget()?;
    Ok(Borrowed(Some(bench)))
}

impl Deref for Borrowed {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        self.0.as_ref().expect("there until dropped")
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut Bench {
        self.0.as_mut().expect("there until dropped")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).extend(self.0.take());
    }
}
