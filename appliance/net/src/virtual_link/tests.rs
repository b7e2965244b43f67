use super::*;
use crate::{
    link::Links,
    netns::{Lease, Namespace, tests::root},
};

const MAC: Mac = [0, 0, 0x5e, 0, 1, 51];

fn purpose(parent: u32) -> Purpose {
    Purpose {
        parent,
        vrid: 51,
        family: Family::V4,
        mac: MAC,
    }
}

/// Runs in a namespace with the interfaces `lan0` and `lan1`, whose indices it is told.
fn with_two(job: impl FnOnce(&mut VirtualLinks, u32, u32) + Send + 'static) {
    if !root() {
        return;
    }
    let naming = Lease::take().unwrap();
    let host = Namespace::create(&naming.namespace("virtual")).unwrap();
    host.run(|| {
        let mut links = Links::open().unwrap();
        links.veth("lan0", "far0", None).unwrap();
        links.veth("lan1", "far1", None).unwrap();
        for name in ["lan0", "far0", "lan1", "far1"] {
            links.up(name).unwrap();
        }
        let (one, two) = (links.index("lan0").unwrap(), links.index("lan1").unwrap());
        job(&mut VirtualLinks::open().unwrap(), one, two);
    })
    .unwrap();
}

#[test]
fn a_link_is_made_once_and_is_down_and_an_earlier_one_is_taken_over() {
    with_two(|links, lan0, _| {
        let made = links.ensure(purpose(lan0)).unwrap();
        let again = VirtualLinks::open().unwrap().ensure(purpose(lan0)).unwrap();
        assert_eq!(made, again);
        let all = links.list().unwrap();
        let [link] = all.as_slice() else {
            panic!("{all:?}")
        };
        assert_eq!((link.index, link.name.as_str()), (made, "kedge-vr51-4"));
        assert_eq!(
            (link.mac, link.below, link.up),
            (Some(MAC), Some(lan0), false)
        );
        links.set(made, true).unwrap();
        assert!(links.list().unwrap()[0].is_running());
        links.lower_all().unwrap();
        assert!(!links.list().unwrap()[0].up);
        links.remove(made).unwrap();
        links.remove(made).unwrap();
        assert_eq!(links.list().unwrap(), []);
    });
}

#[test]
fn one_vrid_on_two_interfaces_has_two_links() {
    with_two(|links, lan0, lan1| {
        let one = links.ensure(purpose(lan0)).unwrap();
        let two = links.ensure(purpose(lan1)).unwrap();
        assert_ne!(one, two);
        let names: Vec<_> = links
            .list()
            .unwrap()
            .into_iter()
            .map(|it| it.name)
            .collect();
        assert_eq!(names, ["kedge-vr51-4", "kedge-vr51-4b"]);
        assert!(names.iter().all(|name| name.len() <= 15));
    });
}

#[test]
fn a_link_of_somebody_else_is_neither_used_nor_touched() {
    with_two(|links, lan0, _| {
        let theirs = LinkMessageBuilder::<LinkMacVlan>::new("kedge-vr51-4")
            .mode(MacVlanMode::Bridge)
            .link(lan0)
            .address(vec![2, 0, 0, 0, 0, 1])
            .build();
        let request = Message::NewLink(theirs);
        links
            .requests
            .change(request, NLM_F_CREATE | NLM_F_EXCL)
            .unwrap();
        Links::open().unwrap().up("kedge-vr51-4").unwrap();
        links.ensure(purpose(lan0)).unwrap();
        links.lower_all().unwrap();
        let ours: Vec<_> = links
            .list()
            .unwrap()
            .into_iter()
            .map(|it| it.name)
            .collect();
        assert_eq!(ours, ["kedge-vr51-4b"]);
        assert!(Links::open().unwrap().show("kedge-vr51-4").unwrap().up);
    });
}

#[test]
fn what_cannot_carry_one_says_so() {
    with_two(|links, _, _| {
        let error = links.ensure(purpose(9_999)).unwrap_err();
        assert_eq!(error.problem().code, Code::VipVirtualMac);
        assert_eq!(links.list().unwrap(), []);
    });
}

#[test]
fn the_longest_name_is_a_name() {
    let purpose = Purpose {
        vrid: 255,
        ..purpose(1)
    };
    assert!(purpose.names().all(|name| name.len() <= 15));
    assert_eq!(purpose.names().next().unwrap(), "kedge-vr255-4");
}
