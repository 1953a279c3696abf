//! The log: to a file or to stderr, every line with the id of its call.

use std::{
    fs::OpenOptions,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    process,
    sync::OnceLock,
    time::{SystemTime, UNIX_EPOCH},
};

use env_logger::{Builder, Target};

use crate::{cni::request::Environment, config::LogConfig, verbs::VerbError};

/// The id of this call: time and process, in hexadecimal. It is in the log and in the error the runtime shows.
pub fn call_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        format!("{:08x}-{:x}", time as u32, process::id())
    })
}

/// Starts logging for a call.
///
/// # Errors
/// [`VerbError::Log`] if the file cannot be opened.
pub fn start(config: &LogConfig, environment: &Environment) -> Result<(), VerbError> {
    let target = match &config.file {
        None => Target::Stderr,
        Some(path) => {
            let mut options = OpenOptions::new();
            let file = options.create(true).append(true).mode(0o600).open(path);
            Target::Pipe(Box::new(file.map_err(|source| VerbError::Log { path: path.clone(), source })?))
        }
    };
    let verb = environment.verb.name();
    let who = environment
        .attachment
        .as_ref()
        .map_or_else(String::new, |attachment| format!(" {}/{}", attachment.container_id, attachment.ifname));
    let trace = environment.trace.as_ref().map_or_else(String::new, |trace| format!(" trace {trace}"));
    let started = Builder::new()
        .filter_level(config.level)
        .target(target)
        .format(move |out, record| {
            let now = out.timestamp_millis();
            // One write per line, so that the lines of calls that share the file do not mix.
            writeln!(out, "{now} {} {} {verb}{who}{trace}: {}", record.level(), call_id(), record.args())
        })
        .try_init();
    // A second start in one process happens only in tests.
    drop(started);
    Ok(())
}
