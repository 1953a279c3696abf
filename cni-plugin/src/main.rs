//! A CNI plugin when `CNI_COMMAND` is set, the operator's tool otherwise.

use std::{
    env,
    io::{self, Read, Write},
    panic,
    process::{self, ExitCode},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use ebpf_bridge::{
    capture::Capture,
    cli,
    cni::{
        error::{CniError, Code},
        version,
    },
    logging, verbs,
};
use serde_json::Value;

/// Set by whoever is about to answer: there must be one document and no second.
static ANSWERED: AtomicBool = AtomicBool::new(false);
/// The protocol version of the request, once it is known.
static VERSION: OnceLock<String> = OnceLock::new();

fn main() -> ExitCode {
    if env::var_os("CNI_COMMAND").is_some() { plugin() } else { cli::run(env::args_os()) }
}

/// Serves one CNI call: the answer, and nothing else, goes to stdout.
fn plugin() -> ExitCode {
    answer_for_panics();
    let mut stdin = Vec::new();
    let mut capture = Ok(None);
    let answer = match io::stdin().read_to_end(&mut stdin) {
        Ok(_) => {
            VERSION.get_or_init(|| verbs::requested_version(&stdin));
            capture = Capture::begin(&stdin);
            verbs::serve(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()), &stdin)
        }
        Err(error) => Err(failure(Code::Io, format!("standard input cannot be read: {error}"))),
    };
    let succeeded = answer.is_ok();
    let document = answer.unwrap_or_else(|error| serde_json::to_value(error).ok());
    let kept = capture.and_then(|call| call.map_or(Ok(()), |call| call.end(document.as_ref(), succeeded)));
    if let Err(error) = kept {
        log::warn!("{error}");
    }
    match print(document.as_ref()) {
        Ok(()) if succeeded => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// A panic is a defect of ours, but the runtime is to get its one document all the same. What was done by then is
/// for the DEL that follows a failed ADD.
fn answer_for_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        usual(panic);
        if !ANSWERED.load(Ordering::SeqCst) {
            let error = failure(Code::Internal, format!("a defect of ebpf-bridge: {panic}"));
            // There is nobody left to tell.
            let _ = print(serde_json::to_value(error).ok().as_ref());
        }
        process::exit(1);
    }));
}

fn failure(code: Code, msg: String) -> CniError {
    CniError {
        cni_version: VERSION.get().map_or(version::NEWEST, String::as_str).to_owned(),
        code: code as u32,
        msg,
        details: format!("call {}", logging::call_id()),
    }
}

fn print(document: Option<&Value>) -> io::Result<()> {
    ANSWERED.store(true, Ordering::SeqCst);
    let Some(document) = document else { return Ok(()) };
    // In one piece: standard output would pass on line by line, and wake the reader for each.
    let mut text = serde_json::to_vec_pretty(document)?;
    text.push(b'\n');
    io::stdout().lock().write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set in the process that panics, which is this test once more.
    const PANIC: &str = "EBPF_BRIDGE_TEST_PANIC";

    #[test]
    fn a_panic_is_answered_with_one_error_document() {
        if env::var_os(PANIC).is_some() {
            answer_for_panics();
            VERSION.get_or_init(|| "0.4.0".to_owned());
            panic!("on purpose");
        }
        let name = "tests::a_panic_is_answered_with_one_error_document";
        let mut child = process::Command::new(env::current_exe().unwrap());
        let output = child.args(["--exact", name, "--nocapture"]).env(PANIC, "1").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let stdout = String::from_utf8(output.stdout).unwrap();
        // The test runner's own words come before.
        let ours = &stdout[stdout.find('{').unwrap()..];
        let documents: Vec<Value> =
            serde_json::Deserializer::from_str(ours).into_iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(documents.len(), 1, "{stdout}");
        assert_eq!(documents[0]["cniVersion"], "0.4.0");
        assert_eq!(documents[0]["code"], Code::Internal as u32);
        assert!(documents[0]["msg"].as_str().unwrap().contains("on purpose"), "{stdout}");
    }
}
