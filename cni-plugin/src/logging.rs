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

/// The text on one line: what comes from outside must not write lines of its own into the log, nor move the cursor
/// of whoever reads it.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
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
            let text = one_line(&record.args().to_string());
            writeln!(out, "{now} {} {} {verb}{who}{trace}: {text}", record.level(), call_id())
        })
        .try_init();
    // A second start in one process happens only in tests.
    drop(started);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one() {
        assert_eq!(one_line("a\nb\u{1b}[2Jä"), "a\\nb\\u{1b}[2Jä");
    }
}
