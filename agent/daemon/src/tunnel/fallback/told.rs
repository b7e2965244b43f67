//! What people are told of the ways to gateways.

use std::time::{Duration, SystemTime};

use kedge_control::local;
use kedge_core::{Code, Fix, Instant, Problem};
use kedge_host::wall;
use kedge_net::clock;
use kedge_tunnel_proto::fallback::Way;
use tracing::warn;

use super::{Fallbacks, One};
use crate::config::Endpoint;

/// The path to a gateway in a word.
pub(in crate::tunnel) fn path(fallback: Option<&local::Fallback>) -> String {
    fallback.map_or_else(|| "udp".to_owned(), |it| it.path.clone())
}

impl Fallbacks {
    /// The fallback that is in force for a gateway, as people see it.
    pub fn view(&self, name: &str) -> Option<local::Fallback> {
        let one = self.ways.get(name)?;
        let (way, _, since) = one.machine.way();
        let now = clock::now();
        let silence = one.machine.silence(now).unwrap_or_default();
        one.is_in_force().then(|| local::Fallback {
            path: match way {
                Way::Tls => "tls".to_owned(),
                Way::Other | Way::Udp => format!("udp/{}", port(one.other())),
            },
            endpoint: match way {
                Way::Tls => one.tls(),
                Way::Other | Way::Udp => one.other(),
            }
            .to_owned(),
            udp_endpoint: one.udp().to_owned(),
            because: one.because(silence),
            since: wall::rfc3339(SystemTime::now() - now.since(since)),
            udp_silent_seconds: silence.as_secs_f64().round(),
            code: Code::TunFallback.to_string(),
        })
    }
}

impl One {
    fn udp(&self) -> &str {
        text(self.at.udp.as_ref())
    }

    pub(super) fn other(&self) -> &str {
        text(self.at.other.as_ref())
    }

    pub(super) fn tls(&self) -> &str {
        text(self.at.tls.as_ref())
    }

    /// Whether another way than the usual one is in use, and works.
    fn is_in_force(&self) -> bool {
        match self.machine.way().0 {
            Way::Udp => false,
            Way::Other => self.machine.is_proven(),
            Way::Tls => true,
        }
    }

    pub(super) fn tell_other(&self, gateway: &str) {
        let silence = self.machine.silence(clock::now()).unwrap_or_default();
        warn!(
            KEDGE_CODE = %Code::TunFallback,
            gateway, from = self.udp(), to = self.other(), because = self.because(silence),
            "FALLBACK: the tunnel goes by another UDP port"
        );
    }

    fn because(&self, silence: Duration) -> String {
        if self.machine.is_answered_over_udp() {
            return "UDP answers again: it is come back to when it goes on".to_owned();
        }
        let port = port(self.udp());
        format!("UDP/{port} got no answer for {}", spelled(silence))
    }

    pub(super) fn problem(&self, now: Instant, name: &str) -> Option<Problem> {
        let silence = self.machine.silence(now)?;
        let udp = self.udp();
        let object = format!("tunnels/{name}");
        let evidence = self.because(silence);
        if self.machine.way().0 == Way::Other && self.is_in_force() {
            return Some(
                Problem::warning(
                    Code::TunFallback,
                    format!("{name} is reached by another UDP port than its usual one"),
                )
                .object(object)
                .evidence(evidence)
                .evidence(format!("in use: {}", self.other()))
                .consequence("the tunnel works as ever; it returns to the usual port by itself")
                .fix(
                    Fix::text(format!("let UDP to {udp} pass, and its answers"))
                        .command("kedge net check"),
                ),
            );
        }
        if self.machine.way().0 == Way::Tls {
            return Some(
                Problem::warning(
                    Code::TunFallback,
                    format!("{name} is reached over TLS, because UDP does not pass"),
                )
                .object(object)
                .evidence(evidence)
                .evidence(format!("in use: {} over TLS", self.tls()))
                .consequence(
                    "the tunnel works, with less throughput and more delay; it returns to UDP by itself",
                )
                .fix(
                    Fix::text(format!("let UDP to {udp} pass, and its answers"))
                        .command("kedge net check"),
                ),
            );
        }
        let failure = self.failure.as_ref()?;
        Some(
            Problem::warning(
                Code::TunNoTls,
                format!("{name} is reached neither over UDP nor over TLS"),
            )
            .object(object)
            .evidence(evidence)
            .evidence(format!("TLS to {}: {failure}", self.tls()))
            .consequence("nothing goes through this gateway; both are tried again and again")
            .fix(
                Fix::text(format!("let UDP to {udp} or TCP to {} pass", self.tls()))
                    .command("kedge net check"),
            ),
        )
    }
}

/// What is told of a gateway whose other ways the data plane cannot use.
pub(super) fn unsupported(name: &str, why: &str) -> Problem {
    Problem::warning(
        Code::TunNoTls,
        format!("{name} is not answered over UDP, and no other way can be tried"),
    )
    .object(format!("tunnels/{name}"))
    .evidence(why)
    .consequence("nothing goes through this gateway while UDP does not pass")
    .fix(
        Fix::text("let UDP pass, or have Kedge move the packets: tunnel.data_plane: userspace")
            .command("kedge net check"),
    )
}

fn text(endpoint: Option<&Endpoint>) -> &str {
    endpoint.map_or("?", Endpoint::as_str)
}

fn port(endpoint: &str) -> &str {
    endpoint.rsplit(':').next().unwrap_or_default()
}

/// A time as people say it.
fn spelled(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use kedge_core::Machine as _;
    use kedge_tunnel_proto::fallback::Input;

    use super::{super::Places, *};

    #[test]
    fn times_are_said_as_people_say_them() {
        for (seconds, text) in [
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7_199, "119 min"),
            (21_600, "6 h"),
        ] {
            assert_eq!(spelled(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_silent_gateway_is_told_with_what_became_of_both_ways() {
        let start = Instant::ZERO + Duration::from_secs(1_000);
        let after = |seconds| start + Duration::from_secs(seconds);
        let (tls, udp): (Endpoint, Endpoint) = (
            "gw.example:443".parse().unwrap(),
            "gw.example:51820".parse().unwrap(),
        );
        let at = Places {
            udp: Some(udp),
            other: None,
            tls: Some(tls),
        };
        let mut one = One::new(start, at);
        assert_eq!(
            one.problem(after(14), "gw"),
            None,
            "not silent for long enough"
        );
        assert_eq!(
            one.problem(after(20), "gw"),
            None,
            "no call came to nothing yet"
        );
        one.failure = Some("refused".to_owned());
        let told = one.problem(after(20), "gw").unwrap();
        assert_eq!(told.code, Code::TunNoTls);
        let evidence = told.evidence.join("; ");
        assert!(
            evidence.contains("UDP/51820 got no answer for 20 s"),
            "{evidence}"
        );
        assert!(evidence.contains("gw.example:443: refused"), "{evidence}");
        one.machine.handle_timeout(after(20));
        one.give(after(21), Input::Called);
        let told = one.problem(after(30), "gw").unwrap();
        assert_eq!(told.code, Code::TunFallback);
        let said = unsupported("gw", "the kernel cannot");
        assert_eq!((said.code, said.evidence.len()), (Code::TunNoTls, 1));
    }

    #[test]
    fn another_port_is_told_once_it_answers_and_not_before() {
        let start = Instant::ZERO + Duration::from_secs(1_000);
        let after = |seconds| start + Duration::from_secs(seconds);
        let at = Places {
            udp: Some("gw.example:51820".parse().unwrap()),
            other: Some("gw.example:443".parse().unwrap()),
            tls: None,
        };
        let mut one = One::new(start, at);
        one.machine.handle_timeout(after(6));
        assert_eq!(one.machine.way().0, Way::Other);
        assert_eq!(one.problem(after(7), "gw"), None, "it is a try");
        one.give(after(7), Input::Answered(after(7)));
        let told = one.problem(after(30), "gw").unwrap();
        assert_eq!(told.code, Code::TunFallback);
        let expected = ["UDP/51820 got no answer for 30 s", "in use: gw.example:443"];
        assert_eq!(told.evidence, expected);
    }
}
