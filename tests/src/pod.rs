//! A pod's network namespace, before and after a plugin wired it.

use std::fs::{self, File};
use std::ops::Deref;

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::Place;

/// A network namespace bound at `/run/netns/<name>` of its node. Dereferences to its [`Place`].
pub struct Pod {
    place: Place,
    name: String,
}

impl Pod {
    pub(crate) fn new(node: &Place, name: &str) -> Result<Pod> {
        let path = bound_at(name);
        let place = node.sibling(|| {
            File::create_new(&path).with_context(|| format!("making {path}"))?;
            let own = Some("/proc/thread-self/ns/net");
            mount(own, path.as_str(), None::<&str>, MsFlags::MS_BIND, None::<&str>)
                .with_context(|| format!("binding the namespace at {path}"))
        })?;
        Ok(Pod { place, name: name.into() })
    }

    /// Its name, which the lab also uses as the container ID.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a runtime passes as CNI_NETNS.
    pub fn netns(&self) -> String {
        bound_at(&self.name)
    }

    /// Ends the namespace as a crash would: its interfaces go with it and CNI_NETNS names nothing any more.
    pub fn destroy(self) -> Result<()> {
        let path = self.netns();
        self.place.run_in(|| {
            umount2(path.as_str(), MntFlags::MNT_DETACH).with_context(|| format!("unmounting {path}"))?;
            fs::remove_file(&path).with_context(|| format!("removing {path}"))
        })
    }
}

impl Deref for Pod {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

fn bound_at(name: &str) -> String {
    format!("/run/netns/{name}")
}
