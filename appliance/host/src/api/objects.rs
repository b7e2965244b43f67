//! Objects below the host's, one for each thing of a kind: made, changed and removed as what is shown changes.

use std::collections::BTreeMap;

use zbus::object_server::{Interface, InterfaceRef, ObjectServer, SignalEmitter};

use super::AGENT;

/// An object below the host's.
pub(super) trait Shown: Interface {
    type View: Clone + PartialEq + Send + Sync;

    fn view(&mut self) -> &mut Self::View;

    /// Says what has changed since `before`; the state last, so that whoever waits for it sees the rest.
    fn tell(
        &self,
        to: &SignalEmitter<'_>,
        before: &Self::View,
    ) -> impl Future<Output = zbus::Result<()>> + Send;
}

/// Makes, changes and removes objects of a kind, from what was shown to what is to be seen.
pub(super) async fn follow<T: Shown>(
    server: &ObjectServer,
    kind: &str,
    shown: &BTreeMap<String, T::View>,
    view: &BTreeMap<String, T::View>,
    make: impl Fn(&str, T::View) -> T,
) -> zbus::Result<()> {
    for name in shown.keys().filter(|name| !view.contains_key(*name)) {
        server.remove::<T, _>(path(kind, name)).await?;
    }
    for (name, now) in view {
        let Some(before) = shown.get(name) else {
            server.at(path(kind, name), make(name, now.clone())).await?;
            continue;
        };
        if before == now {
            continue;
        }
        let known: InterfaceRef<T> = server.interface(path(kind, name)).await?;
        known.get_mut().await.view().clone_from(now);
        known
            .get()
            .await
            .tell(known.signal_emitter(), before)
            .await?;
    }
    Ok(())
}

/// The object of a thing of that kind: what a path may not hold is written as systemd writes it.
pub(super) fn path(kind: &str, name: &str) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => c.to_string(),
        other => format!("_{:02x}", u32::from(other)),
    };
    let name: String = name.chars().map(plain).collect();
    format!("{AGENT}/{kind}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vip_has_a_path_of_its_own_that_the_bus_takes() {
        assert_eq!(path("vip", "api"), "/dev/kedge/Agent1/vip/api");
        assert_eq!(path("vip", "api-2"), "/dev/kedge/Agent1/vip/api_2d2");
        let taken = zbus::OwnedObjectPath::try_from(path("vip", "a-b_c"));
        assert!(taken.is_ok());
    }
}
