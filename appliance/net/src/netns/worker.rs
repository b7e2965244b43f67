//! A thread that lives in a namespace.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    process::{Child, Command},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
};

use super::{Namespace, NetnsError, die_with_parent};

type Job = Box<dyn FnOnce() + Send>;

/// One thread inside a namespace: it opens the sockets and spawns the processes, and lives as
/// long as the lab.
///
/// Jobs run one after another. Children are spawned here and not on passing threads because the
/// parent-death signal is sent when the spawning *thread* ends.
#[derive(Debug)]
pub struct Worker {
    name: String,
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread inside the namespace.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn start(namespace: &Namespace) -> Result<Self, NetnsError> {
        let name = namespace.name().to_owned();
        // The handle of the thread's own: the namespace may go while the thread still works.
        let inside = Namespace::open(&name)?;
        let (jobs, queue) = sync_channel(JOBS);
        let (entered, answer) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                let result = inside.enter();
                let enter = result.is_ok();
                drop(inside);
                _ = entered.send(result);
                if enter {
                    serve(&queue);
                }
            })
            .map_err(|source| NetnsError::Enter {
                name: name.clone(),
                source,
            })?;
        answer
            .recv()
            .map_err(|_| NetnsError::WorkerGone(name.clone()))??;
        Ok(Self {
            name,
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// The namespace's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a job inside the namespace and waits for it. A panic of the job goes on in the caller.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn run<T, F>(&self, job: F) -> Result<T, NetnsError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let gone = || NetnsError::WorkerGone(self.name.clone());
        let (result, answer) = sync_channel(1);
        let job = Box::new(move || _ = result.send(catch_unwind(AssertUnwindSafe(job))));
        self.jobs
            .as_ref()
            .ok_or_else(gone)?
            .send(job)
            .map_err(|_| gone())?;
        Ok(answer
            .recv()
            .map_err(|_| gone())?
            .unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Spawns a process inside the namespace that is killed when this worker ends, for whatever
    /// reason.
    ///
    /// # Errors
    /// When the thread has ended; the inner error is what `spawn` said.
    pub fn spawn(&self, mut command: Command) -> Result<io::Result<Child>, NetnsError> {
        die_with_parent(&mut command);
        self.run(move || command.spawn())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn serve(queue: &Receiver<Job>) {
    while let Ok(job) = queue.recv() {
        job();
    }
}

/// Callers wait for their job, so the queue holds at most one per calling thread.
const JOBS: usize = 16;
