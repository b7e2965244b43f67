//! A web server on a host of the LAN, and what was asked of it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Instant,
};

use kedge_tests_netns::lan::Host;

/// It is there until the test ends.
#[derive(Debug)]
pub struct Web {
    url: String,
    asked: Arc<Mutex<Vec<(String, Instant)>>>,
}

impl Web {
    /// Serves the files of a folder on a host.
    #[must_use]
    pub fn serve(host: &Host, folder: PathBuf) -> Self {
        let listener = host.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (folder, heard) = (folder.clone(), Arc::clone(&heard));
                thread::spawn(move || _ = answer(stream, &folder, &heard));
            }
        });
        let url = format!("http://{}:{PORT}", host.address());
        Self { url, asked }
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How often it was asked for something.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// When a file whose name ends so was first asked for.
    #[must_use]
    pub fn asked_for(&self, end: &str) -> Option<Instant> {
        let asked = self.asked.lock().unwrap();
        let mut found = asked.iter().filter(|(path, _)| path.ends_with(end));
        found.next().map(|(_, at)| *at)
    }
}

/// Answers what a connection asks for, one after the other.
fn answer(
    stream: TcpStream,
    folder: &Path,
    heard: &Mutex<Vec<(String, Instant)>>,
) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    let mut lines = BufReader::new(stream).lines();
    while let Some(request) = lines.next().transpose()? {
        let path = request.split(' ').nth(1).unwrap_or_default();
        heard
            .lock()
            .unwrap()
            .push((path.to_owned(), Instant::now()));
        while lines
            .next()
            .transpose()?
            .is_some_and(|header| !header.is_empty())
        {}
        let name = path.rsplit('/').next().unwrap_or_default();
        let (status, content) = match fs::read(folder.join(name)) {
            Ok(content) => ("200 OK", content),
            Err(_) => ("404 Not Found", Vec::new()),
        };
        let length = content.len();
        write!(out, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n")?;
        out.write_all(&content)?;
    }
    Ok(())
}

const PORT: u16 = 8080;
