//! Everything a store holds, packed, by namespace: what a change touches is all that is looked at.
//!
//! What belongs to a namespace is everything in it and the Tenants whose namespace it is. Other
//! cluster-scoped objects belong to all.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kedge_core::Problem;
use kedge_crd::{EdgeHostSpec, Resource as _, Tenant, TenantSpec, meta, tenant};

use super::{Layers, Name, ObjectKey, Objects, packed::Packed};

/// The objects of a namespace.
type Space = BTreeMap<Spot, Arc<Packed>>;

/// Everything a store holds.
#[derive(Debug, Default)]
pub struct Stock {
    spaces: BTreeMap<Arc<str>, Space>,
    kinds: BTreeSet<Arc<KindName>>,
    /// The namespace of every Tenant.
    tenants: BTreeMap<String, String>,
    /// Where objects changed that refer to kinds.
    referring: BTreeSet<Arc<str>>,
    changed: BTreeSet<Arc<str>>,
    all_changed: bool,
    problems: Vec<Problem>,
    incomplete: bool,
    version: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KindName {
    group: String,
    kind: String,
}

/// Where in a namespace an object is.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    kind: Arc<KindName>,
    name: Box<str>,
}

/// The objects of a namespace, to be unpacked where nobody waits for the stock.
#[derive(Debug, Default)]
pub struct Taken {
    items: Vec<(ObjectKey, Arc<Packed>)>,
    incomplete: bool,
    problems: Vec<Problem>,
}

impl Taken {
    /// The objects.
    #[must_use]
    pub fn open(self) -> Objects {
        let items = self.items.into_iter();
        Objects {
            by_key: items.map(|(key, packed)| (key, packed.open())).collect(),
            problems: self.problems,
            incomplete: self.incomplete,
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.items.len()
    }

    /// How many bytes they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.items.iter().map(|(_, packed)| packed.bytes()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// What changed since somebody last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// In these namespaces.
    pub spaces: BTreeSet<String>,
    /// In all of them.
    pub all: bool,
}

impl Stock {
    /// An object.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Layers> {
        self.packed(key).map(|packed| packed.open())
    }

    /// An object, packed.
    #[must_use]
    pub fn packed(&self, key: &ObjectKey) -> Option<&Arc<Packed>> {
        let spot = self.spot(key)?;
        self.spaces.get(key.name.namespace.as_str())?.get(&spot)
    }

    /// Keeps an object; says whether it differs from what was kept.
    pub fn put(&mut self, key: &ObjectKey, layers: &Layers) -> bool {
        let packed = Packed::new(layers);
        if self.packed(key).is_some_and(|last| **last == packed) {
            return false;
        }
        let kind = self.kind(key);
        let space = self.space_of(key);
        let spot = Spot {
            kind,
            name: key.name.name.as_str().into(),
        };
        let objects = self.spaces.entry(space).or_default();
        objects.insert(spot, Arc::new(packed));
        self.touched(key, Some(layers));
        true
    }

    /// Drops an object.
    pub fn remove(&mut self, key: &ObjectKey) {
        let Some(spot) = self.spot(key) else { return };
        let Some(objects) = self.spaces.get_mut(key.name.namespace.as_str()) else {
            return;
        };
        if objects.remove(&spot).is_some() {
            if objects.is_empty() {
                self.spaces.remove(key.name.namespace.as_str());
            }
            self.touched(key, None);
        }
    }

    /// Holds these objects from now on, and no others.
    pub fn replace(&mut self, objects: &Objects) {
        let gone: Vec<ObjectKey> = self
            .keys()
            .filter(|key| !objects.by_key.contains_key(key))
            .collect();
        for key in gone {
            self.remove(&key);
        }
        for (key, layers) in &objects.by_key {
            self.put(key, layers);
        }
        if self.problems != objects.problems {
            self.problems.clone_from(&objects.problems);
            self.version += 1;
        }
        self.set_incomplete(objects.incomplete);
    }

    /// Whether something is unknown: nothing may be taken for deleted then.
    pub fn set_incomplete(&mut self, incomplete: bool) {
        if self.incomplete != incomplete {
            self.incomplete = incomplete;
            self.all_changed = true;
            self.version += 1;
        }
    }

    /// Something that every namespace looks at changed.
    pub const fn touch_all(&mut self) {
        self.all_changed = true;
        self.version += 1;
    }

    /// What could not be read.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spaces.values().map(BTreeMap::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spaces.is_empty()
    }

    /// Every key.
    pub fn keys(&self) -> impl Iterator<Item = ObjectKey> + '_ {
        self.spaces.iter().flat_map(|(space, objects)| {
            let key = |spot: &Spot| spot.key(space);
            objects.keys().map(key)
        })
    }

    /// The keys of a kind's objects, in one namespace or in all.
    pub fn keys_of<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
        space: Option<&'a str>,
    ) -> impl Iterator<Item = ObjectKey> + 'a {
        let of_kind = move |spot: &&Spot| spot.kind.group == group && spot.kind.kind == kind;
        self.spaces_of(space).flat_map(move |(space, objects)| {
            let spots = objects.keys().filter(of_kind);
            spots.map(move |spot| spot.key(space))
        })
    }

    /// One namespace, or all.
    fn spaces_of(&self, space: Option<&str>) -> impl Iterator<Item = (&Arc<str>, &Space)> {
        let (one, all) = match space {
            Some(space) => (self.spaces.get_key_value(space), None),
            None => (None, Some(self.spaces.iter())),
        };
        one.into_iter().chain(all.into_iter().flatten())
    }

    /// The namespaces that objects belong to.
    #[must_use]
    pub fn spaces(&self) -> BTreeSet<String> {
        let spaces = self.spaces.keys().filter(|space| !space.is_empty());
        let all = spaces.map(ToString::to_string);
        all.chain(self.tenants.values().cloned()).collect()
    }

    /// What belongs to a namespace, and what belongs to all.
    #[must_use]
    pub fn take(&self, space: &str) -> Taken {
        let own = self.spaces.get_key_value(space);
        let shared = self.spaces.get_key_value("").filter(|_| !space.is_empty());
        let mut items = Vec::new();
        for (space_name, objects) in shared.into_iter().chain(own) {
            for (spot, packed) in objects {
                let elsewhere = space_name.is_empty()
                    && spot.kind.is_tenant()
                    && self.tenants.get(&*spot.name).is_none_or(|at| at != space);
                if !elsewhere {
                    items.push((spot.key(space_name), Arc::clone(packed)));
                }
            }
        }
        Taken {
            items,
            incomplete: self.incomplete,
            problems: Vec::new(),
        }
    }

    /// Everything.
    #[must_use]
    pub fn take_all(&self) -> Taken {
        let items = self.spaces.iter().flat_map(|(space, objects)| {
            let objects = objects.iter();
            objects.map(|(spot, packed)| (spot.key(space), Arc::clone(packed)))
        });
        Taken {
            items: items.collect(),
            incomplete: self.incomplete,
            problems: self.problems.clone(),
        }
    }

    /// Whether there is an object of a kind.
    #[must_use]
    pub fn has_kind(&self, group: &str, kind: &str) -> bool {
        let mut all = self.spaces.values().flat_map(BTreeMap::keys);
        let mut kinds = self.kinds.iter();
        kinds.any(|known| known.group == group && known.kind == kind)
            && all.any(|spot| spot.kind.group == group && spot.kind.kind == kind)
    }

    /// The objects of a kind, in one namespace or in all.
    #[must_use]
    pub fn take_kind(&self, group: &str, kind: &str, space: Option<&str>) -> Taken {
        let items = self.spaces_of(space).flat_map(|(space, objects)| {
            let of_kind = objects
                .iter()
                .filter(|(spot, _)| spot.kind.group == group && spot.kind.kind == kind);
            of_kind.map(|(spot, packed)| (spot.key(space), Arc::clone(packed)))
        });
        Taken {
            items: items.collect(),
            incomplete: self.incomplete,
            problems: Vec::new(),
        }
    }

    /// The objects of that kind and name, in whatever namespace.
    #[must_use]
    pub fn take_named(&self, group: &str, kind: &str, name: &str) -> Taken {
        let spaces = self.spaces.keys();
        let keys = spaces.map(|space| ObjectKey::new(group, kind, Name::new(&**space, name)));
        let items = keys.filter_map(|key| Some((key.clone(), Arc::clone(self.packed(&key)?))));
        Taken {
            items: items.collect(),
            ..Taken::default()
        }
    }

    /// The objects of the namespaces in which something that may refer to kinds changed since this
    /// was last asked.
    pub fn referring(&mut self) -> Vec<Taken> {
        let spaces = std::mem::take(&mut self.referring);
        let taken = spaces.iter().map(|space| {
            let mut taken = self.take(space);
            taken.items.retain(|(key, _)| refers(key));
            taken
        });
        taken.collect()
    }

    /// The namespaces of Tenants.
    pub fn tenants(&self) -> impl Iterator<Item = &String> {
        self.tenants.values()
    }

    /// Grows with every change.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// What changed since this was last asked.
    pub fn changes(&mut self) -> Changes {
        let spaces = std::mem::take(&mut self.changed);
        Changes {
            spaces: spaces.iter().map(ToString::to_string).collect(),
            all: std::mem::take(&mut self.all_changed),
        }
    }

    /// Whether anything changed.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.all_changed || !self.changed.is_empty()
    }

    fn touched(&mut self, key: &ObjectKey, layers: Option<&Layers>) {
        self.version += 1;
        let ObjectKey { group, kind, name } = key;
        if refers(key) {
            self.referring.insert(name.namespace.as_str().into());
        }
        if !name.namespace.is_empty() {
            self.changed.insert(name.namespace.as_str().into());
            return;
        }
        if group != meta::GROUP || kind != TenantSpec::KIND {
            self.all_changed = true;
            return;
        }
        let now = layers.map(|layers| match layers.as_written::<Tenant>() {
            Some(tenant) => tenant::namespace(&tenant),
            // A status alone is what is left of it: whoever had it clears it up.
            None => self.tenants.get(&name.name).cloned().unwrap_or_else(|| {
                let blank = Tenant::new("", &name.name, TenantSpec::default());
                tenant::namespace(&blank)
            }),
        });
        let last = match &now {
            Some(now) => self.tenants.insert(name.name.clone(), now.clone()),
            None => self.tenants.remove(&name.name),
        };
        for space in now.into_iter().chain(last) {
            // A Tenant is among the objects of its namespace.
            self.referring.insert(space.as_str().into());
            self.changed.insert(space.into());
        }
    }

    fn space_of(&self, key: &ObjectKey) -> Arc<str> {
        let known = self.spaces.get_key_value(key.name.namespace.as_str());
        known.map_or_else(
            || key.name.namespace.as_str().into(),
            |(space, _)| Arc::clone(space),
        )
    }

    fn kind(&mut self, key: &ObjectKey) -> Arc<KindName> {
        if let Some(known) = self.known(key) {
            return Arc::clone(known);
        }
        let kind = Arc::new(KindName {
            group: key.group.clone(),
            kind: key.kind.clone(),
        });
        self.kinds.insert(Arc::clone(&kind));
        kind
    }

    /// Its kind, if there is such an object. There are few, and a name to look it up by costs more.
    fn known(&self, key: &ObjectKey) -> Option<&Arc<KindName>> {
        let mut kinds = self.kinds.iter();
        kinds.find(|known| known.kind == key.kind && known.group == key.group)
    }

    fn spot(&self, key: &ObjectKey) -> Option<Spot> {
        let kind = Arc::clone(self.known(key)?);
        let name = key.name.name.as_str().into();
        Some(Spot { kind, name })
    }
}

/// Whether the object may refer to kinds. Hosts and Machines are many, and refer to nothing that
/// others do not.
fn refers(key: &ObjectKey) -> bool {
    !key.group.is_empty() && key.kind != EdgeHostSpec::KIND && key.kind != "Machine"
}

impl KindName {
    fn is_tenant(&self) -> bool {
        self.group == meta::GROUP && self.kind == TenantSpec::KIND
    }
}

impl Spot {
    fn key(&self, space: &str) -> ObjectKey {
        let name = Name::new(space, &*self.name);
        ObjectKey::new(&self.kind.group, &self.kind.kind, name)
    }
}

#[cfg(test)]
mod tests;
