//! `kedge bgp …`.

use kedge_control::local::{BgpExplanation, BgpNeighbor, BgpNeighborList, BgpRouteList};
use kedge_host::Role;

use super::{get, segment, show};
use crate::{
    App,
    args::{BgpCommand, RouteDirection},
    client::{Answer, Failure},
    exit::Exit,
    show::Details,
};

pub(super) fn run(app: &App, command: &BgpCommand) -> Result<Exit, Failure> {
    match command {
        BgpCommand::Summary => get::<BgpNeighborList>(app, Role::Agent, NEIGHBORS),
        BgpCommand::Neighbors { name: None } => {
            let answer: Answer<BgpNeighborList> = app.client(Role::Agent).get(NEIGHBORS)?;
            show(app, &answer.shown_as(Details), Exit::Ok)
        }
        BgpCommand::Neighbors { name: Some(name) } => {
            get::<BgpNeighbor>(app, Role::Agent, &format!("{NEIGHBORS}/{}", segment(name)?))
        }
        BgpCommand::Routes(args) => {
            let direction = match args.direction {
                RouteDirection::Advertised => "advertised",
                RouteDirection::Received => "received",
            };
            let route = match &args.neighbor {
                None => format!("/v1/bgp/routes/{direction}"),
                Some(name) => format!("{NEIGHBORS}/{}/routes/{direction}", segment(name)?),
            };
            get::<BgpRouteList>(app, Role::Agent, &route)
        }
        BgpCommand::Explain { prefix } => {
            let route = format!("/v1/bgp/explain/{}", segment(prefix)?);
            get::<BgpExplanation>(app, Role::Agent, &route)
        }
    }
}

const NEIGHBORS: &str = "/v1/bgp/neighbors";
