module kedge.dev/tests/kube/neighbours

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.19.1
	sigs.k8s.io/external-dns v0.19.0
)
