// The Gateway API's conformance suite as a program: go build makes no test binaries.
package main

import (
	"regexp"
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

func main() {
	matches := func(pattern, name string) (bool, error) {
		return regexp.MatchString(pattern, name)
	}
	tests := []testing.InternalTest{{Name: "TestConformance", F: conformance.RunConformance}}
	testing.Main(matches, tests, nil, nil)
}
