//! Debian's archive, read with lists of our own: packages are downloaded and unpacked below the cache, and the
//! machine's own packages stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::release::Release;
use crate::debian;
use crate::fault::Fault;
use crate::process::{self, Captured, which};
use crate::workspace::Workspace;

/// The keys of all Debian releases, where the package debian-archive-keyring puts them.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The archive the machine's own sources name, with the suites the kernels are in.
pub(super) struct Archive {
    dir: PathBuf,
}

impl Archive {
    /// Reads the lists.
    pub(super) fn open(workspace: &Workspace) -> Result<Archive> {
        let archive = Archive { dir: workspace.cache.join("apt") };
        if which("apt-get").is_none() {
            let sentence = "the kernels are Debian's, and there is no apt-get to fetch them";
            return Err(Fault::new(sentence, "run it on a Debian machine").into());
        }
        for dir in ["state/lists/partial", "cache/archives/partial"] {
            let dir = archive.dir.join(dir);
            fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        }
        fs::write(archive.dir.join("sources.list"), sources()?).context("cannot write the sources")?;
        println!("reading the lists of Debian's archive");
        Captured::of(archive.apt("apt-get").args(["-qq", "update"]))?.success()?;
        Ok(archive)
    }

    /// A package of `suite` and all that it needs of the same version, itself first: the parts of one source.
    pub(super) fn parts(&self, package: &str, suite: &str) -> Result<Vec<String>> {
        let version = self.version(package, suite)?;
        let mut parts = vec![package.to_owned()];
        let mut next = 0;
        while let Some(part) = parts.get(next) {
            let shown = format!("{part}={version}");
            let shown = Captured::of(self.apt("apt-cache").args(["show", &shown]))?.success()?.stdout;
            let depends = shown.lines().find_map(|line| line.strip_prefix("Depends: ")).unwrap_or_default();
            for same in depends.split(", ").filter_map(|one| one.strip_suffix(&format!(" (= {version})"))) {
                if !parts.iter().any(|part| part == same) {
                    parts.push(same.to_owned());
                }
            }
            next += 1;
        }
        Ok(parts.into_iter().map(|part| format!("{part}={version}")).collect())
    }

    fn version(&self, package: &str, suite: &str) -> Result<String> {
        let listed = Captured::of(self.apt("apt-cache").args(["madison", package]))?.success()?.stdout;
        let inside = format!(" {suite}/");
        let line = listed.lines().find(|line| line.contains(&inside));
        let version = line.and_then(|line| line.split('|').nth(1));
        Ok(version.with_context(|| format!("Debian's {suite} has no {package}"))?.trim().to_owned())
    }

    /// Downloads packages and unpacks them as `root`, which appears when it is complete.
    pub(super) fn unpack(&self, packages: &[String], root: &Path) -> Result<()> {
        println!("downloading {}", packages.join(" "));
        let mut download = self.apt("apt-get");
        download.args(["-qq", "download"]).args(packages);
        unpack(&mut download, root)
    }

    /// The same with all that the package needs to run, down to the C library.
    pub(super) fn unpack_program(&self, package: &str, root: &Path) -> Result<()> {
        println!("downloading {package}, which is not on this machine, with its libraries");
        let mut download = self.apt("apt-get");
        download.args(["-qq", "--yes", "--no-install-recommends"]);
        unpack(download.args(["--download-only", "install", package]), root)
    }

    /// A program of apt that knows our lists and no installed package.
    fn apt(&self, program: &str) -> Command {
        let mut command = process::clean(program);
        for (option, path) in [
            ("Dir::Etc::sourcelist", self.dir.join("sources.list")),
            ("Dir::Etc::sourceparts", "/dev/null".into()),
            ("Dir::State", self.dir.join("state")),
            ("Dir::State::status", "/dev/null".into()),
            ("Dir::Cache", self.dir.join("cache")),
        ] {
            command.arg("-o").arg(format!("{option}={}", path.display()));
        }
        // What is downloaded is ours: no other user has to read it.
        command.args(["-o", "APT::Sandbox::User=root"]).env("LC_ALL", "C");
        command
    }
}

/// Unpacks the packages that `download` leaves in its working directory.
fn unpack(download: &mut Command, root: &Path) -> Result<()> {
    let new = root.with_extension("new");
    if new.exists() {
        fs::remove_dir_all(&new).with_context(|| format!("cannot remove {}", new.display()))?;
    }
    let debs = new.join("debs");
    let partial = debs.join("partial");
    fs::create_dir_all(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
    // `apt-get download` leaves packages in the working directory, `install --download-only` there.
    download.arg("-o").arg(format!("Dir::Cache::archives={}", debs.display()));
    Captured::of(download.current_dir(&debs))?.success()?;
    for file in fs::read_dir(&debs).context("cannot list what was downloaded")? {
        let file = file?.path();
        if file.extension() == Some("deb".as_ref()) {
            let mut unpack = process::clean("dpkg-deb");
            Captured::of(unpack.arg("--extract").arg(file).arg(&new))?.success()?;
        }
    }
    fs::remove_dir_all(&debs).context("cannot remove what was unpacked")?;
    if root.exists() {
        fs::remove_dir_all(root).with_context(|| format!("cannot remove {}", root.display()))?;
    }
    fs::rename(&new, root).with_context(|| format!("cannot make {}", root.display()))
}

/// A list with the suites of the kernels, at the address of the machine's own Debian source.
fn sources() -> Result<String> {
    let mut targets = process::clean("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main"]);
    targets.args(["Origin: Debian", "Label: Debian"]);
    let mut said = Captured::of(&mut targets)?.success()?.stdout;
    if said.is_empty() && debian::refusal().is_none() {
        // apt tells whose a source is when it has read its lists.
        debian::update()?;
        said = Captured::of(&mut targets)?.success()?.stdout;
    }
    let Some(address) = said.lines().next() else {
        let sentence = "the kernels are Debian's, and no source of apt's here is its archive";
        return Err(Fault::new(sentence, "apt-get update, on a Debian machine").into());
    };
    let keys = if Path::new(KEYS).is_file() { format!("[signed-by={KEYS}] ") } else { String::new() };
    Ok(Release::ALL.map(|release| format!("deb {keys}{address} {} main\n", release.suite)).concat())
}
