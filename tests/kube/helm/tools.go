//go:build tools

// Package helm pins the helm that installs the chart in tests.
package helm

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
