//! rtnetlink in one namespace, as blocking calls.

mod address;
mod default_route;
mod filter;
mod link;
mod node_route;
mod route;
mod vlan;

use std::{cell::RefCell, collections::HashMap, io, rc::Rc};

use futures_util::{Stream, StreamExt, TryStreamExt};
use rtnetlink::{
    Error, Handle,
    packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload},
    packet_route::RouteNetlinkMessage,
};
use tokio::runtime::Runtime;

pub use self::default_route::default_route_links;
pub use self::filter::{FilterPlace, Hook};
pub use self::link::{Link, MAX_PORTS, Veth};
use super::error::HostError;

/// A connection to the namespace the thread was in when it was made.
pub struct Netlink {
    runtime: Rc<Runtime>,
    handle: Handle,
    /// Of links that were there when they were last looked up.
    indices: RefCell<HashMap<String, u32>>,
}

impl Netlink {
    /// Connects in this thread's present namespace.
    pub fn connect(runtime: Rc<Runtime>) -> io::Result<Self> {
        let guard = runtime.enter();
        // Strict, so that dumps are filtered by the kernel (NETLINK_GET_STRICT_CHK, 4.20).
        let (connection, handle, _) = rtnetlink::new_connection_with_strict_check()?;
        runtime.spawn(connection);
        drop(guard);
        Ok(Self { runtime, handle, indices: RefCell::default() })
    }

    fn run<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.runtime.block_on(request)
    }

    /// Sends a message that is answered by an acknowledgement only.
    fn send(&self, message: RouteNetlinkMessage, flags: u16) -> Result<(), Error> {
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut answers = self.handle.clone().request(message)?;
        self.runtime.block_on(async {
            while let Some(answer) = answers.next().await {
                if let NetlinkPayload::Error(error) = answer.payload
                    && error.code.is_some()
                {
                    return Err(Error::NetlinkError(error));
                }
            }
            Ok(())
        })
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
