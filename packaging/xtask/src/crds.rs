//! The CustomResourceDefinitions: the types in `api/crd` write them, this keeps them in
//! `packaging/kubernetes/crds`, which is a folder of the chart: one copy for everybody.

use crate::generated::Generated;

/// Writes the definitions, or fails when they differ.
pub fn generate(check: bool) -> anyhow::Result<()> {
    DEFINITIONS.settle(check)
}

const DEFINITIONS: Generated = Generated {
    task: "crds",
    example: "crds",
    target: "packaging/kubernetes/crds",
};
