//go:build tools

// Package capi pins the managers of Cluster API that the tests run: they are built from this module
// because a module with a local replacement cannot be installed by version.
package capi

import (
	_ "sigs.k8s.io/cluster-api/bootstrap/kubeadm"
	_ "sigs.k8s.io/cluster-api/controlplane/kubeadm"
	_ "sigs.k8s.io/cluster-api/core"
)
