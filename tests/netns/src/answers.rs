//! A backend: each connection is told who answers, and then its own words again.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{Arc, Mutex},
    thread,
};

use crate::{lan::Host, secs};

/// A backend that listens.
#[derive(Clone, Debug)]
pub struct Answers {
    /// The first bytes of each connection, where they are asked for.
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Answers {
    /// Listens on a port of every address of a host, and answers with a line: its name. `first` is how
    /// many bytes it reads before.
    #[must_use]
    pub fn start(host: &Host, port: u16, name: &str, first: usize) -> Self {
        let listener = host.run(move || TcpListener::bind(("0.0.0.0", port)).unwrap());
        let heard = Arc::default();
        let line = format!("{name}\n");
        let told = Arc::clone(&heard);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (line, told) = (line.clone(), Arc::clone(&told));
                thread::spawn(move || serve(stream.unwrap(), &line, first, &told));
            }
        });
        Self { heard }
    }

    /// The first bytes of the newest connection that sent as many as are read.
    #[must_use]
    pub fn heard(&self) -> Option<Vec<u8>> {
        self.heard.lock().unwrap().last().cloned()
    }
}

/// Answers every datagram to a port of every address of a host with a name, from now on.
///
/// # Panics
///
/// When the port is taken.
pub fn datagrams(host: &Host, port: u16, name: &str) {
    let socket = host.run(move || UdpSocket::bind(("0.0.0.0", port)).unwrap());
    let name = name.to_owned();
    thread::spawn(move || {
        let mut room = [0; 64];
        while let Ok((_, from)) = socket.recv_from(&mut room) {
            // Whoever is gone meanwhile is not told.
            let _ = socket.send_to(name.as_bytes(), from);
        }
    });
}

fn serve(mut stream: TcpStream, line: &str, first: usize, heard: &Mutex<Vec<Vec<u8>>>) {
    let mut bytes = vec![0; first];
    if stream.read_exact(&mut bytes).is_err() {
        return;
    }
    heard.lock().unwrap().push(bytes);
    // Whoever is gone meanwhile is not told.
    let _ = stream.write_all(line.as_bytes());
    let mut word = [0; 64];
    while let Ok(length @ 1..) = stream.read(&mut word) {
        if stream.write_all(&word[..length]).is_err() {
            return;
        }
    }
}

/// A connection of a client.
#[derive(Debug)]
pub struct Asked {
    stream: TcpStream,
    /// Who answers.
    pub name: String,
}

/// Connects from a host, says something, and waits for who answers; `None` if nobody does.
#[must_use]
pub fn ask(client: &Host, address: IpAddr, port: u16, words: &[u8]) -> Option<Asked> {
    let at = SocketAddr::new(address, port);
    let stream = client.run(move || TcpStream::connect_timeout(&at, secs(1)).ok())?;
    asked(stream, words)
}

/// The same over a connection that is there.
#[must_use]
pub fn asked(mut stream: TcpStream, words: &[u8]) -> Option<Asked> {
    stream.set_read_timeout(Some(secs(2))).unwrap();
    stream.write_all(words).ok()?;
    let mut name = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).ok()? == 1 {
        if byte == *b"\n" {
            let name = String::from_utf8(name).ok()?;
            return Some(Asked { stream, name });
        }
        name.push(byte[0]);
    }
    None
}

impl Asked {
    /// Whether what is said comes back.
    pub fn lives(&mut self) -> bool {
        let mut back = [0; 4];
        let said = self.stream.write_all(b"well");
        said.and_then(|()| self.stream.read_exact(&mut back))
            .is_ok()
            && back == *b"well"
    }
}
