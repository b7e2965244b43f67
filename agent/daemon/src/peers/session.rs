//! One link: what is said and heard until it ends.

use std::{collections::BTreeMap, io, time::Duration};

use kedge_control::peer::Record;
use kedge_core::vip::Vrid;
use kedge_host::peer::Stream;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, WriteHalf, split},
    sync::{mpsc, oneshot},
    time::timeout,
};

/// What this host wants to say.
#[derive(Debug)]
pub(super) enum Say {
    /// The other is to be the next.
    Succeed {
        vrid: Vrid,
        ipv6: bool,
        done: oneshot::Sender<Result<(), String>>,
    },
    /// The answer to what the other asked.
    Answer {
        question: u32,
        refused: Option<String>,
    },
    /// This link ends.
    Close(String),
}

/// What the other host said.
#[derive(Debug)]
pub(crate) enum Said {
    /// Who it is.
    Hello(String),
    /// It wants this host to be the next.
    Succeed {
        question: u32,
        vrid: Vrid,
        ipv6: bool,
    },
}

/// How a link ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Whether it broke without a word, as when a process dies.
    pub broke: bool,
    /// Why, as a sentence.
    pub because: String,
}

/// Talks until the link ends.
pub(super) async fn talk(
    stream: Stream,
    host: &str,
    mut say: mpsc::Receiver<Say>,
    mut hear: impl FnMut(Said),
) -> End {
    let (mut from, mut to) = split(stream);
    let hello = Record::Hello {
        host: host.to_owned(),
    };
    if let Err(end) = send(&mut to, &hello).await {
        return end;
    }
    let (mut arrived, mut asked, mut questions) = (Vec::new(), BTreeMap::new(), 0_u32);
    loop {
        tokio::select! {
            // What is read before this is dropped stays in `arrived`.
            read = from.read_buf(&mut arrived) => match read {
                Ok(0) => return broke("it ended"),
                Ok(_) => {}
                Err(error) => return failed(&error),
            },
            wish = say.recv() => {
                let record = match wish {
                    Some(Say::Succeed { vrid, ipv6, done }) => {
                        questions = questions.wrapping_add(1);
                        asked.insert(questions, done);
                        Record::Succeed { question: questions, vrid, ipv6 }
                    }
                    Some(Say::Answer { question, refused }) => Record::Answer { question, refused },
                    Some(Say::Close(because)) => return close(&mut to, because).await,
                    None => return close(&mut to, "it is not needed".to_owned()).await,
                };
                if let Err(end) = send(&mut to, &record).await {
                    return end;
                }
                continue;
            }
        }
        loop {
            match Record::take(&mut arrived) {
                Ok(None) => break,
                Ok(Some(Record::Hello { host })) => hear(Said::Hello(host)),
                Ok(Some(Record::Succeed {
                    question,
                    vrid,
                    ipv6,
                })) => hear(Said::Succeed {
                    question,
                    vrid,
                    ipv6,
                }),
                Ok(Some(Record::Answer { question, refused })) => {
                    if let Some(done) = asked.remove(&question) {
                        // Whoever asked may have left.
                        let _ = done.send(refused.map_or(Ok(()), Err));
                    }
                }
                Ok(Some(Record::Closing { because })) => {
                    return End {
                        broke: false,
                        because: format!("the other end closed it: {because}"),
                    };
                }
                Ok(Some(Record::Unknown)) => {}
                Err(error) => {
                    return End {
                        broke: false,
                        because: format!("the other end sent {error}"),
                    };
                }
            }
        }
    }
}

async fn send(to: &mut WriteHalf<Stream>, record: &Record) -> Result<(), End> {
    let bytes = record.emit();
    let sending = async {
        to.write_all(&bytes).await?;
        to.flush().await
    };
    match timeout(PATIENCE, sending).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(failed(&error)),
        Err(_) => Err(End {
            broke: false,
            because: format!("the other end took nothing for {PATIENCE:?}"),
        }),
    }
}

/// Says so, and ends it.
async fn close(to: &mut WriteHalf<Stream>, because: String) -> End {
    let word = Record::Closing {
        because: because.clone(),
    };
    if let Err(end) = send(to, &word).await {
        return end;
    }
    // It has been said: how the rest goes makes no difference.
    let _ = timeout(PATIENCE, to.shutdown()).await;
    End {
        broke: false,
        because,
    }
}

fn failed(error: &io::Error) -> End {
    match error.kind() {
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe => broke(&error.to_string()),
        _ => End {
            broke: false,
            because: error.to_string(),
        },
    }
}

fn broke(because: &str) -> End {
    End {
        broke: true,
        because: because.to_owned(),
    }
}

const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use kedge_host::peer::Bond;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn linked() -> [Stream; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let bond = Bond::new(&[7; 32]).unwrap();
        let call = async { bond.connect(TcpStream::connect(at).await?).await };
        let answer = async { bond.accept(listener.accept().await?.0).await };
        let (call, answer) = tokio::join!(call, answer);
        [call.unwrap(), answer.unwrap()]
    }

    #[tokio::test]
    async fn a_question_is_answered_by_the_other_end() {
        let [a, b] = linked().await;
        let (say_a, wishes_a) = mpsc::channel(4);
        let (say_b, wishes_b) = mpsc::channel(4);
        let answers = say_b.clone();
        let b = tokio::spawn(talk(b, "b", wishes_b, move |said| {
            if let Said::Succeed { question, vrid, .. } = said {
                let refused = (vrid.get() != 51).then(|| "not mine".to_owned());
                answers.try_send(Say::Answer { question, refused }).unwrap();
            }
        }));
        let (named, mut names) = mpsc::channel(4);
        let a = tokio::spawn(talk(a, "a", wishes_a, move |said| {
            if let Said::Hello(host) = said {
                named.try_send(host).unwrap();
            }
        }));
        assert_eq!(names.recv().await.as_deref(), Some("b"));
        for (vrid, expected) in [(51, Ok(())), (52, Err("not mine".to_owned()))] {
            let (done, answer) = oneshot::channel();
            let vrid = Vrid::new(vrid).unwrap();
            let ask = Say::Succeed {
                vrid,
                ipv6: false,
                done,
            };
            say_a.send(ask).await.unwrap();
            assert_eq!(answer.await.unwrap(), expected);
        }
        say_a.send(Say::Close("enough".to_owned())).await.unwrap();
        assert!(!a.await.unwrap().broke);
        let end = b.await.unwrap();
        assert_eq!(
            (end.broke, end.because.as_str()),
            (false, "the other end closed it: enough")
        );
    }

    #[tokio::test]
    async fn an_end_without_a_word_is_a_process_that_died() {
        let [a, b] = linked().await;
        // As the kernel closes it for one that was killed: TLS says nothing.
        drop(a);
        let (_say, wishes) = mpsc::channel(1);
        assert!(talk(b, "b", wishes, |_| {}).await.broke);
    }

    #[tokio::test]
    async fn what_makes_no_sense_ends_it_and_proves_nothing() {
        let [mut a, b] = linked().await;
        a.write_all(&[0xff; 8]).await.unwrap();
        a.flush().await.unwrap();
        let (_say, wishes) = mpsc::channel(1);
        let end = talk(b, "b", wishes, |_| {}).await;
        assert!(!end.broke, "{end:?}");
    }
}
