//! A repository of packages for apt, on a host of the LAN.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::Instant,
};

use kedge_tests_netns::lan::Host;
use sha2::{Digest as _, Sha256};

/// It is there until the test ends.
#[derive(Debug)]
pub struct Repository {
    url: String,
    asked: Arc<Mutex<Vec<(String, Instant)>>>,
}

impl Repository {
    /// Serves this package on a host.
    #[must_use]
    pub fn serve(host: &Host, deb: &Path) -> Self {
        let folder = host.directory().join("repository");
        fs::create_dir(&folder).unwrap();
        let name = deb.file_name().unwrap().to_str().unwrap();
        fs::copy(deb, folder.join(name)).unwrap();
        let content = fs::read(deb).unwrap();
        let control = Command::new("dpkg-deb")
            .arg("--field")
            .arg(deb)
            .output()
            .unwrap();
        let mut packages = String::from_utf8(control.stdout).unwrap();
        let (size, sum) = (content.len(), Sha256::digest(&content));
        write!(
            packages,
            "Filename: ./{name}\nSize: {size}\nSHA256: {sum:x}\n"
        )
        .unwrap();
        let (size, sum) = (packages.len(), Sha256::digest(&packages));
        let release = format!("Suite: test\nSHA256:\n {sum:x} {size} Packages\n");
        fs::write(folder.join("Packages"), packages).unwrap();
        fs::write(folder.join("Release"), release).unwrap();
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
