//go:build tools

// Package ipam pins the in-cluster IPAM provider that serves the tests' claims.
package ipam

import (
	_ "sigs.k8s.io/cluster-api-ipam-provider-in-cluster"
)
