//! A CNI plugin when `CNI_COMMAND` is set, the operator's tool otherwise.

use std::{
    env,
    io::{self, Read, Write},
    process::ExitCode,
};

use ebpf_bridge::{
    cli,
    cni::{
        error::{CniError, Code},
        version,
    },
    verbs,
};
use serde_json::Value;

fn main() -> ExitCode {
    if env::var_os("CNI_COMMAND").is_some() { plugin() } else { cli::run(env::args_os()) }
}

/// Serves one CNI call: the answer, and nothing else, goes to stdout.
fn plugin() -> ExitCode {
    let mut stdin = Vec::new();
    let answer = match io::stdin().read_to_end(&mut stdin) {
        Ok(_) => {
            verbs::serve(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()), &stdin)
        }
        Err(error) => Err(CniError {
            cni_version: version::NEWEST.to_owned(),
            code: Code::Io as u32,
            msg: format!("standard input cannot be read: {error}"),
            details: String::new(),
        }),
    };
    let (document, code) = match answer {
        Ok(result) => (result, ExitCode::SUCCESS),
        Err(error) => (serde_json::to_value(error).ok(), ExitCode::FAILURE),
    };
    match print(document.as_ref()) {
        Ok(()) => code,
        Err(_) => ExitCode::FAILURE,
    }
}

fn print(document: Option<&Value>) -> io::Result<()> {
    let Some(document) = document else { return Ok(()) };
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, document)?;
    writeln!(out)
}
