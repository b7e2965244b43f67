//go:build tools

// Package clusterctl pins the clusterctl of the Cluster API that the tests run. A module of its own:
// the managers need not be built again when it changes.
package clusterctl

import (
	_ "sigs.k8s.io/cluster-api/cmd/clusterctl"
)
