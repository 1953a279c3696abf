//! A small responder of HTTP/1.1 (RFC 9112): one request for each connection, GET and HEAD, one page.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};

use super::exposition::MEDIA_TYPE;

/// For a whole request or answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections served at a time; further ones are closed at once.
const CONNECTIONS: usize = 16;
/// The longest request, bytes.
const REQUEST: usize = 8 << 10;

/// Serves `page` until SIGTERM or SIGINT. Both are waited for: the first process of a container has no default for them.
pub(super) fn listen<P>(address: SocketAddr, page: P) -> anyhow::Result<()>
where
    P: Fn() -> anyhow::Result<String> + Send + Sync + 'static,
{
    let listener = TcpListener::bind(address);
    let listener = listener.with_context(|| format!("--listen is {address}: cannot listen there"))?;
    let ends: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    // Before there are threads, which inherit it.
    ends.thread_block().context("cannot block signals")?;
    thread::spawn(move || accept(&listener, &Arc::new(page)));
    ends.wait().context("cannot wait for signals")?;
    Ok(())
}

fn accept<P>(listener: &TcpListener, page: &Arc<P>)
where
    P: Fn() -> anyhow::Result<String> + Send + Sync + 'static,
{
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, most likely; they come back.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (page, open) = (page.clone(), open.clone());
        thread::spawn(move || {
            // Whoever hangs up early misses the answer, and nobody else does.
            let _ = serve(stream, page.as_ref());
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn serve(mut stream: TcpStream, page: impl Fn() -> anyhow::Result<String>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (answer, head_only) = match request(&mut stream)? {
        Some((method, path)) => (answer(&method, &path, page), method == "HEAD"),
        None => (Answer::text("400 Bad Request", "not a request of HTTP/1.1\n"), false),
    };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.status,
        answer.media_type,
        answer.body.len()
    );
    stream.write_all(head.as_bytes())?;
    if !head_only {
        stream.write_all(answer.body.as_bytes())?;
    }
    Ok(())
}

/// Method and path of a request; `None` for what is none. Its body, if it has one, is not read.
fn request(stream: &mut TcpStream) -> io::Result<Option<(String, String)>> {
    let end = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    while bytes.len() < REQUEST {
        let left = end.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut chunk = [0; 1024];
        let count = stream.read(&mut chunk)?;
        bytes.extend_from_slice(&chunk[..count]);
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(_)) => {
                return Ok(request.method.zip(request.path).map(|(m, p)| (m.to_owned(), p.to_owned())));
            }
            Ok(httparse::Status::Partial) if count > 0 && left > Duration::ZERO => {}
            _ => return Ok(None),
        }
    }
    Ok(None)
}

struct Answer {
    status: &'static str,
    media_type: &'static str,
    body: String,
}

impl Answer {
    fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self { status, media_type: "text/plain; charset=utf-8", body: body.into() }
    }
}

fn answer(method: &str, path: &str, page: impl Fn() -> anyhow::Result<String>) -> Answer {
    match (method, path.split('?').next().unwrap_or_default()) {
        ("GET" | "HEAD", "/metrics") => match page() {
            Ok(body) => Answer { status: "200 OK", media_type: MEDIA_TYPE, body },
            Err(error) => Answer::text("500 Internal Server Error", format!("{error:#}\n")),
        },
        ("GET" | "HEAD", "/") => Answer::text("200 OK", "ebpf-bridge: the metrics are at /metrics\n"),
        ("GET" | "HEAD", _) => Answer::text("404 Not Found", "the metrics are at /metrics\n"),
        _ => Answer::text("405 Method Not Allowed", "only GET and HEAD\n"),
    }
}
