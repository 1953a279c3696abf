//! One boot: what the suite said in it, whatever became of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::qemu::Qemu;
use super::release::Kernel;

/// A guest that says nothing for so long hangs. Emulated, on a busy machine, a test may take a minute.
const PATIENCE: Duration = Duration::from_secs(240);
/// What the guest prints last.
const END: &str = "exit code ";

/// What is booted.
pub(super) struct Guest<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) cpu: &'a str,
    pub(super) initramfs: &'a Path,
}

/// What came of it.
pub(super) struct Outcome {
    /// The suite's lines, without colours and line ends.
    pub(super) lines: Vec<String>,
    /// Why there are not all of them; nothing if the suite ran to its end.
    pub(super) fault: Option<String>,
    /// From the start of qemu to its end.
    pub(super) took: Duration,
}

impl Guest<'_> {
    /// Boots it, repeats what the suite says, and waits until it is off.
    pub(super) fn run(&self, qemu: &Qemu, logs: &Path) -> Result<Outcome> {
        let file = |name: &str| logs.join(format!("{}.{name}", self.kernel.version));
        let (console, report) = (file("console.log"), file("report.log"));
        for file in [&console, &report] {
            fs::write(file, "").with_context(|| format!("cannot write {}", file.display()))?;
        }
        let started = Instant::now();
        let mut command = qemu.boots(self, &console, &report);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut running = Running(command.spawn().context("cannot run qemu")?);
        let hung = running.watch(&report)?;
        let lines = read(&report)?;
        let code = lines.last().and_then(|line| line.strip_prefix(END));
        let fault = match (hung, code) {
            (true, _) => Some(format!("killed: it said nothing for {} s", PATIENCE.as_secs())),
            // 101: tests failed, and are counted.
            (false, Some("0" | "101")) => None,
            (false, Some(code)) => Some(format!("the suite ended with exit code {code}")),
            (false, None) => Some("the kernel ended before the suite".to_owned()),
        };
        let fault = fault.map(|what| {
            let last = lines.last().map_or("nothing", String::as_str);
            format!("{what}; last heard: {last:?}; its console is in {}", console.display())
        });
        Ok(Outcome { lines, fault, took: started.elapsed() })
    }
}

/// A virtual machine that is gone when the value is.
struct Running(Child);

impl Running {
    /// Prints the report as it grows until the machine is off. True if it had to be killed.
    fn watch(&mut self, report: &PathBuf) -> Result<bool> {
        let (mut shown, mut heard) = (0, Instant::now());
        loop {
            let off = self.0.try_wait().context("cannot wait for qemu")?.is_some();
            let text = fs::read(report).with_context(|| format!("cannot read {}", report.display()))?;
            let complete = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            if complete > shown {
                print!("{}", String::from_utf8_lossy(&text[shown..complete]).replace('\r', ""));
                (shown, heard) = (complete, Instant::now());
            }
            if off {
                return Ok(false);
            }
            if heard.elapsed() > PATIENCE {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read(report: &Path) -> Result<Vec<String>> {
    let text = fs::read(report).with_context(|| format!("cannot read {}", report.display()))?;
    Ok(String::from_utf8_lossy(&text).lines().map(|line| line.trim_end().to_owned()).collect())
}
