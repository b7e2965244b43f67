//go:build tools

// Package tools keeps the programs that are built from here in go.mod.
package tools

import _ "sigs.k8s.io/gateway-api/conformance/echo-basic"
