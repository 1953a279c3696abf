//! Comparisons that say what was compared.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use ebpf_bridge_lab::libcni::PluginError;

/// # Errors
/// If the two differ; the message shows both.
pub(crate) fn equal<T: PartialEq<U> + Debug, U: Debug>(what: &str, got: T, want: U) -> Result<()> {
    ensure!(got == want, "{what}: got {got:?}, expected {want:?}");
    Ok(())
}

/// The plugin's error, where an execution must fail as the specification says.
pub(crate) fn refused<T: Debug>(outcome: Result<T>) -> Result<PluginError> {
    match outcome {
        Ok(answer) => bail!("succeeded, and must not have: {answer:?}"),
        Err(error) => error.downcast::<PluginError>(),
    }
}

/// The code of a CHECK that found something.
const DIFFERS: u32 = 104;

/// # Errors
/// If the error is not that of a CHECK that found something, or lacks one of the words; `{veth}` in them stands for
/// the host's end.
pub(crate) fn differs(error: &PluginError, words: &[&str], veth: &str) -> Result<()> {
    equal("the code", error.code, DIFFERS)?;
    for word in words.iter().map(|word| word.replace("{veth}", veth)) {
        ensure!(error.msg.contains(&word), "the message does not name {word}: {error}");
    }
    Ok(())
}

/// How often something is tried that a machine busy with other things may delay.
const ATTEMPTS: usize = 3;

/// Takes the time of something, anew if it took too long: what is always late fails, what a busy machine delays does
/// not.
///
/// # Errors
/// If it took `limit` or longer each time.
pub(crate) fn within(
    what: &str,
    limit: Duration,
    mut attempt: impl FnMut() -> Result<Duration>,
) -> Result<()> {
    let mut taken = Vec::new();
    for _ in 0..ATTEMPTS {
        taken.push(attempt()?);
        if taken.last().is_some_and(|taken| *taken < limit) {
            return Ok(());
        }
    }
    bail!("{what}: took {taken:?}, each time {limit:?} or longer")
}

/// Asks again and again until `done` says yes.
///
/// # Errors
/// If it has not within `limit`.
pub(crate) fn eventually(what: &str, limit: Duration, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !done()? {
        ensure!(start.elapsed() < limit, "{what}: not within {limit:?}");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
