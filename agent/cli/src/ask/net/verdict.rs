//! What the steps mean together. No I/O.

use kedge_control::local::{NetState, NetStep, NetTarget};

/// The verdict on the way to a gateway.
pub(super) fn of_gateway(name: &str, endpoint: &str, steps: Vec<NetStep>) -> NetTarget {
    let state = |step: &str| state(&steps, step);
    let reached = state("tcp") == Some(NetState::Ok);
    let over_tls = steps
        .iter()
        .any(|it| it.step == "tls" && it.because.starts_with("the tunnel goes over"));
    let by_other = steps
        .iter()
        .any(|it| it.step == "udp" && it.because.contains("what answers comes by udp/"));
    let port = endpoint.rsplit(':').next().unwrap_or_default();
    let (verdict, because, fix) = match (state("name"), state("route"), state("udp")) {
        (Some(NetState::Failed), ..) => failed(
            "its name has no address",
            "check the name, and this host's resolver (`resolvectl status`)".to_owned(),
        ),
        (_, Some(NetState::Failed), _) => failed(
            "there is no route to it",
            "check this host's addresses and routes (`ip route get`)".to_owned(),
        ),
        (_, _, Some(NetState::Ok)) if state("mtu") == Some(NetState::Warning) => (
            NetState::Warning,
            "the tunnel works, over a way that cuts or drops large packets",
            Some("find the hop that carries so little: `kedge explain KEDGE-TUN-0021`".to_owned()),
        ),
        (_, _, Some(NetState::Ok)) => (NetState::Ok, "the tunnel works", None),
        (_, _, Some(NetState::Warning)) => (
            NetState::Warning,
            "there is a session, and nothing was answered in it",
            Some(format!(
                "if it is a gateway of Kedge, look at `kedge tunnel show {name}` and at its own log"
            )),
        ),
        (_, _, Some(NetState::Failed)) if by_other => (
            NetState::Warning,
            "its usual UDP port is not answered, and the tunnel goes by another one",
            Some(format!(
                "let UDP out to port {port} and its answers in; the tunnel returns by itself"
            )),
        ),
        (_, _, Some(NetState::Failed)) if over_tls => (
            NetState::Warning,
            "UDP is not answered, and the tunnel goes over TLS",
            Some(format!(
                "let UDP out to port {port} and its answers in: TLS is slower; the tunnel returns by \
                 itself"
            )),
        ),
        (_, _, Some(NetState::Failed)) if reached => failed(
            "its host is reached by TCP, and UDP is not answered",
            format!(
                "let UDP out to port {port} and its answers in; and see that the gateway runs and \
                 knows this host's key (`kedge tunnel list` on both)"
            ),
        ),
        (_, _, Some(NetState::Failed)) => failed(
            "neither UDP nor TCP reaches it",
            "see that it runs, and what lies in between (`tracepath -n`)".to_owned(),
        ),
        (_, _, Some(NetState::Skipped) | None) => (
            NetState::Warning,
            "the tunnel was not asked",
            Some("start the agent: `systemctl start kedge-agent`".to_owned()),
        ),
    };
    NetTarget {
        name: name.to_owned(),
        endpoint: endpoint.to_owned(),
        state: verdict,
        because: because.to_owned(),
        fix,
        steps,
    }
}

/// The verdict on the way to the manager.
pub(super) fn of_manager(endpoint: &str, steps: Vec<NetStep>) -> NetTarget {
    let state = |step: &str| state(&steps, step);
    let refused = steps.iter().any(|it| it.because.contains("nobody listens"));
    let (verdict, because, fix) = match (state("name"), state("route"), state("tcp")) {
        (Some(NetState::Failed), ..) => failed(
            "its name has no address",
            "check the name, and this host's resolver (`resolvectl status`)".to_owned(),
        ),
        (_, Some(NetState::Failed), _) => failed(
            "there is no route to it",
            "check this host's addresses and routes (`ip route get`)".to_owned(),
        ),
        (_, _, Some(NetState::Ok)) if refused => failed(
            "its host is reached, and nobody listens",
            "see that the manager runs there, and that manager.url has its port".to_owned(),
        ),
        (_, _, Some(NetState::Ok)) => (NetState::Ok, "it is reached", None),
        _ => failed(
            "it is not reached",
            "let TCP out to it; this host goes on with what it was told last".to_owned(),
        ),
    };
    NetTarget {
        name: "manager".to_owned(),
        endpoint: endpoint.to_owned(),
        state: verdict,
        because: because.to_owned(),
        fix,
        steps,
    }
}

type Verdict<'a> = (NetState, &'a str, Option<String>);

const fn failed(because: &str, fix: String) -> Verdict<'_> {
    (NetState::Failed, because, Some(fix))
}

fn state(steps: &[NetStep], step: &str) -> Option<NetState> {
    steps.iter().find(|it| it.step == step).map(|it| it.state)
}

#[cfg(test)]
mod tests {
    use NetState::{Failed, Ok, Skipped, Warning};

    use super::*;

    fn steps(all: &[(&str, NetState)]) -> Vec<NetStep> {
        let step = |(step, state): &(&str, NetState)| super::super::step(step, *state, "seen");
        all.iter().map(step).collect()
    }

    #[test]
    fn a_gateway_is_judged_by_what_gets_through() {
        for (udp, mtu, tcp, state, because) in [
            (Ok, Ok, Ok, Ok, "the tunnel works"),
            (Ok, Skipped, Warning, Ok, "the tunnel works"),
            (Ok, Warning, Ok, Warning, "cuts or drops large packets"),
            (Warning, Ok, Ok, Warning, "nothing was answered in it"),
            (Failed, Ok, Ok, Failed, "reached by TCP, and UDP is not"),
            (Failed, Ok, Warning, Failed, "neither UDP nor TCP"),
            (Skipped, Skipped, Ok, Warning, "was not asked"),
        ] {
            let all = [
                ("name", Ok),
                ("route", Ok),
                ("udp", udp),
                ("mtu", mtu),
                ("tcp", tcp),
            ];
            let told = of_gateway("gw-0", "gw.example.com:51820", steps(&all));
            assert_eq!(told.state, state, "{udp:?} {mtu:?} {tcp:?}");
            assert!(told.because.contains(because), "{}", told.because);
            assert_eq!(told.fix.is_none(), state == Ok);
        }
        for (all, because) in [
            (&[("name", Failed), ("udp", Failed)][..], "no address"),
            (
                &[("name", Ok), ("route", Failed), ("udp", Failed)],
                "no route",
            ),
        ] {
            let told = of_gateway("gw-0", "gw.example.com:51820", steps(all));
            assert!(told.because.contains(because), "{}", told.because);
        }
        let blocked = [("name", Ok), ("route", Ok), ("udp", Failed), ("tcp", Ok)];
        let told = of_gateway("gw-0", "[2001:db8::1]:4500", steps(&blocked));
        assert!(told.fix.unwrap().contains("port 4500"));
        let mut over_tls = steps(&blocked);
        let because = "the tunnel goes over 203.0.113.7:443";
        over_tls.push(super::super::step("tls", Ok, because));
        let told = of_gateway("gw-0", "203.0.113.7:51820", over_tls);
        assert_eq!(told.state, Warning, "it works");
        assert!(told.because.contains("goes over TLS") && told.fix.is_some());
        let mut by_other = steps(&blocked);
        by_other[2].because = "UDP/51820 is silent: what answers comes by udp/443".to_owned();
        let told = of_gateway("gw-0", "203.0.113.7:51820", by_other);
        assert_eq!(told.state, Warning, "it works as well");
        assert!(told.because.contains("by another one") && told.fix.is_some());
        // It calls this host: there is no name and no route to try.
        let called = of_gateway("site/edge", "", steps(&[("name", Skipped), ("udp", Ok)]));
        assert_eq!(called.state, Ok);
    }

    #[test]
    fn the_manager_is_judged_by_tcp() {
        for (tcp, because, state) in [
            (Ok, "203.0.113.9:9443 accepts in 3 ms", Ok),
            (
                Ok,
                "203.0.113.9:9443 is reached; nobody listens on that port",
                Failed,
            ),
            (
                Warning,
                "203.0.113.9:9443 is not reached: timed out",
                Failed,
            ),
        ] {
            let mut all = steps(&[("name", Ok), ("route", Ok)]);
            all.push(super::super::step("tcp", tcp, because));
            assert_eq!(
                of_manager("203.0.113.9:9443", all).state,
                state,
                "{because}"
            );
        }
    }
}
