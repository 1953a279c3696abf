//! Replays every kept input of every target, without libFuzzer.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use ebpf_bridge_fuzz::{TARGETS, run};

/// An input that takes longer hangs; the slowest takes milliseconds, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);

macro_rules! replay {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_replayed() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

replay! { config environment result record lease packet }

fn replay(name: &'static str) {
    let inputs = corpus(name);
    assert!(!inputs.is_empty(), "no inputs of {name} are kept");
    for path in &inputs {
        let input = fs::read(path).expect("a kept input");
        let (done, outcome) = mpsc::channel();
        let running = thread::spawn(move || {
            run(name, &input);
            // Nobody listens any more if it took too long.
            let _ = done.send(());
        });
        match outcome.recv_timeout(PATIENCE) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => panic!("{} hangs", path.display()),
            Err(RecvTimeoutError::Disconnected) => {
                assert!(running.join().is_ok(), "{} fails, see above", path.display());
            }
        }
    }
    println!("replayed {} inputs of {name}", inputs.len());
}

fn corpus(name: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = fs::read_dir(&directory).expect("a directory of kept inputs");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}
