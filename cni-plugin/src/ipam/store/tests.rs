use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path().join("n1"));
    (dir, store)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Bytes and modes as a run of the reference host-local 1.1.1 left them.
#[test]
fn files_are_the_references() {
    let (_dir, store) = store();
    let locked = store.lock().unwrap();
    assert!(locked.reserve(ip("10.1.0.2"), 0, &Owner::new("c1", "eth0")).unwrap());
    assert!(locked.reserve(ip("fd00::2"), 1, &Owner::new("c1", "eth0")).unwrap());
    assert_eq!(fs::read(store.dir.join("10.1.0.2")).unwrap(), b"c1\r\neth0");
    assert_eq!(fs::read(store.dir.join("fd00::2")).unwrap(), b"c1\r\neth0");
    assert_eq!(fs::read(store.dir.join("last_reserved_ip.0")).unwrap(), b"10.1.0.2");
    assert_eq!(fs::read(store.dir.join("last_reserved_ip.1")).unwrap(), b"fd00::2");
    assert_eq!(mode(&store.dir), 0o755);
    assert_eq!(mode(&store.dir.join("10.1.0.2")), 0o644);
    assert_eq!(mode(&store.dir.join("lock")), 0o750);
    assert_eq!(fs::read_dir(&store.dir).unwrap().count(), 5);
    assert_eq!(locked.last(1), Some(ip("fd00::2")));
}

#[test]
fn a_shorter_address_replaces_a_longer_one_as_the_last() {
    let (_dir, store) = store();
    let locked = store.lock().unwrap();
    for address in ["10.1.0.200", "10.1.0.2"] {
        locked.reserve(ip(address), 0, &Owner::new("c1", "eth0")).unwrap();
        assert_eq!(fs::read_to_string(store.dir.join("last_reserved_ip.0")).unwrap(), address);
    }
}

#[test]
fn a_lease_is_given_once() {
    let (_dir, store) = store();
    let locked = store.lock().unwrap();
    assert!(locked.reserve(ip("10.1.0.2"), 0, &Owner::new("c1", "eth0")).unwrap());
    assert!(!locked.reserve(ip("10.1.0.2"), 0, &Owner::new("c2", "eth0")).unwrap());
    assert_eq!(locked.owner_of(ip("10.1.0.2")).unwrap(), Some(Owner::new("c1", "eth0")));
}

/// The reference, killed between creating and writing a lease, loses the address for ever.
#[test]
fn an_empty_lease_is_free() {
    let (_dir, store) = store();
    let locked = store.lock().unwrap();
    fs::write(store.dir.join("10.1.0.2"), "").unwrap();
    assert!(store.leased().unwrap().is_empty());
    assert!(locked.reserve(ip("10.1.0.2"), 0, &Owner::new("c1", "eth0")).unwrap());
    assert_eq!(fs::read(store.dir.join("10.1.0.2")).unwrap(), b"c1\r\neth0");
}

/// Killed between naming a lease and removing its draft, we leave both; they are one file.
#[test]
fn a_draft_left_behind_does_not_harm_the_lease_it_became() {
    let (_dir, store) = store();
    let locked = store.lock().unwrap();
    locked.reserve(ip("10.1.0.2"), 0, &Owner::new("c1", "eth0")).unwrap();
    fs::hard_link(store.dir.join("10.1.0.2"), store.dir.join(DRAFT)).unwrap();
    assert!(locked.reserve(ip("10.1.0.3"), 0, &Owner::new("c2", "eth0")).unwrap());
    assert_eq!(fs::read(store.dir.join("10.1.0.2")).unwrap(), b"c1\r\neth0");
}

#[test]
fn the_directory_goes_with_the_last_lease_and_not_before() {
    let (dir, store) = store();
    let locked = store.lock().unwrap();
    locked.reserve(ip("10.1.0.2"), 0, &Owner::new("c1", "eth0")).unwrap();
    locked.tidy().unwrap();
    assert!(store.dir.join("lock").exists());
    locked.remove(ip("10.1.0.2")).unwrap();
    fs::write(store.dir.join("10.1.0.3"), "").unwrap();
    fs::write(store.dir.join("notes"), "mine").unwrap();
    locked.tidy().unwrap();
    assert!(store.dir.join("notes").exists(), "a file that is not ours keeps the directory");
    fs::remove_file(store.dir.join("notes")).unwrap();
    locked.tidy().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(store.lock_existing().unwrap().is_none());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// The directory comes and goes all the time, and still no two threads hold its lock at once.
#[test]
fn the_lock_excludes_while_the_directory_comes_and_goes() {
    let (_dir, store) = store();
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..300 {
                    let locked = store.lock().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    assert!(locked.reserve(ip("10.1.0.2"), 0, &Owner::new("c", "eth0")).unwrap());
                    locked.remove(ip("10.1.0.2")).unwrap();
                    // Tidying ends what the lock protects.
                    inside.fetch_sub(1, Ordering::SeqCst);
                    locked.tidy().unwrap();
                }
            });
        }
    });
    assert!(!store.dir.exists());
}

#[test]
fn the_lock_dies_with_its_process() {
    let (_dir, store) = store();
    drop(store.lock().unwrap());
    let mut holder = Command::new("flock")
        .arg(store.dir.join("lock"))
        .args(["sh", "-c", "echo; exec sleep 60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The line says that the lock is held.
    io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| store.lock().unwrap());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiter.is_finished(), "the lock was taken while another process held it");
        // flock(1) passes the open file to its command, so the whole process group has to go.
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        for pid in fs::read_to_string(children).unwrap().split_whitespace() {
            nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(pid.parse().unwrap()),
                nix::sys::signal::SIGKILL,
            )
            .unwrap();
        }
        holder.kill().unwrap();
        waiter.join().unwrap();
    });
    holder.wait().unwrap();
}
