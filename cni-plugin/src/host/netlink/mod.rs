//! rtnetlink in one namespace, as blocking calls.

mod address;
mod filter;
mod link;
mod route;

use std::{io, rc::Rc};

use futures_util::{Stream, TryStreamExt};
use rtnetlink::{Error, Handle};
use tokio::runtime::Runtime;

pub use self::link::{Link, Veth};
use super::error::HostError;

/// A connection to the namespace the thread was in when it was made.
pub struct Netlink {
    runtime: Rc<Runtime>,
    handle: Handle,
}

impl Netlink {
    /// Connects in this thread's present namespace.
    pub fn connect(runtime: Rc<Runtime>) -> io::Result<Self> {
        let guard = runtime.enter();
        let (connection, handle, _) = rtnetlink::new_connection()?;
        runtime.spawn(connection);
        drop(guard);
        Ok(Self { runtime, handle })
    }

    fn run<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.runtime.block_on(request)
    }

    fn all<T>(&self, request: impl Stream<Item = Result<T, Error>>) -> Result<Vec<T>, Error> {
        self.runtime.block_on(request.try_collect())
    }
}

/// True for an answer with this errno.
fn is(error: &Error, errno: i32) -> bool {
    matches!(error, Error::NetlinkError(message) if message.to_io().raw_os_error() == Some(errno))
}

fn failed(action: &'static str, object: impl ToString, error: Error) -> HostError {
    let source = match error {
        Error::NetlinkError(message) => message.to_io(),
        other => io::Error::other(other),
    };
    HostError::new(action, object, source)
}
