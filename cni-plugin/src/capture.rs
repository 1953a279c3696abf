//! `captureDir`: what came in and what went out, of each call, in a directory of its own. `ebpf-bridge replay` runs
//! one again.
//!
//! ```text
//! <captureDir>/<call id>-<verb>/call.json   see [`Call`]
//! <captureDir>/<call id>-<verb>/stdin       the configuration, as it came
//! <captureDir>/<call id>-<verb>/stdout      the answer; missing if the call was killed
//! ```
//!
//! A configuration may hold secrets of an IPAM plugin, so all of it is for the owner alone. The oldest calls make room.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
        process::parent_id,
    },
    path::{Path, PathBuf},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{config, logging};

/// Calls that are kept.
const KEPT: usize = 256;
/// Bytes of standard input that are kept; a larger one is cut off, and said to be.
const MAX_INPUT: usize = 256 << 10;

/// Names of the files of a call.
pub(crate) const CALL: &str = "call.json";
pub(crate) const STDIN: &str = "stdin";
pub(crate) const STDOUT: &str = "stdout";

/// What is known of a call beside its input and output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Call {
    /// The id that is in the log and in the error's details.
    pub(crate) call: String,
    /// Microseconds since the Unix epoch.
    pub(crate) started: u64,
    /// Microseconds; absent if the call did not come to its end.
    pub(crate) took: Option<u64>,
    /// 0 or 1.
    pub(crate) exit_code: Option<u8>,
    /// Only a part of standard input was kept.
    pub(crate) cut: bool,
    /// Who called.
    pub(crate) parent: Parent,
    /// The variables that a plugin reads. Others of the runtime's may be secrets and are none of our business.
    pub(crate) environment: BTreeMap<String, String>,
}

/// The process that called.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Parent {
    pub(crate) pid: u32,
    pub(crate) command: Vec<String>,
}

/// A call that is being captured.
pub struct Capture {
    directory: PathBuf,
    began: Instant,
    call: Call,
}

/// A call cannot be captured. That is no reason for it to fail.
#[derive(Debug, thiserror::Error)]
#[error("captureDir is {}: cannot {action}: {source}", .directory.display())]
pub struct CaptureError {
    directory: PathBuf,
    action: &'static str,
    source: io::Error,
}

impl Capture {
    /// Keeps a call's input, if its configuration asks for it, before anything is done that may go wrong.
    ///
    /// # Errors
    /// If it cannot be kept; the call is to go on all the same.
    pub fn begin(stdin: &[u8]) -> Result<Option<Self>, CaptureError> {
        // What is wrong with the configuration is said later, and such a call is worth keeping, too.
        let Ok(conf) = serde_json::from_slice::<Value>(stdin) else { return Ok(None) };
        let Ok(Some(parent)) = config::capture_dir(conf.get("captureDir").and_then(Value::as_str)) else {
            return Ok(None);
        };
        let call = Call::now(stdin.len() > MAX_INPUT);
        let verb = call.environment.get("CNI_COMMAND").map_or("", String::as_str);
        let letters: String = verb.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        let directory = parent.join(format!("{}-{letters}", call.call));
        let failed = |action| {
            let directory = parent.clone();
            move |source| CaptureError { directory, action, source }
        };
        open(&parent).map_err(failed("use it"))?;
        make_room(&parent).map_err(failed("make room"))?;
        DirBuilder::new().mode(0o700).create(&directory).map_err(failed("make a directory in it"))?;
        let capture = Self { directory, began: Instant::now(), call };
        capture.write(STDIN, &stdin[..stdin.len().min(MAX_INPUT)]).map_err(failed("write to it"))?;
        capture.write_call().map_err(failed("write to it"))?;
        Ok(Some(capture))
    }

    /// Keeps the answer.
    ///
    /// # Errors
    /// If it cannot be kept.
    pub fn end(mut self, document: Option<&Value>, succeeded: bool) -> Result<(), CaptureError> {
        self.call.took = Some(self.began.elapsed().as_micros() as u64);
        self.call.exit_code = Some(u8::from(!succeeded));
        let answer = document.map_or_else(String::new, |document| format!("{document:#}\n"));
        let written = self.write(STDOUT, answer.as_bytes()).and_then(|()| self.write_call());
        written.map_err(|source| CaptureError { directory: self.directory, action: "write to it", source })
    }

    fn write_call(&self) -> io::Result<()> {
        self.write(CALL, format!("{:#}\n", serde_json::to_value(&self.call)?).as_bytes())
    }

    fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new();
        let file = file.write(true).create(true).truncate(true).mode(0o600).open(self.directory.join(name));
        file?.write_all(content)
    }
}

impl Call {
    fn now(cut: bool) -> Self {
        let read = |name: &str| name.starts_with("CNI_") || matches!(name, "PATH" | "TRACEPARENT");
        let variables = env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        });
        Self {
            call: logging::call_id().to_owned(),
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64),
            took: None,
            exit_code: None,
            cut,
            parent: Parent::now(),
            environment: variables.filter(|(name, _)| read(name)).collect(),
        }
    }
}

impl Parent {
    fn now() -> Self {
        let pid = parent_id();
        // proc(5): the words of the command line, each with a zero byte behind it. 0 is a parent outside our PID namespace.
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = line.split(|&byte| byte == 0).filter(|word| !word.is_empty());
        Self { pid, command: words.map(|word| String::from_utf8_lossy(word).into_owned()).collect() }
    }
}

/// Makes the directory if it is missing. One that others may write to could lead us anywhere.
fn open(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let found = fs::metadata(directory)?;
    if found.uid() == nix::unistd::geteuid().as_raw() && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(io::Error::other("it must belong to the plugin's user, and nobody else may write to it"))
}

/// Removes the oldest calls; their names begin with the time. Others may do so at the same time.
fn make_room(directory: &Path) -> io::Result<()> {
    let mut calls: Vec<PathBuf> = calls(directory)?;
    calls.sort();
    let surplus = (calls.len() + 1).saturating_sub(KEPT);
    for oldest in &calls[..surplus.min(calls.len())] {
        match fs::remove_dir_all(oldest) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The directories of the calls that are kept. Whatever else lies there is not ours.
pub(crate) fn calls(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
    Ok(entries.filter(|path| path.join(STDIN).is_file()).collect())
}
